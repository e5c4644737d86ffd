// SPDX-License-Identifier: Apache-2.0
// Keys, requests and certificates as PEM texts. Thread-safe: no state. Keys never leave this process but into the
// files that the caller names. Errors name what was read. Source: x509(7ssl), PEM_read_bio_PrivateKey(3ssl).
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// Whom a certificate names.
struct CertificateSubject {
  std::string common_name;
  std::vector<std::string> organizations;
  std::vector<std::string> dns_names;
  std::vector<std::string> ip_addresses;
  bool operator==(const CertificateSubject&) const = default;
};

struct CertificateFacts {
  CertificateSubject subject;
  WallTime not_before, not_after;
  double share = 0;  // of its own, from 0 to below 1, spread evenly over certificates
};

// A certificate with those that lead to its authority, and its key.
struct CertificatePair {
  std::string chain_pem, key_pem;
  bool operator==(const CertificatePair&) const = default;
};

// Of the curve P-256.
Result<std::string> NewPrivateKey();

// A "CERTIFICATE REQUEST" signed with that key.
Result<std::string> MakeCertificateRequest(const std::string& key_pem,
                                           const CertificateSubject& subject);

// The public key as SubjectPublicKeyInfo in DER: of a key, of a request.
Result<std::string> PublicKeyOfKey(const std::string& key_pem);
Result<std::string> PublicKeyOfRequest(const std::string& request_pem);

// SHA-512/256 of the bytes, in base 64 for addresses without padding.
std::string DigestOf(const std::string& bytes);
std::string EncodeBase64Url(const std::string& bytes);

// Of the first certificate.
Result<CertificateFacts> ReadCertificate(const std::string& chain_pem);

// kInvalidArgument unless the first certificate is that key's.
Result<void> CheckPair(const CertificatePair& pair);

}  // namespace holdfast::agent
