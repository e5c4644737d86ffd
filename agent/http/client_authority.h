// SPDX-License-Identifier: Apache-2.0
// ClientAuthority: the certificate authorities that clients' certificates are verified against, from a file that is
// read again when it changes, and who such a certificate says its owner is. Thread-safe.
// Source: control-plane.md 7.2; Kubernetes' x509 authenticator (common name: user, organizations: groups).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "agent/http/changed_file.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct CertificateUser {
  std::string name;  // never empty
  std::string uid;
  std::vector<std::string> groups;
  std::string credential_id;  // "X509SHA256=…", of this certificate
};

class ClientAuthority {
 public:
  // "": nobody is verified. kInvalidArgument when the file has no certificate.
  static Result<std::unique_ptr<ClientAuthority>> Open(const std::string& file);
  ~ClientAuthority();
  ClientAuthority(const ClientAuthority&) = delete;
  ClientAuthority& operator=(const ClientAuthority&) = delete;

  // `chain`: DER, the client's own first. kPermissionDenied says why it is not believed: signed by others, not valid at
  // this time, not for clients, without a name.
  Result<CertificateUser> Verify(const std::vector<std::string>& chain) const;

  // Looks at the file; may block on it. What was read before stays when it cannot be used.
  Result<void> Refresh();
  bool has_authorities() const { return !file_.path().empty(); }

 private:
  struct Store;
  explicit ClientAuthority(const std::string& file);

  std::mutex changing_;
  ChangedFile file_;  // guarded by changing_
  mutable std::mutex mutex_;
  std::shared_ptr<const Store> store_;  // guarded by mutex_; shared with who verifies now
};

}  // namespace holdfast::agent
