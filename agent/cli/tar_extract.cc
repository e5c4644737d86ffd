// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/tar_extract.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cli {
namespace {

constexpr mode_t kDirectoryMode = 0755;
constexpr mode_t kFileMode = 0666;  // as the umask leaves it

struct TarEntry {
  std::string name;
  std::string link;  // of a symbolic or hard one
  mode_t type = 0;
};

// One tar stream, through libarchive: no other format, no compression.
class TarSource {
 public:
  explicit TarSource(const ByteSource& source) : source_(source) {}
  TarSource(const TarSource&) = delete;
  TarSource& operator=(const TarSource&) = delete;
  ~TarSource() {
    ::archive_read_free(in_);
    if (utf8_ != nullptr) ::freelocale(utf8_);
  }

  Result<void> Open() {
    if (in_ == nullptr || utf8_ == nullptr) return Internal("libarchive: no reader");
    ::archive_read_support_format_tar(in_);
    ::archive_read_support_format_empty(in_);
    const auto read = [](archive*, void* self, const void** bytes) -> la_ssize_t {
      return static_cast<TarSource*>(self)->Read(bytes);
    };
    if (::archive_read_open(in_, this, nullptr, read, nullptr) != ARCHIVE_OK) return Failed();
    return {};
  }

  // Nothing: the end.
  Result<std::optional<TarEntry>> Next() {
    archive_entry* entry = nullptr;
    const locale_t before = ::uselocale(utf8_);  // names are UTF-8, or bytes that pass as they are
    const int status = ::archive_read_next_header(in_, &entry);
    TarEntry read;
    if (status == ARCHIVE_OK || status == ARCHIVE_WARN) {
      read.name = Text(::archive_entry_pathname(entry));
      const char* hard = ::archive_entry_hardlink(entry);
      read.link = Text(hard != nullptr ? hard : ::archive_entry_symlink(entry));
      read.type = ::archive_entry_filetype(entry);
    }
    ::uselocale(before);
    if (status == ARCHIVE_EOF) return std::optional<TarEntry>();
    if (status != ARCHIVE_OK && (status != ARCHIVE_WARN || read.name.empty())) return Failed();
    return std::optional(std::move(read));
  }

  Result<void> CopyTo(int file, const std::string& path) {
    for (;;) {
      const void* piece = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int status = ::archive_read_data_block(in_, &piece, &size, &offset);
      if (status == ARCHIVE_EOF) return {};
      if (status != ARCHIVE_OK) return Failed();
      if (::lseek(file, offset, SEEK_SET) < 0) return Error::FromErrno(errno, "seek in " + path);
      RETURN_IF_ERROR(
          WithContext(sys::WriteAll(file, {static_cast<const char*>(piece), size}), path));
    }
  }

 private:
  static std::string Text(const char* text) { return text != nullptr ? text : ""; }

  la_ssize_t Read(const void** bytes) {
    auto piece = source_();
    if (!piece) {
      failure_ = std::move(piece.error());
      return -1;
    }
    *bytes = piece->data();
    return static_cast<la_ssize_t>(piece->size());
  }

  Error Failed() const {
    if (failure_) return *failure_;
    const char* why = ::archive_error_string(in_);
    return InvalidArgument(StrCat("tar contents corrupted: ", why != nullptr ? why : "damaged"));
  }

  const ByteSource& source_;
  archive* const in_ = ::archive_read_new();
  const locale_t utf8_ = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::optional<Error> failure_;
};

// Behind the prefix, without "." and doubled slashes; nothing when it is not behind it. "" is the path itself.
std::optional<std::string> BehindPrefix(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (!prefix.empty() && !name.empty() && name.front() != '/') return std::nullopt;
  if (prefix.empty() && name.starts_with('/')) return std::nullopt;
  std::string path;
  while (!name.empty()) {
    const size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    name.remove_prefix(std::min(slash + 1, name.size()));
    if (!part.empty() && part != ".") path += StrCat(path.empty() ? "" : "/", part);
  }
  return path;
}

bool LeadsUp(std::string_view path) {
  return StrCat("/", path, "/").find("/../") != std::string::npos;
}

class Extraction {
 public:
  Extraction(TarSource& tar, const ExtractOptions& options) : tar_(tar), options_(options) {}

