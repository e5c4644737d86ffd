// SPDX-License-Identifier: Apache-2.0
// Owners of OpenSSL's objects, and its errors as ours.
#pragma once

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::openssl {

struct Free {
  void operator()(BIO* p) const { BIO_free_all(p); }
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
  void operator()(X509_NAME* p) const { X509_NAME_free(p); }
  void operator()(X509_STORE* p) const { X509_STORE_free(p); }
  void operator()(X509_STORE_CTX* p) const { X509_STORE_CTX_free(p); }
  void operator()(X509_EXTENSION* p) const { X509_EXTENSION_free(p); }
  void operator()(STACK_OF(X509) * p) const { sk_X509_pop_free(p, X509_free); }
  void operator()(GENERAL_NAMES* p) const { GENERAL_NAMES_free(p); }
};
template <class T>
using Ptr = std::unique_ptr<T, Free>;

// "CALL: what OpenSSL says". Takes the thread's queue of errors.
inline Error LastError(std::string_view call) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(code);
  return InvalidArgument(StrCat(call, ": ", reason != nullptr ? reason : "failed"));
}

inline Ptr<BIO> Reading(std::string_view text) {
  return Ptr<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

inline std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : std::string();
}

// Each certificate of the text. kInvalidArgument without one.
inline Result<std::vector<Ptr<X509>>> ReadCertificates(std::string_view pem) {
  std::vector<Ptr<X509>> out;
  const Ptr<BIO> bio = Reading(pem);
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) out.emplace_back(one);
  ERR_clear_error();  // the end of the text is an error to it
  if (out.empty()) return InvalidArgument("no PEM certificate in it");
  return out;
}

}  // namespace holdfast::agent::openssl
