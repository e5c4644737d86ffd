// SPDX-License-Identifier: Apache-2.0
// A certificate authority, a server of it (127.0.0.1, localhost and more) and a client, as PEM
// files in a directory: ca.crt, server.crt, server.key, client.crt, client.key; other.crt is an
// authority that signed nothing.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace holdfast::test_support {

class TlsKeys {
 public:
  // `server_names`: "IP:127.0.0.1,DNS:localhost".
  TlsKeys(std::string directory, const std::string& server_names)
      : directory_(std::move(directory)) {
    const Key ca_key = NewKey();
    const Certificate ca = NewCertificate("test-ca", ca_key.get(), nullptr, ca_key.get(), "");
    Write("ca.crt", ca.get());
    for (const char* name : {"server", "client"}) {
      const Key key = NewKey();
      const bool server = name == std::string("server");
      Write(name + std::string(".crt"),
            NewCertificate(name, key.get(), ca.get(), ca_key.get(), server ? server_names : "")
                .get());
      Write(name + std::string(".key"), key.get());
    }
    const Key other = NewKey();
    Write("other.crt", NewCertificate("other-ca", other.get(), nullptr, other.get(), "").get());
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* file) const { BIO_free_all(file); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static Key NewKey() { return Key(EVP_EC_gen("P-256")); }

  static void Extend(X509* certificate, int kind, const std::string& value) {
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()));
    X509_add_ext(certificate, extension.get(), -1);
  }

  // `issuer` null: an authority, signed by itself.
  static Certificate NewCertificate(const std::string& name, EVP_PKEY* key, X509* issuer,
                                    EVP_PKEY* issuer_key, const std::string& names) {
    Certificate made(X509_new());
    X509_set_version(made.get(), X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 86400);
    X509_set_pubkey(made.get(), key);
    X509_NAME* subject = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    X509_set_issuer_name(made.get(), issuer ? X509_get_subject_name(issuer) : subject);
    if (issuer == nullptr) Extend(made.get(), NID_basic_constraints, "critical,CA:TRUE");
    if (!names.empty()) Extend(made.get(), NID_subject_alt_name, names);
    X509_sign(made.get(), issuer_key, EVP_sha256());
    return made;
  }

  void Write(const std::string& name, X509* certificate) const {
    const std::unique_ptr<BIO, Free> file(BIO_new_file(Path(name).c_str(), "w"));
    PEM_write_bio_X509(file.get(), certificate);
  }
  void Write(const std::string& name, EVP_PKEY* key) const {
    const std::unique_ptr<BIO, Free> file(BIO_new_file(Path(name).c_str(), "w"));
    PEM_write_bio_PrivateKey(file.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  }

  static inline long serial_ = 0;
  const std::string directory_;
};

}  // namespace holdfast::test_support
