// SPDX-License-Identifier: Apache-2.0
// A signer of certificates: what a cluster's controllers do with a request.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "holdfast/base/clock.h"

namespace holdfast::agent::test {

class Signer {
 public:
  Signer() : key_(EVP_EC_gen("P-256")) {}

  // Signs whatever the request says. Times in seconds since 1970.
  std::string Sign(const std::string& request_pem, WallTime not_before, WallTime not_after) const {
    const Bio in(::BIO_new_mem_buf(request_pem.data(), static_cast<int>(request_pem.size())));
    const Request request(::PEM_read_bio_X509_REQ(in.get(), nullptr, nullptr, nullptr));
    if (!request) return "";
    const Certificate made(::X509_new());
    ::X509_set_version(made.get(), X509_VERSION_3);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made.get()), ++serial_);
    SetTime(::X509_getm_notBefore(made.get()), not_before);
    SetTime(::X509_getm_notAfter(made.get()), not_after);
    ::X509_set_pubkey(made.get(), ::X509_REQ_get0_pubkey(request.get()));
    ::X509_set_subject_name(made.get(), ::X509_REQ_get_subject_name(request.get()));
    ::X509_set_issuer_name(made.get(), ::X509_REQ_get_subject_name(request.get()));
    auto* extensions = ::X509_REQ_get_extensions(request.get());
    for (int i = 0; i < sk_X509_EXTENSION_num(extensions); ++i) {
      ::X509_add_ext(made.get(), sk_X509_EXTENSION_value(extensions, i), -1);
    }
    sk_X509_EXTENSION_pop_free(extensions, ::X509_EXTENSION_free);
    ::X509_sign(made.get(), key_.get(), ::EVP_sha256());
    const Bio out(::BIO_new(::BIO_s_mem()));
    ::PEM_write_bio_X509(out.get(), made.get());
    char* data = nullptr;
    const long size = ::BIO_get_mem_data(out.get(), &data);
    return {data, static_cast<size_t>(size)};
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { ::X509_free(certificate); }
    void operator()(X509_REQ* request) const { ::X509_REQ_free(request); }
    void operator()(BIO* bio) const { ::BIO_free_all(bio); }
  };
  using Bio = std::unique_ptr<BIO, Free>;
  using Request = std::unique_ptr<X509_REQ, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static void SetTime(ASN1_TIME* time, WallTime to) {
    ::ASN1_TIME_set(time, std::chrono::floor<std::chrono::seconds>(to.since_epoch).count());
  }

  static inline long serial_ = 0;
  const std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace holdfast::agent::test
