// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/buffer.hpp>

#include "agent/cluster/tls_internal.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Error Wrong(const char* field, const Pem& pem, const error_code& error) {
  return InvalidArgument(
      StrCat(field, pem.file.empty() ? "-data" : " " + pem.file, ": ", error.message()));
}

Result<void> SetAuthority(const KubeConfig& config, ssl::context& context) {
  error_code error;
  if (config.authority.empty()) {
    (void)context.set_default_verify_paths(error);
    if (error) return Internal(StrCat("the system's certificate authorities: ", error.message()));
    return {};
  }
  ASSIGN_OR_RETURN(const std::string text,
                   WithContext(config.authority.Read(), "certificate-authority"));
  (void)context.add_certificate_authority(asio::buffer(text), error);
  if (error) return Wrong("certificate-authority", config.authority, error);
  return {};
}

Result<void> SetCertificate(const KubeConfig& config, ssl::context& context) {
  if (config.certificate.empty()) return {};
  ASSIGN_OR_RETURN(const std::string certificate,
                   WithContext(config.certificate.Read(), "client-certificate"));
  ASSIGN_OR_RETURN(const std::string key, WithContext(config.key.Read(), "client-key"));
  error_code error;
  (void)context.use_certificate_chain(asio::buffer(certificate), error);
  if (error) return Wrong("client-certificate", config.certificate, error);
  (void)context.use_private_key(asio::buffer(key), ssl::context::pem, error);
  if (error) return Wrong("client-key", config.key, error);
  return {};
}

}  // namespace

// Asio's functions also return the error_code that they are given.
Result<ssl::context> MakeTlsContext(const KubeConfig& config) {
  ssl::context context(ssl::context::tls_client);
  error_code error;
  (void)context.set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1, error);
  if (!error) (void)context.set_verify_mode(ssl::verify_peer, error);
  if (error) return Internal(StrCat("prepare TLS: ", error.message()));
  RETURN_IF_ERROR(SetAuthority(config, context));
  RETURN_IF_ERROR(SetCertificate(config, context));
  return context;
}

}  // namespace holdfast::agent
