// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate.h"

#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "agent/openssl/openssl.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/wall_time.h"

namespace holdfast::agent {
namespace {

using openssl::Attributes;
using openssl::LastError;
using openssl::Ptr;

template <class T, class Encode>
Result<std::string> Der(const T* object, Encode encode, const char* what) {
  unsigned char* bytes = nullptr;
  const int size = encode(object, &bytes);
  if (size <= 0) return LastError(what);
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  ::OPENSSL_free(bytes);
  return text;
}

Result<std::string> PublicKey(const EVP_PKEY* key) { return Der(key, ::i2d_PUBKEY, "public key"); }

bool AddName(X509_NAME* name, const char* field, const std::string& value) {
  return ::X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(value.data()),
                                      static_cast<int>(value.size()), -1, 0) == 1;
}

bool AddAlternative(GENERAL_NAMES* names, int type, const std::string& bytes) {
  GENERAL_NAME* name = ::GENERAL_NAME_new();
  ASN1_STRING* value = type == GEN_IPADD ? ::ASN1_OCTET_STRING_new() : ::ASN1_IA5STRING_new();
  if (name == nullptr || value == nullptr) return false;
  ::ASN1_STRING_set(value, bytes.data(), static_cast<int>(bytes.size()));
  ::GENERAL_NAME_set0_value(name, type, value);
  return sk_GENERAL_NAME_push(names, name) > 0;
}

Result<Ptr<GENERAL_NAMES>> Alternatives(const CertificateSubject& subject) {
  Ptr<GENERAL_NAMES> names(::GENERAL_NAMES_new());
  for (const std::string& dns : subject.dns_names) {
    if (!AddAlternative(names.get(), GEN_DNS, dns)) return LastError("subjectAltName");
  }
  for (const std::string& text : subject.ip_addresses) {
    ASSIGN_OR_RETURN(const IpAddress address, IpAddress::Parse(text));
    const std::string bytes(address.bytes.begin(), address.bytes.begin() + address.size());
    if (!AddAlternative(names.get(), GEN_IPADD, bytes)) return LastError("subjectAltName");
  }
  return names;
}

Result<void> AddAlternatives(X509_REQ* request, const CertificateSubject& subject) {
  if (subject.dns_names.empty() && subject.ip_addresses.empty()) return {};
  ASSIGN_OR_RETURN(const auto names, Alternatives(subject));
  Ptr<X509_EXTENSION> extension(::X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
  Ptr<STACK_OF(X509_EXTENSION)> list(sk_X509_EXTENSION_new_null());
  if (!extension || !list || sk_X509_EXTENSION_push(list.get(), extension.get()) <= 0) {
    return LastError("subjectAltName");
  }
  (void)extension.release();  // the list's
  if (::X509_REQ_add_extensions(request, list.get()) != 1) return LastError("subjectAltName");
  return {};
}

Result<void> AddSubject(X509_REQ* request, const CertificateSubject& subject) {
  X509_NAME* name = ::X509_REQ_get_subject_name(request);
  for (const std::string& organization : subject.organizations) {
    if (!AddName(name, "O", organization)) return LastError("subject");
  }
  if (!AddName(name, "CN", subject.common_name)) return LastError("subject");
  return AddAlternatives(request, subject);
}

std::string BytesOf(const ASN1_STRING* value) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(value)),
          static_cast<size_t>(::ASN1_STRING_length(value))};
}

void ReadAlternatives(const X509* certificate, CertificateSubject& subject) {
  const Ptr<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
      ::X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  if (!names) return;
  for (int i = 0; i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) subject.dns_names.push_back(BytesOf(name->d.dNSName));
    if (name->type != GEN_IPADD) continue;
    const std::string bytes = BytesOf(name->d.iPAddress);
    if (bytes.size() != 4 && bytes.size() != 16) continue;
    subject.ip_addresses.push_back(
        IpAddress::FromBytes(bytes.size() == 16, bytes.data()).ToString());
  }
}

Result<WallTime> ReadTime(const ASN1_TIME* time) {
  tm parts{};
  if (time == nullptr || ::ASN1_TIME_to_tm(time, &parts) != 1)
    return LastError("certificate's time");
  return WallTimeOf(::timegm(&parts));
}