  Result<void> Take(const TarEntry& entry) {
    const auto path = BehindPrefix(entry.name, options_.prefix);
    if (!path) return InvalidArgument("tar contents corrupted");
    const std::string shown = StrCat(options_.destination, path->empty() ? "" : "/", *path);
    if (LeadsUp(*path)) {
      options_.warn(
          StrCat("warning: file \"", shown, "\" is outside target destination, skipping"));
      return {};
    }
    if (!entry.link.empty() || S_ISLNK(entry.type)) {
      options_.warn(StrCat("warning: skipping ", S_ISLNK(entry.type) ? "symlink" : "hard link",
                           ": \"", shown, "\" -> \"", entry.link, "\""));
      return {};
    }
    if (S_ISDIR(entry.type)) return MakeDirectory(*path);
    if (!S_ISREG(entry.type)) {
      options_.warn(StrCat("warning: skipping special file: \"", shown, "\""));
      return {};
    }
    return path->empty() ? MakeItself() : MakeFile(*path);
  }

 private:
  // The destination as a directory, from here on.
  Result<int> Root() {
    if (!root_) {
      ASSIGN_OR_RETURN(root_, sys::MakeDirs(AT_FDCWD, options_.destination, kDirectoryMode));
    }
    return root_->get();
  }

  Result<void> MakeDirectory(const std::string& path) {
    ASSIGN_OR_RETURN(const int root, Root());
    if (path.empty()) return {};
    return Below(sys::MakeDirsInside(root, path, kDirectoryMode), path);
  }

  Result<void> MakeFile(const std::string& path) {
    ASSIGN_OR_RETURN(const int root, Root());
    const size_t slash = path.rfind('/');
    if (slash != std::string::npos) RETURN_IF_ERROR(MakeDirectory(path.substr(0, slash)));
    auto file = sys::OpenInside(root, path, kFlags, kFileMode, sys::Resolve::kBeneath);
    if (!file) return Below(std::move(file), path);
    return Fill(*file, StrCat(options_.destination, "/", path));
  }

  // The path that was asked for is a file.
  Result<void> MakeItself() {
    struct stat info{};
    const bool into = ::stat(options_.destination.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
    if (into) {
      const size_t slash = options_.prefix.rfind('/');
      return MakeFile(options_.prefix.substr(slash == std::string::npos ? 0 : slash + 1));
    }
    const size_t slash = options_.destination.rfind('/');
    if (slash != std::string::npos && slash > 0) {
      RETURN_IF_ERROR(
          sys::MakeDirs(AT_FDCWD, options_.destination.substr(0, slash), kDirectoryMode));
    }
    ASSIGN_OR_RETURN(const UniqueFd file,
                     sys::OpenAt(AT_FDCWD, options_.destination, kFlags, kFileMode));
    return Fill(file, options_.destination);
  }

  Result<void> Fill(const UniqueFd& file, const std::string& path) {
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + path);
    if (!S_ISREG(info.st_mode)) return InvalidArgument(path + ": is there and is no regular file");
    if (::ftruncate(file.get(), 0) != 0) return Error::FromErrno(errno, "truncate " + path);
    return tar_.CopyTo(file.get(), path);
  }

  // EXDEV: a link of the destination's own leads out of it.
  template <class Opened>
  Result<void> Below(Opened opened, const std::string& path) {
    if (opened) return {};
    return std::move(opened.error()).Wrap(StrCat("write ", options_.destination, "/", path));
  }

  // O_NONBLOCK: what is there may be a pipe that nobody reads.
  static constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK;

  TarSource& tar_;
  const ExtractOptions& options_;
  std::optional<DirFd> root_;
};

}  // namespace

Result<void> ExtractTar(const ByteSource& source, const ExtractOptions& options) {
  TarSource tar(source);
  RETURN_IF_ERROR(tar.Open());
  Extraction extraction(tar, options);
  for (;;) {
    ASSIGN_OR_RETURN(const std::optional<TarEntry> entry, tar.Next());
    if (!entry) return {};
    RETURN_IF_ERROR(extraction.Take(*entry));
  }
}

}  // namespace holdfast::agent::cli
