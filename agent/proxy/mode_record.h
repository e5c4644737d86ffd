// SPDX-License-Identifier: Apache-2.0
// ModeRecord: the proxy modes that may have rules in the kernel, on disk, so that a later agent
// knows what to take away: chains of the iptables mode bear kube-proxy's names, and a real
// kube-proxy's are not ours. A mode is recorded before its first rule and dropped after its last.
#pragma once

#include <set>
#include <string>

#include "holdfast/base/result.h"

namespace holdfast::agent {

class ModeRecord {
 public:
  // No file is an empty record. The file's directory is made, and is for nothing else.
  static Result<ModeRecord> Load(const std::string& path);

  const std::set<std::string>& modes() const { return modes_; }
  Result<void> Add(const std::string& mode);
  Result<void> Drop(const std::string& mode);

 private:
  explicit ModeRecord(std::string path) : path_(std::move(path)) {}
  Result<void> Write(const std::set<std::string>& modes);

  std::string path_;
  std::set<std::string> modes_;
};

}  // namespace holdfast::agent
