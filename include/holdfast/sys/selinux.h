// SPDX-License-Identifier: Apache-2.0
// SELinux as the kernel shows it: whether it is in force, which labels its policy knows, labels of files.
// Thread-safe: no state; a FileCreationLabel is its thread's. Sources: selinux(8), proc_pid_attr(5).
#pragma once

#include <string>
#include <utility>

#include "holdfast/base/result.h"

namespace holdfast::sys {

// A policy is loaded, enforced or not.
bool HasSelinux();

// kInvalidArgument: the policy knows no such label. What this process may not ask is taken for known.
Result<void> CheckSelinuxLabel(const std::string& label);

// Of what `object` is of; O_PATH will do, and a link is itself meant. "": it has none, or its file system has no labels.
Result<std::string> FileLabelOf(int object);
// kUnsupported: a file system without labels of files, or one that is mounted with one label for all.
Result<void> SetFileLabel(int object, const std::string& label);

// What the calling thread makes while this lives has the label. "" changes nothing.
class FileCreationLabel {
 public:
  static Result<FileCreationLabel> Set(const std::string& label);
  FileCreationLabel(FileCreationLabel&& other) noexcept : set_(std::exchange(other.set_, false)) {}
  FileCreationLabel& operator=(FileCreationLabel&&) = delete;
  ~FileCreationLabel();

 private:
  explicit FileCreationLabel(bool set) : set_(set) {}
  bool set_;
};

}  // namespace holdfast::sys
