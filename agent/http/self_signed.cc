// SPDX-License-Identifier: Apache-2.0
#include "agent/http/self_signed.h"

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>

#include <cstdint>
#include <ctime>
#include <utility>

#include "agent/openssl/openssl.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using openssl::LastError;
using openssl::Ptr;

Result<void> Extend(X509* certificate, int kind, const std::string& value) {
  const Ptr<X509_EXTENSION> extension(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return LastError(StrCat("certificate extension ", value));
  }
  return {};
}

// Added one by one: in OpenSSL's textual form a name with a comma would be several.
Result<void> AddNames(X509* certificate, const std::vector<std::string>& names) {
  const Ptr<GENERAL_NAMES> all(sk_GENERAL_NAME_new_null());
  for (const std::string& name : names) {
    const int kind = IpAddress::Parse(name) ? GEN_IPADD : GEN_DNS;
    GENERAL_NAME* one =
        a2i_GENERAL_NAME(nullptr, nullptr, nullptr, kind, const_cast<char*>(name.c_str()), 0);
    if (one == nullptr) return LastError(StrCat("certificate name ", name));
    sk_GENERAL_NAME_push(all.get(), one);
  }
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, all.get(), 0, X509V3_ADD_DEFAULT) != 1) {
    return LastError("certificate names");
  }
  return {};
}

Result<void> SetSerial(X509* certificate) {
  uint64_t serial = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) != 1) {
    return LastError("random serial number");
  }
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial >> 1 | 1);
  return {};
}

void SetSubject(X509* certificate, const std::string& name) {
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(name.c_str());
  // A common name has at most 64 letters; the names that count are beside it.
  const int size = static_cast<int>(std::min<size_t>(name.size(), 64));
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, text, size, -1, 0);
  X509_set_issuer_name(certificate, subject);
}

std::string Written(X509* certificate) {
  const Ptr<BIO> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return openssl::TextOf(bio.get());
}

}  // namespace

Result<KeyPair> MakeSelfSigned(const std::vector<std::string>& names, std::chrono::hours life) {
  ASSIGN_OR_RETURN(const Ptr<EVP_PKEY> key, openssl::NewKey());
  const Ptr<X509> made(X509_new());
  if (!made) return LastError("make a certificate");
  X509_set_version(made.get(), X509_VERSION_3);
  RETURN_IF_ERROR(SetSerial(made.get()));
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), std::chrono::seconds(life).count());
  X509_set_pubkey(made.get(), key.get());
  SetSubject(made.get(), names.front());
  RETURN_IF_ERROR(Extend(made.get(), NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(Extend(made.get(), NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(Extend(made.get(), NID_ext_key_usage, "serverAuth"));
  RETURN_IF_ERROR(AddNames(made.get(), names));
  if (X509_sign(made.get(), key.get(), EVP_sha256()) == 0) return LastError("sign a certificate");
  ASSIGN_OR_RETURN(std::string key_pem, openssl::KeyText(key.get()));
  return KeyPair{Written(made.get()), std::move(key_pem)};
}

bool IsUsable(const KeyPair& pair, std::chrono::hours margin) {
  const auto chain = openssl::ReadCertificates(pair.chain_pem);
  const auto key = openssl::ReadKey(pair.key_pem);
  if (!chain || !key) return false;
  const X509* const leaf = chain->front().get();
  std::time_t now = std::time(nullptr);
  std::time_t later = now + std::chrono::seconds(margin).count();
  return openssl::IsKeyOf(leaf, key->get()) && X509_cmp_time(X509_get0_notBefore(leaf), &now) < 0 &&
         X509_cmp_time(X509_get0_notAfter(leaf), &later) > 0;
}

}  // namespace holdfast::agent
