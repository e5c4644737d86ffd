// SPDX-License-Identifier: Apache-2.0
#include "agent/openssl/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "holdfast/base/strings.h"

namespace holdfast::agent::openssl {
namespace {

// Its own would ask on the terminal.
int NoPassPhrase(char*, int, int, void*) { return -1; }

std::string Utf8(const ASN1_STRING* text) {
  unsigned char* bytes = nullptr;
  const int size = ASN1_STRING_to_UTF8(&bytes, text);
  if (size < 0) return "";
  std::string out(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
  OPENSSL_free(bytes);
  return out;
}

}  // namespace

std::string Reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "failed";
}

Error LastError(std::string_view what) { return InvalidArgument(StrCat(what, ": ", Reason())); }

Ptr<BIO> Reading(std::string_view text) {
  return Ptr<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

Result<Ptr<EVP_PKEY>> NewKey() {
  Ptr<EVP_PKEY> key(EVP_EC_gen("P-256"));
  if (!key) return LastError("make a private key");
  return key;
}

Result<std::string> KeyText(const EVP_PKEY* key) {
  const Ptr<BIO> out(BIO_new(BIO_s_secmem()));
  if (!out || PEM_write_bio_PrivateKey_traditional(out.get(), key, nullptr, nullptr, 0, nullptr,
                                                   nullptr) != 1) {
    return LastError("write a private key");
  }
  return TextOf(out.get());
}

Result<Ptr<EVP_PKEY>> ReadKey(std::string_view pem) {
  const Ptr<BIO> bio = Reading(pem);
  Ptr<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (!key) return LastError("private key");
  return key;
}

Result<std::vector<Ptr<X509>>> ReadCertificates(std::string_view pem) {
  std::vector<Ptr<X509>> out;
  const Ptr<BIO> bio = Reading(pem);
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, NoPassPhrase, nullptr)) {
    out.emplace_back(one);
  }
  const std::string reason = Reason();  // the end of the text is an error, too
  if (out.empty()) return InvalidArgument(StrCat("no PEM certificate in it: ", reason));
  return out;
}

std::vector<std::string> Attributes(const X509_NAME* subject, const ASN1_OBJECT* kind) {
  std::vector<std::string> out;
  for (int at = X509_NAME_get_index_by_OBJ(subject, kind, -1); at >= 0;
       at = X509_NAME_get_index_by_OBJ(subject, kind, at)) {
    out.push_back(Utf8(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at))));
  }
  return out;
}

bool IsKeyOf(const X509* certificate, const EVP_PKEY* key) {
  if (X509_check_private_key(certificate, key) == 1) return true;
  ERR_clear_error();
  return false;
}

}  // namespace holdfast::agent::openssl
