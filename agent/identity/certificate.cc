// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>

#include "agent/kube/base64.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(X509_REQ* request) const { ::X509_REQ_free(request); }
  void operator()(BIO* bio) const { ::BIO_free_all(bio); }
  void operator()(GENERAL_NAMES* names) const { ::GENERAL_NAMES_free(names); }
  void operator()(X509_EXTENSION* extension) const { ::X509_EXTENSION_free(extension); }
  void operator()(STACK_OF(X509_EXTENSION) * list) const {
    sk_X509_EXTENSION_pop_free(list, ::X509_EXTENSION_free);
  }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Why the last call of the library failed; its queue of errors is empty then.
std::string Why() {
  const unsigned long code = ::ERR_peek_error();
  ::ERR_clear_error();
  if (code == 0) return "failed";
  const char* reason = ::ERR_reason_error_string(code);
  return reason != nullptr ? reason : "failed";
}

Error Failed(std::string_view what) { return InvalidArgument(StrCat(what, ": ", Why())); }

Owned<BIO> Reader(const std::string& text) {
  return Owned<BIO>(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = ::BIO_get_mem_data(bio, &data);
  return size <= 0 ? std::string() : std::string(data, static_cast<size_t>(size));
}

// A key with a pass phrase has nobody to type it.
int NoPassPhrase(char*, int, int, void*) { return -1; }

Result<Owned<EVP_PKEY>> ParseKey(const std::string& pem) {
  const auto bio = Reader(pem);
  Owned<EVP_PKEY> key(::PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (!key) return Failed("private key");
  return key;
}

Result<Owned<X509>> ParseCertificate(const std::string& pem) {
  const auto bio = Reader(pem);
  Owned<X509> certificate(::PEM_read_bio_X509(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (!certificate) return Failed("certificate");
  return certificate;
}

template <class T, class Encode>
Result<std::string> Der(const T* object, Encode encode, const char* what) {
  unsigned char* bytes = nullptr;
  const int size = encode(object, &bytes);
  if (size <= 0) return Failed(what);
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

Result<Owned<GENERAL_NAMES>> Alternatives(const CertificateSubject& subject) {
  Owned<GENERAL_NAMES> names(::GENERAL_NAMES_new());
  for (const std::string& dns : subject.dns_names) {
    if (!AddAlternative(names.get(), GEN_DNS, dns)) return Failed("subjectAltName");
  }
  for (const std::string& text : subject.ip_addresses) {
    ASSIGN_OR_RETURN(const IpAddress address, IpAddress::Parse(text));
    const std::string bytes(address.bytes.begin(), address.bytes.begin() + address.size());
    if (!AddAlternative(names.get(), GEN_IPADD, bytes)) return Failed("subjectAltName");
  }
  return names;
}

Result<void> AddAlternatives(X509_REQ* request, const CertificateSubject& subject) {
  if (subject.dns_names.empty() && subject.ip_addresses.empty()) return {};
  ASSIGN_OR_RETURN(const auto names, Alternatives(subject));
  Owned<X509_EXTENSION> extension(::X509V3_EXT_i2d(NID_subject_alt_name, 0, names.get()));
  Owned<STACK_OF(X509_EXTENSION)> list(sk_X509_EXTENSION_new_null());
  if (!extension || !list || sk_X509_EXTENSION_push(list.get(), extension.get()) <= 0) {
    return Failed("subjectAltName");
  }
  (void)extension.release();  // the list's
  if (::X509_REQ_add_extensions(request, list.get()) != 1) return Failed("subjectAltName");
  return {};
}

Result<void> AddSubject(X509_REQ* request, const CertificateSubject& subject) {
  X509_NAME* name = ::X509_REQ_get_subject_name(request);
  for (const std::string& organization : subject.organizations) {
    if (!AddName(name, "O", organization)) return Failed("subject");
  }
  if (!AddName(name, "CN", subject.common_name)) return Failed("subject");
  return AddAlternatives(request, subject);
}

std::string TextOf(const ASN1_STRING* value) {
  unsigned char* bytes = nullptr;
  const int size = ::ASN1_STRING_to_UTF8(&bytes, value);
  if (size < 0) return "";
  std::string text(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  ::OPENSSL_free(bytes);
  return text;
}

std::vector<std::string> Entries(const X509_NAME* name, int nid) {
  std::vector<std::string> found;
  for (int i = -1; (i = ::X509_NAME_get_index_by_NID(name, nid, i)) >= 0;) {
    const X509_NAME_ENTRY* entry = ::X509_NAME_get_entry(name, i);
    found.push_back(TextOf(::X509_NAME_ENTRY_get_data(entry)));
  }
  return found;
}

std::string BytesOf(const ASN1_STRING* value) {
  return {reinterpret_cast<const char*>(::ASN1_STRING_get0_data(value)),
          static_cast<size_t>(::ASN1_STRING_length(value))};
}

void ReadAlternatives(const X509* certificate, CertificateSubject& subject) {
  const Owned<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
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
  if (time == nullptr || ::ASN1_TIME_to_tm(time, &parts) != 1) return Failed("certificate's time");
  return WallTime{std::chrono::seconds(::timegm(&parts))};
}

// The first bytes of the digest of the whole, as a share of their range.
Result<double> ShareOf(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (::X509_digest(certificate, ::EVP_sha256(), digest.data(), &size) != 1) {
    return Failed("certificate");
  }
  const uint32_t first = static_cast<uint32_t>(digest[0]) << 24 |
                         static_cast<uint32_t>(digest[1]) << 16 |
                         static_cast<uint32_t>(digest[2]) << 8 | digest[3];
  return static_cast<double>(first) / 4294967296.0;
}

}  // namespace

Result<std::string> NewPrivateKey() {
  const Owned<EVP_PKEY> key(EVP_EC_gen("P-256"));
  const Owned<BIO> out(::BIO_new(::BIO_s_secmem()));
  if (!key || !out ||
      ::PEM_write_bio_PrivateKey_traditional(out.get(), key.get(), nullptr, nullptr, 0, nullptr,
                                             nullptr) != 1) {
    return Internal(StrCat("make a private key: ", Why()));
  }
  return TextOf(out.get());
}

Result<std::string> MakeCertificateRequest(const std::string& key_pem,
                                           const CertificateSubject& subject) {
  ASSIGN_OR_RETURN(const auto key, ParseKey(key_pem));
  const Owned<X509_REQ> request(::X509_REQ_new());
  if (!request || ::X509_REQ_set_version(request.get(), X509_REQ_VERSION_1) != 1 ||
      ::X509_REQ_set_pubkey(request.get(), key.get()) != 1) {
    return Failed("certificate request");
  }
  RETURN_IF_ERROR(AddSubject(request.get(), subject));
  const Owned<BIO> out(::BIO_new(::BIO_s_mem()));
  if (::X509_REQ_sign(request.get(), key.get(), ::EVP_sha256()) <= 0 ||
      ::PEM_write_bio_X509_REQ(out.get(), request.get()) != 1) {
    return Failed("certificate request");
  }
  return TextOf(out.get());
}

Result<std::string> PublicKeyOfKey(const std::string& key_pem) {
  ASSIGN_OR_RETURN(const auto key, ParseKey(key_pem));
  return PublicKey(key.get());
}

Result<std::string> PublicKeyOfRequest(const std::string& request_pem) {
  const auto bio = Reader(request_pem);
  const Owned<X509_REQ> request(::PEM_read_bio_X509_REQ(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (!request) return Failed("certificate request");
  return PublicKey(::X509_REQ_get0_pubkey(request.get()));
}

std::string EncodeBase64Url(const std::string& bytes) {
  std::string text = kube::EncodeBase64(bytes);
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
  ASSIGN_OR_RETURN(const auto certificate, ParseCertificate(chain_pem));
  CertificateFacts facts;
  const X509_NAME* name = ::X509_get_subject_name(certificate.get());
  // More than one name is none: who reads the first one and who reads the last would not agree.
  const auto names = Entries(name, NID_commonName);
  if (names.size() == 1) facts.subject.common_name = names.front();
  facts.subject.organizations = Entries(name, NID_organizationName);
  ReadAlternatives(certificate.get(), facts.subject);
  ASSIGN_OR_RETURN(facts.not_before, ReadTime(::X509_get0_notBefore(certificate.get())));
  ASSIGN_OR_RETURN(facts.not_after, ReadTime(::X509_get0_notAfter(certificate.get())));
  ASSIGN_OR_RETURN(facts.share, ShareOf(certificate.get()));
  return facts;
}

Result<void> CheckPair(const CertificatePair& pair) {
  ASSIGN_OR_RETURN(const auto certificate, ParseCertificate(pair.chain_pem));
  ASSIGN_OR_RETURN(const auto key, ParseKey(pair.key_pem));
  if (::X509_check_private_key(certificate.get(), key.get()) != 1) {
    (void)Why();  // taken from the library's queue, so that nobody else finds it there
    return InvalidArgument("the key is not the certificate's");
  }
  return {};
}

}  // namespace holdfast::agent
