// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr size_t kPemLimit = 1 << 20;
constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kSecretMode = 0600;
constexpr size_t kPairsKept = 2;
constexpr char kPendingKey[] = ".key.tmp";
constexpr char kKeyBegins[] = "-----BEGIN ";
constexpr char kKeyWord[] = "PRIVATE KEY-----";

// "2026-11-22-17-04-05"
std::string FileTime(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time.since_epoch).count();
  tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 64> text{};
  // It always fits.
  (void)std::strftime(text.data(), text.size(), "%Y-%m-%d-%H-%M-%S", &parts);
  return text.data();
}

// The two halves of a file that holds both, in whichever order.
CertificatePair Split(const std::string& text) {
  CertificatePair pair;
  for (size_t begin = text.find(kKeyBegins); begin != std::string::npos;) {
    const size_t next = text.find(kKeyBegins, begin + 1);
    const std::string block = text.substr(begin, next == std::string::npos ? next : next - begin);
    const std::string title = block.substr(0, block.find('\n'));
    (title.find(kKeyWord) != std::string::npos ? pair.key_pem : pair.chain_pem) += block;
    begin = next;
  }
  return pair;
}

Result<std::optional<std::string>> ReadIfThere(int dir, const std::string& name) {
  auto text = sys::ReadFileAt(dir, name, kPemLimit);
  if (text) return std::optional(std::move(*text));
  if (text.error().code() == Code::kNotFound) return std::optional<std::string>();
  return std::move(text.error());
}

Result<void> Sync(int dir) {
  ASSIGN_OR_RETURN(const UniqueFd fd, sys::OpenAt(dir, ".", O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0)
    return Error::FromErrno(errno, "fsync of the certificates' directory");
  return {};
}

}  // namespace

CertificateFiles::CertificateFiles(DirFd dir, const std::string& directory, std::string prefix)
    : dir_(std::move(dir)),
      prefix_(std::move(prefix)),
      current_path_(StrCat(directory, "/", prefix_, "-current.pem")) {}

Result<CertificateFiles> CertificateFiles::Open(const std::string& directory,
                                                const std::string& prefix) {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, directory, kDirectoryMode));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(dir.get(), ".", sys::Writer::kAny, prefix));
  return CertificateFiles(std::move(dir), directory, prefix);
}

Result<std::optional<CertificatePair>> CertificateFiles::Current() const {
  ASSIGN_OR_RETURN(const auto text, ReadIfThere(dir_.get(), prefix_ + "-current.pem"));
  if (!text) return std::optional<CertificatePair>();
  CertificatePair pair = Split(*text);
  RETURN_IF_ERROR(WithContext(CheckPair(pair), current_path_));
  return std::optional(std::move(pair));
}

Result<void> CertificateFiles::Keep(const CertificatePair& pair, WallTime now) const {
  const std::string name = StrCat(prefix_, "-", FileTime(now), ".pem");
  RETURN_IF_ERROR(
      sys::WriteFileAtomicAt(dir_.get(), name, pair.chain_pem + pair.key_pem, kSecretMode));
  HOLDFAST_PAUSE_POINT("identity.certificate_written");
  RETURN_IF_ERROR(PointAt(name));
  HOLDFAST_PAUSE_POINT("identity.certificate_current");
  return RemoveOlder(name);
}

Result<void> CertificateFiles::PointAt(const std::string& name) const {
  const std::string updated = prefix_ + "-updated.pem";
  const std::string current = prefix_ + "-current.pem";
  RETURN_IF_ERROR(sys::RemoveFileAt(dir_.get(), updated));
  if (::symlinkat(name.c_str(), dir_.get(), updated.c_str()) != 0) {
    return Error::FromErrno(errno, "symlink " + updated);
  }
  if (::renameat(dir_.get(), updated.c_str(), dir_.get(), current.c_str()) != 0) {
    return Error::FromErrno(errno, "rename " + updated);
  }
  return Sync(dir_.get());
}

// Names sort by their time.
Result<void> CertificateFiles::RemoveOlder(const std::string& newest) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir_.get(), "."));
  std::vector<std::string> dated;
  for (const std::string& name : names) {
    const bool is_dated = name.starts_with(prefix_ + "-2") && name.ends_with(".pem");
    if (is_dated && name < newest) dated.push_back(name);
  }
  for (size_t i = 0; i + kPairsKept <= dated.size(); ++i) {
    RETURN_IF_ERROR(sys::RemoveFileAt(dir_.get(), dated[i]));
  }
  return {};
}

std::string CertificateFiles::KeyName(const std::string& purpose) const {
  return StrCat(prefix_, purpose, kPendingKey);
}

Result<std::optional<std::string>> CertificateFiles::PendingKey(const std::string& purpose) const {
  return ReadIfThere(dir_.get(), KeyName(purpose));
}

Result<void> CertificateFiles::SavePendingKey(const std::string& purpose,
                                              const std::string& key_pem) const {
  return sys::WriteFileAtomicAt(dir_.get(), KeyName(purpose), key_pem, kSecretMode);
}

Result<void> CertificateFiles::RemovePendingKey(const std::string& purpose) const {
  return sys::RemoveFileAt(dir_.get(), KeyName(purpose));
}

Result<void> CertificateFiles::RemoveUsedKeys(const CertificatePair& current) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir_.get(), "."));
  for (const std::string& name : names) {
    if (!name.starts_with(prefix_) || !name.ends_with(kPendingKey)) continue;
    ASSIGN_OR_RETURN(const auto key, ReadIfThere(dir_.get(), name));
    if (!key || !CheckPair({current.chain_pem, *key})) continue;
    RETURN_IF_ERROR(sys::RemoveFileAt(dir_.get(), name));
  }
  return {};
}

}  // namespace holdfast::agent