// The first bytes of the digest of the whole, as a share of their range.
Result<double> ShareOf(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::X509_digest(certificate, ::EVP_sha256(), digest.data(), &size) != 1) {
    return LastError("certificate");
  }
  const uint32_t first = static_cast<uint32_t>(digest[0]) << 24 |
                         static_cast<uint32_t>(digest[1]) << 16 |
                         static_cast<uint32_t>(digest[2]) << 8 | digest[3];
  return static_cast<double>(first) / 4294967296.0;
}

}  // namespace

Result<std::string> NewPrivateKey() {
  ASSIGN_OR_RETURN(const Ptr<EVP_PKEY> key, openssl::NewKey());
  return openssl::KeyText(key.get());
}

Result<std::string> MakeCertificateRequest(const std::string& key_pem,
                                           const CertificateSubject& subject) {
  ASSIGN_OR_RETURN(const auto key, openssl::ReadKey(key_pem));
  const Ptr<X509_REQ> request(::X509_REQ_new());
  if (!request || ::X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      ::X509_REQ_set_pubkey(request.get(), key.get()) != 1) {
    return LastError("certificate request");
  }
  RETURN_IF_ERROR(AddSubject(request.get(), subject));
  const Ptr<BIO> out(::BIO_new(::BIO_s_mem()));
  if (::X509_REQ_sign(request.get(), key.get(), ::EVP_sha256()) <= 0 ||
      ::PEM_write_bio_X509_REQ(out.get(), request.get()) != 1) {
    return LastError("certificate request");
  }
  return openssl::TextOf(out.get());
}

Result<std::string> PublicKeyOfKey(const std::string& key_pem) {
  ASSIGN_OR_RETURN(const auto key, openssl::ReadKey(key_pem));
  return PublicKey(key.get());
}

Result<std::string> PublicKeyOfRequest(const std::string& request_pem) {
  const auto bio = openssl::Reading(request_pem);
  const Ptr<X509_REQ> request(::PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
  if (!request) return LastError("certificate request");
  return PublicKey(::X509_REQ_get0_pubkey(request.get()));
}

std::string EncodeBase64Url(const std::string& bytes) {
  std::string text = EncodeBase64(bytes);
  text.resize(std::min(text.size(), text.find('=')));
  for (char& c : text) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return text;
}

std::string DigestOf(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  // Without memory it is empty, and the API server refuses a request of such a name.
  (void)::EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, ::EVP_sha512_256(), nullptr);
  return EncodeBase64Url(std::string(reinterpret_cast<const char*>(digest.data()), size));
}

Result<CertificateFacts> ReadCertificate(const std::string& chain_pem) {
  ASSIGN_OR_RETURN(const auto chain, openssl::ReadCertificates(chain_pem));
  const X509* const certificate = chain.front().get();
  CertificateFacts facts;
  const X509_NAME* name = ::X509_get_subject_name(certificate);
  // More than one name is none: who reads the first one and who reads the last would not agree.
  const auto names = Attributes(name, OBJ_nid2obj(NID_commonName));
  if (names.size() == 1) facts.subject.common_name = names.front();
  facts.subject.organizations = Attributes(name, OBJ_nid2obj(NID_organizationName));
  ReadAlternatives(certificate, facts.subject);
  ASSIGN_OR_RETURN(facts.not_before, ReadTime(::X509_get0_notBefore(certificate)));
  ASSIGN_OR_RETURN(facts.not_after, ReadTime(::X509_get0_notAfter(certificate)));
  ASSIGN_OR_RETURN(facts.share, ShareOf(certificate));
  return facts;
}

Result<void> CheckPair(const CertificatePair& pair) {
  ASSIGN_OR_RETURN(const auto chain, openssl::ReadCertificates(pair.chain_pem));
  ASSIGN_OR_RETURN(const auto key, openssl::ReadKey(pair.key_pem));
  if (!openssl::IsKeyOf(chain.front().get(), key.get())) {
    return InvalidArgument("the key is not the certificate's");
  }
  return {};
}

}  // namespace holdfast::agent
