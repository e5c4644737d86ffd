// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/shared_tree.h"
#include "runtime/keeper/log/log_format.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::string_view kGz = ".gz";
constexpr size_t kStampLength = 15;  // "20060102-150405"
constexpr mode_t kFileMode = 0640;
constexpr mode_t kDirMode = 0755;

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit);
}

// What follows "<base>.": a stamp, or a stamp and ".NNNNNN".
bool IsRotationSuffix(std::string_view s) {
  if (s.size() < kStampLength || s[8] != '-') return false;
  if (!IsDigits(s.substr(0, 8)) || !IsDigits(s.substr(9, 6))) return false;
  return s.size() == kStampLength || (s[kStampLength] == '.' && IsDigits(s.substr(16)));
}

std::pair<std::string, std::string> SplitLast(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

std::vector<RotatedFile> FindRotated(const std::vector<std::string>& names,
                                     const std::string& base) {
  std::map<std::string, RotatedFile> by_stem;  // stems sort by age: ".000001" extends its second
  const std::string prefix = base + ".";
  for (const std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    const bool compressed = name.ends_with(kGz);
    const std::string stem = compressed ? name.substr(0, name.size() - kGz.size()) : name;
    if (!IsRotationSuffix(std::string_view(stem).substr(prefix.size()))) continue;
    RotatedFile& file = by_stem[stem];
    file.stem = stem;
    (compressed ? file.compressed : file.plain) = true;
  }
  std::vector<RotatedFile> out;
  for (auto& [stem, file] : by_stem) out.push_back(std::move(file));
  return out;
}

std::string NextRotatedName(const std::vector<RotatedFile>& present, const std::string& base,
                            WallTime now) {
  const std::string fresh = StrCat(base, ".", FormatRotationTime(now));
  if (present.empty() || present.back().stem < fresh) return fresh;
  // The same second, or a clock that went back: go on from the newest name.
  const std::string& newest = present.back().stem;
  const size_t plain = base.size() + 1 + kStampLength;
  const long count = newest.size() > plain ? std::atol(newest.c_str() + plain + 1) : 0;
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".%06ld", count + 1);
  return newest.substr(0, plain) + suffix;
}

LogFile::LogFile(model::LogSpec spec) : spec_(std::move(spec)) {
  base_ = SplitLast(spec_.path).second;
  spec_.max_files = std::max(spec_.max_files, 2u);
}

uint64_t LogFile::capacity() const {
  if (spec_.max_size_bytes == 0) return UINT64_MAX;
  return std::max<uint64_t>(spec_.max_size_bytes, kMaxEntryBytes);
}

Result<void> LogFile::EnsureOpen() {
  if (fd_) return {};
  return WithContext(OpenOrCreate(), StrCat("log ", spec_.path));
}

void LogFile::Close() {
  fd_.Reset();
  dir_.Reset();
}

Result<DirFd> LogFile::OpenDirectory() const {
  const auto [container_dir, base] = SplitLast(spec_.path);
  const auto [pod_dir, container] = SplitLast(container_dir);
  const auto [root_dir, pod] = SplitLast(pod_dir);
  if (root_dir.empty() || pod.empty() || container.empty() || base.empty()) {
    return InvalidArgument("the path needs three directories above the file");
  }
  for (const std::string& name : {pod, container, base}) {
    if (name == "." || name == "..") return InvalidArgument("the path may not hold . or ..");
  }
  return sys::MakeDirsBelow(root_dir, StrCat(pod, "/", container), kDirMode);
}

Result<void> LogFile::OpenDirectoryOnce() {
  if (dir_) return {};
  ASSIGN_OR_RETURN(dir_, OpenDirectory());
  return {};
}

Result<void> LogFile::OpenOrCreate() {
  dir_.Reset();  // it may have been removed and made again
  RETURN_IF_ERROR(OpenDirectoryOnce());
  if (auto fd = sys::OpenPlainFileAt(dir_.get(), base_, O_WRONLY)) {
    fd_ = std::move(*fd);
    return {};
  }
  RETURN_IF_ERROR(sys::RemoveFileAt(dir_.get(), base_));
  ASSIGN_OR_RETURN(fd_, sys::OpenAt(dir_.get(), base_, O_WRONLY | O_CREAT | O_EXCL, kFileMode));
  if (::fchmod(fd_.get(), kFileMode) != 0) return Error::FromErrno(errno, "chmod");
  return {};
}

