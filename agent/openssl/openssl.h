// SPDX-License-Identifier: Apache-2.0
// OpenSSL's objects with owners, its errors as ours, and the PEM texts that several rooms read and
// write. Every function that fails leaves the thread's queue of errors empty. Thread-safe.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::openssl {

struct Free {
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_REQ* p) const { X509_REQ_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
  void operator()(STACK_OF(X509) * p) const { sk_X509_pop_free(p, X509_free); }
  void operator()(STACK_OF(X509_EXTENSION) * p) const {
    sk_X509_EXTENSION_pop_free(p, X509_EXTENSION_free);
  }
};
template <class T>
using Ptr = std::unique_ptr<T, Free>;

// Why the last call of the library failed.
std::string Reason();
// kInvalidArgument, "WHAT: REASON".
Error LastError(std::string_view what);

Ptr<BIO> Reading(std::string_view text);  // which outlives it
std::string TextOf(BIO* bio);

Result<Ptr<EVP_PKEY>> NewKey();  // ECDSA, P-256
Result<std::string> KeyText(const EVP_PKEY* key);
// A key with a pass phrase has nobody to type it, and is refused.
Result<Ptr<EVP_PKEY>> ReadKey(std::string_view pem);
// Each certificate of the text, at least one.
Result<std::vector<Ptr<X509>>> ReadCertificates(std::string_view pem);
// All values of one kind (NID_commonName, …) in a subject, in order, as UTF-8.
std::vector<std::string> Attributes(const X509_NAME* subject, const ASN1_OBJECT* kind);
bool IsKeyOf(const X509* certificate, const EVP_PKEY* key);

}  // namespace holdfast::agent::openssl
