// SPDX-License-Identifier: Apache-2.0
#include "agent/http/client_authority.h"

#include <openssl/err.h>
#include <openssl/objects.h>

#include <array>
#include <utility>

#include "agent/openssl/openssl.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using openssl::Attributes;
using openssl::Ptr;

// Where Kubernetes has a user's uid in his certificate's subject.
constexpr char kUidAttribute[] = "1.3.6.1.4.1.57683.2";

std::string Fingerprint(const X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), digest.data(), &size);
  std::string out = "X509SHA256=";
  constexpr char kHex[] = "0123456789abcdef";
  for (unsigned int i = 0; i < size; ++i) {
    out.push_back(kHex[digest[i] >> 4]);
    out.push_back(kHex[digest[i] & 15]);
  }
  return out;
}

Ptr<X509> FromDer(const std::string& der) {
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  return Ptr<X509>(d2i_X509(nullptr, &at, static_cast<long>(der.size())));
}

Result<CertificateUser> UserOf(const X509* certificate) {
  const X509_NAME* const subject = X509_get_subject_name(certificate);
  CertificateUser user;
  // Go's parser keeps the last one of several.
  const auto names = Attributes(subject, OBJ_nid2obj(NID_commonName));
  if (!names.empty()) user.name = names.back();
  if (user.name.empty()) {
    return Error(Code::kPermissionDenied, "the client's certificate has no common name");
  }
  user.groups = Attributes(subject, OBJ_nid2obj(NID_organizationName));
  ASN1_OBJECT* const uid_kind = OBJ_txt2obj(kUidAttribute, 1);
  const auto uids = Attributes(subject, uid_kind);
  ASN1_OBJECT_free(uid_kind);
  if (uids.size() == 1) user.uid = uids.front();
  user.credential_id = Fingerprint(certificate);
  return user;
}

}  // namespace

struct ClientAuthority::Store {
  Ptr<X509_STORE> trusted{X509_STORE_new()};
};

ClientAuthority::ClientAuthority(const std::string& file) : file_(file) {}
ClientAuthority::~ClientAuthority() = default;

Result<std::unique_ptr<ClientAuthority>> ClientAuthority::Open(const std::string& file) {
  std::unique_ptr<ClientAuthority> made(new ClientAuthority(file));
  RETURN_IF_ERROR(made->Refresh());
  return made;
}

Result<void> ClientAuthority::Refresh() {
  if (!has_authorities()) return {};
  const std::lock_guard changing(changing_);
  ASSIGN_OR_RETURN(const auto text, WithContext(file_.ReadIfChanged(), "clientCAFile"));
  if (!text) return {};
  ASSIGN_OR_RETURN(const auto certificates,
                   WithContext(openssl::ReadCertificates(*text), "clientCAFile " + file_.path()));
  auto store = std::make_shared<Store>();
  for (const auto& one : certificates) X509_STORE_add_cert(store->trusted.get(), one.get());
  // As Go: what the file names is trusted, whether it signed itself or not.
  X509_STORE_set_flags(store->trusted.get(), X509_V_FLAG_PARTIAL_CHAIN);
  const std::lock_guard lock(mutex_);
  store_ = std::move(store);
  return {};
}

Result<CertificateUser> ClientAuthority::Verify(const std::vector<std::string>& chain) const {
  std::shared_ptr<const Store> store;
  {
    const std::lock_guard lock(mutex_);
    store = store_;
  }
  if (!store || chain.empty())
    return Error(Code::kPermissionDenied, "no authority, no certificate");
  const Ptr<X509> leaf = FromDer(chain.front());
  const Ptr<STACK_OF(X509)> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    if (Ptr<X509> one = FromDer(chain[i])) sk_X509_push(between.get(), one.release());
  }
  const Ptr<X509_STORE_CTX> context(X509_STORE_CTX_new());
  if (!leaf ||
      X509_STORE_CTX_init(context.get(), store->trusted.get(), leaf.get(), between.get()) != 1) {
    return openssl::LastError("the client's certificate");
  }
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_CLIENT);
  if (X509_verify_cert(context.get()) != 1) {
    const int why = X509_STORE_CTX_get_error(context.get());
    ERR_clear_error();
    return Error(Code::kPermissionDenied,
                 StrCat("the client's certificate: ", X509_verify_cert_error_string(why)));
  }
  return UserOf(leaf.get());
}

}  // namespace holdfast::agent
