// SPDX-License-Identifier: Apache-2.0
// CertificateFiles: one certificate of this node with its key on the disk, as a kubelet lays it out:
//
//   kubelet-client-2026-11-22-17-04-05.pem   certificate, then key, 0600
//   kubelet-client-current.pem               a link to the newest, replaced by a rename
//   kubelet-client.key.tmp                   the key of a request that is under way
//
// Whatever is killed leaves the former state or the new one. Single-thread. Source: feature-map.md 1.18.1.
#pragma once

#include <optional>
#include <string>

#include "agent/identity/certificate.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent {

class CertificateFiles {
 public:
  // Makes the directory (0700) where it is missing. `prefix`: "kubelet-client".
  static Result<CertificateFiles> Open(const std::string& directory, const std::string& prefix);

  const std::string& current_path() const { return current_path_; }

  // nullopt: there is none. kInvalidArgument: what is there is no pair.
  Result<std::optional<CertificatePair>> Current() const;
  // From then on it is the current one. Of those before it the last stays.
  Result<void> Keep(const CertificatePair& pair, WallTime now) const;

  // `purpose` tells requests of different credentials apart: "kubelet-client<purpose>.key.tmp".
  Result<std::optional<std::string>> PendingKey(const std::string& purpose) const;
  Result<void> SavePendingKey(const std::string& purpose, const std::string& key_pem) const;
  Result<void> RemovePendingKey(const std::string& purpose) const;
  // Whatever their purpose: those whose certificate is `current`. Who was killed has left them.
  Result<void> RemoveUsedKeys(const CertificatePair& current) const;

 private:
  CertificateFiles(DirFd dir, const std::string& directory, std::string prefix);
  Result<void> PointAt(const std::string& name) const;
  Result<void> RemoveOlder(const std::string& newest) const;
  std::string KeyName(const std::string& purpose) const;

  DirFd dir_;
  std::string prefix_;
  std::string current_path_;
};

}  // namespace holdfast::agent