Result<LogFile::Facts> LogFile::Stat() const {
  struct stat st{};
  if (::fstat(fd_.get(), &st) != 0) return Error::FromErrno(errno, StrCat("fstat ", spec_.path));
  return Facts{st.st_ino, static_cast<uint64_t>(st.st_size), st.st_nlink == 0};
}

Result<void> LogFile::WriteAt(int fd, uint64_t offset, std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, "write log file");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
    HOLDFAST_PAUSE_POINT("log.written-part");
  }
  return {};
}

Result<void> LogFile::Truncate(uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0) return {};
  return Error::FromErrno(errno, StrCat("truncate ", spec_.path));
}

Result<std::vector<RotatedFile>> LogFile::ListRotated() {
  RETURN_IF_ERROR(OpenDirectoryOnce());
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir_.get(), "."));
  return FindRotated(names, base_);
}

Result<void> LogFile::Rotate(WallTime now) {
  RETURN_IF_ERROR(EnsureOpen());
  ASSIGN_OR_RETURN(const std::vector<RotatedFile> rotated, ListRotated());
  const std::string name = NextRotatedName(rotated, base_, now);
  HOLDFAST_PAUSE_POINT("log.before-rotate");
  if (::renameat(dir_.get(), base_.c_str(), dir_.get(), name.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("rename ", spec_.path));
  }
  HOLDFAST_PAUSE_POINT("log.rotated-renamed");
  fd_.Reset();
  RETURN_IF_ERROR(EnsureOpen());
  HOLDFAST_PAUSE_POINT("log.rotated-created");
  Prune();
  return {};
}

void LogFile::Prune() {
  auto rotated = ListRotated();
  if (!rotated) return;  // tried again at the next rotation
  const size_t keep = spec_.max_files - 1;
  for (size_t i = 0; i < rotated->size(); ++i) {
    RotatedFile& file = (*rotated)[i];
    // Killed between making the .gz and removing its source.
    if (file.compressed && file.plain) {
      (void)sys::RemoveFileAt(dir_.get(), file.stem);
      file.plain = false;
    }
    if (rotated->size() - i > keep) Remove(file);
  }
}

// The compressing child may have made the .gz since we looked: what it starts from goes first, what
// it makes last. What cannot be removed now is listed again at the next rotation.
void LogFile::Remove(const RotatedFile& file) {
  for (const std::string_view suffix : {std::string_view(), std::string_view(".tmp"), kGz}) {
    (void)sys::RemoveFileAt(dir_.get(), StrCat(file.stem, suffix));
  }
}

void LogFile::DropRotated() {
  auto rotated = ListRotated();
  if (!rotated) return;
  for (const RotatedFile& file : *rotated) Remove(file);
}

Result<UniqueFd> LogFile::OpenByInode(uint64_t inode) {
  ASSIGN_OR_RETURN(const std::vector<RotatedFile> rotated, ListRotated());
  for (const RotatedFile& file : rotated) {
    struct stat st{};
    if (!file.plain || ::fstatat(dir_.get(), file.stem.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        st.st_ino != inode) {
      continue;
    }
    auto fd = sys::OpenPlainFileAt(dir_.get(), file.stem, O_WRONLY);
    if (fd) return fd;
  }
  return NotFound(StrCat("log ", spec_.path, ": no file with inode ", inode));
}

std::optional<std::string> LogFile::NextToCompress() {
  auto rotated = ListRotated();
  if (!rotated || rotated->empty()) return std::nullopt;
  rotated->pop_back();
  // A container may have put something there that would take hours, or never end.
  const uint64_t largest = spec_.max_size_bytes == 0 ? UINT64_MAX : 2 * capacity();
  for (const RotatedFile& file : *rotated) {
    if (file.plain && !file.compressed && sys::IsPlainFileAt(dir_.get(), file.stem, largest)) {
      return file.stem;
    }
  }
  return std::nullopt;
}

}  // namespace holdfast::runtime::keeper
