// SPDX-License-Identifier: Apache-2.0
// ServingCertificate: what the node proves itself with to its HTTPS clients, and how their connections are encrypted.
// From files that are named, read again when they change; else made here and kept, signed by itself, until somebody
// has a better one. New connections use the newest. Thread-safe. Source: feature-map 1.15.12, 1.15.13.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/ssl/context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/http/changed_file.h"
#include "agent/http/self_signed.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct ServingCertificateOptions {
  std::string directory;            // where one that is made here is kept: kubelet.crt, kubelet.key
  std::string cert_file, key_file;  // both or none
  std::vector<std::string> names;   // DNS names and addresses for one that is made here
  std::string min_version = "VersionTLS12";  // or VersionTLS13
  std::vector<std::string> cipher_suites;    // Go's names; of TLS 1.2, empty: the library's
  std::string
      client_ca_file;  // whose names are sent to clients, so that they know which certificate to show
  std::function<void(const std::string& line)> log;
};

class ServingCertificate {
 public:
  // kInvalidArgument when files or names cannot be used.
  static Result<std::unique_ptr<ServingCertificate>> Open(ServingCertificateOptions options);
  ServingCertificate(const ServingCertificate&) = delete;
  ServingCertificate& operator=(const ServingCertificate&) = delete;

  // For new connections, from now on; instead of one that was made here.
  Result<void> Replace(const std::string& chain_pem, const std::string& key_pem);
  // Looks at the files; may block on them. The log says what is wrong with them, once.
  void Refresh();

  // Never null.
  std::shared_ptr<boost::asio::ssl::context> Context() const;

 private:
  explicit ServingCertificate(ServingCertificateOptions options);
  Result<void> Read();
  Result<void> OpenOwn();
  Result<void> Use(KeyPair pair);

  const ServingCertificateOptions options_;
  std::mutex changing_;  // of what a context is made from
  ChangedFile cert_, key_, client_ca_;
  KeyPair pair_;
  std::string authorities_;  // of clients, PEM
  std::string trouble_;      // told
  mutable std::mutex mutex_;
  std::shared_ptr<boost::asio::ssl::context> context_;  // shared with connections that begin
};

// What connections are made with; certificate and key must belong together.
Result<std::shared_ptr<boost::asio::ssl::context>> MakeServerContext(
    const ServingCertificateOptions& options, const KeyPair& pair,
    const std::string& client_ca_pem);

}  // namespace holdfast::agent
