// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/content/partial_blobs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>

#include "holdfast/base/clock.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/image/content/digest.h"

namespace holdfast::runtime {
namespace {

constexpr char kDirectory[] = "partial";
// What is fetched again as quickly; documents are of this size too.
constexpr uint64_t kWorthKeeping = 256 << 10;

std::optional<struct stat> FileAt(int directory, const std::string& name) {
  struct stat st{};
  if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return S_ISREG(st.st_mode) ? std::optional(st) : std::nullopt;
}

uint64_t Size(const struct stat& st) { return static_cast<uint64_t>(st.st_size); }

}  // namespace

Result<PartialBlobs> PartialBlobs::Open(int root) {
  ASSIGN_OR_RETURN(DirFd directory, sys::MakeDirs(root, kDirectory, 0700));
  PartialBlobs partial(std::move(directory));
  const auto ingests = sys::ListDirAt(root, "ingest");
  if (!ingests) return partial;  // a new store
  for (const std::string& name : *ingests) {
    if (!name.starts_with(kIngestPrefix)) continue;
    if (const auto ingest = sys::OpenDirAt(root, "ingest/" + name)) partial.KeepFrom(ingest->get());
  }
  return partial;
}

bool PartialBlobs::Take(const Digest& digest, const Ingest& ingest, const std::string& name) const {
  const bool taken =
      ::renameat(directory_.get(), HexOf(digest).c_str(), ingest.dir(), name.c_str()) == 0;
  if (taken) HOLDFAST_PAUSE_POINT("image.partial-taken");
  return taken;
}

uint64_t PartialBlobs::SizeOf(const Digest& digest) const {
  const auto file = FileAt(directory_.get(), HexOf(digest));
  return file ? Size(*file) : 0;
}

void PartialBlobs::KeepAll(const Ingest& ingest) const { KeepFrom(ingest.dir()); }

void PartialBlobs::KeepFrom(int ingest) const {
  const auto names = sys::ListDirAt(ingest, ".");
  if (!names) return;
  for (const std::string& name : *names) {
    const auto digest = DigestOfStagedBlob(name);
    if (!digest) continue;
    const auto file = FileAt(ingest, name);
    if (!file || Size(*file) < kWorthKeeping) continue;
    const std::string hex = HexOf(*digest);
    const auto other = FileAt(directory_.get(), hex);
    if (other && Size(*other) >= Size(*file)) continue;
    if (::renameat(ingest, name.c_str(), directory_.get(), hex.c_str()) != 0) continue;
    HOLDFAST_PAUSE_POINT("image.partial-kept");
  }
}

Result<PartialContent> PartialBlobs::Content() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory_.get(), "."));
  PartialContent content;
  for (const std::string& name : names) {
    const auto file = FileAt(directory_.get(), name);
    if (!file) continue;
    ++content.files;
    content.bytes += Size(*file);
  }
  return content;
}

Result<PartialContent> PartialBlobs::Remove(std::chrono::seconds age) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(directory_.get(), "."));
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(SystemClock().Wall().since_epoch);
  PartialContent removed;
  for (const std::string& name : names) {
    const auto file = FileAt(directory_.get(), name);
    if (!file) continue;
    const std::chrono::seconds written(file->st_mtim.tv_sec);
    if (now - written < age && written <= now) continue;
    RETURN_IF_ERROR(WithContext(sys::RemoveFileAt(directory_.get(), name), "partial blob"));
    HOLDFAST_PAUSE_POINT("image.partial-removed");
    ++removed.files;
    removed.bytes += Size(*file);
  }
  return removed;
}

}  // namespace holdfast::runtime
