// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/mode_record.h"

#include <fcntl.h>

#include <sstream>
#include <utility>

#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr size_t kLargest = 4096;

}  // namespace

Result<ModeRecord> ModeRecord::Load(const std::string& path) {
  ModeRecord record(path);
  const std::string directory = path.substr(0, path.rfind('/'));
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, directory, 0700));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(AT_FDCWD, directory));
  const auto text = sys::ReadFileAt(AT_FDCWD, path, kLargest);
  if (!text) {
    if (text.error().code() == Code::kNotFound) return record;
    return text.error();
  }
  std::istringstream lines(*text);
  for (std::string mode; std::getline(lines, mode);) {
    if (!mode.empty()) record.modes_.insert(mode);
  }
  return record;
}

Result<void> ModeRecord::Add(const std::string& mode) {
  if (modes_.contains(mode)) return {};
  auto modes = modes_;
  modes.insert(mode);
  RETURN_IF_ERROR(Write(modes));
  HOLDFAST_PAUSE_POINT("proxy.mode.recorded");
  return {};
}

Result<void> ModeRecord::Drop(const std::string& mode) {
  if (!modes_.contains(mode)) return {};
  HOLDFAST_PAUSE_POINT("proxy.mode.removed");
  auto modes = modes_;
  modes.erase(mode);
  return Write(modes);
}

Result<void> ModeRecord::Write(const std::set<std::string>& modes) {
  std::string text;
  for (const std::string& mode : modes) text += mode + "\n";
  const size_t slash = path_.rfind('/');
  ASSIGN_OR_RETURN(const DirFd dir, sys::OpenDir(path_.substr(0, slash)));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(dir.get(), path_.substr(slash + 1), text, 0600, true));
  modes_ = modes;
  return {};
}

}  // namespace holdfast::agent
