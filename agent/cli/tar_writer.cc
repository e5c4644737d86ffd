// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadSize = 256 * 1024;
constexpr int kBlockSize = 32 * 1024;  // as it is handed to the sink

class TarWriter {
 public:
  explicit TarWriter(const ByteSink& sink) : sink_(sink), out_(::archive_write_new()) {}
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter() { ::archive_write_free(out_); }

  Result<void> Open() {
    if (out_ == nullptr) return Internal("libarchive: no writer");
    const auto write = [](archive*, void* self, const void* bytes, size_t size) -> la_ssize_t {
      const bool taken =
          static_cast<TarWriter*>(self)->sink_({static_cast<const char*>(bytes), size});
      return taken ? static_cast<la_ssize_t>(size) : -1;
    };
    const bool opened = ::archive_write_set_format_gnutar(out_) == ARCHIVE_OK &&
                        ::archive_write_set_bytes_per_block(out_, kBlockSize) == ARCHIVE_OK &&
                        ::archive_write_set_bytes_in_last_block(out_, 1) == ARCHIVE_OK &&
                        ::archive_write_open(out_, this, nullptr, write, nullptr) == ARCHIVE_OK;
    if (!opened) return Internal(StrCat("libarchive: ", ::archive_error_string(out_)));
    return {};
  }

  // `file`: of a regular one.
  Result<void> Add(const std::string& path, const std::string& name, const struct stat& info,
                   const std::string& link, int file) {
    const std::unique_ptr<archive_entry, decltype(&::archive_entry_free)> entry(
        ::archive_entry_new(), ::archive_entry_free);
    if (!entry) return Internal("libarchive: no entry");
    ::archive_entry_copy_stat(entry.get(), &info);
    ::archive_entry_set_pathname(entry.get(), name.c_str());
    if (!link.empty()) ::archive_entry_set_symlink(entry.get(), link.c_str());
    if (!S_ISREG(info.st_mode)) ::archive_entry_set_size(entry.get(), 0);
    if (::archive_write_header(out_, entry.get()) != ARCHIVE_OK) return Stopped();
    if (S_ISREG(info.st_mode)) {
      RETURN_IF_ERROR(AddContent(file, path, static_cast<uint64_t>(info.st_size)));
    }
    return {};
  }

  Result<void> Close() {
    if (::archive_write_close(out_) != ARCHIVE_OK) return Stopped();
    return {};
  }

 private:
  static Error Stopped() { return Unavailable("sending stopped"); }

  Result<void> AddContent(int file, const std::string& path, uint64_t size) {
    std::string buffer(kReadSize, '\0');
    for (uint64_t done = 0; done < size;) {
      const size_t want = static_cast<size_t>(std::min<uint64_t>(size - done, buffer.size()));
      const ssize_t count = ::pread(file, buffer.data(), want, static_cast<off_t>(done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return Error::FromErrno(errno, "read " + path);
      if (count == 0) return Conflict(path + ": became shorter while it was read");
      if (::archive_write_data(out_, buffer.data(), static_cast<size_t>(count)) != count) {
        return Stopped();
      }
      done += static_cast<uint64_t>(count);
    }
    return {};
  }

  const ByteSink& sink_;
  archive* const out_;
};

Result<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return Error::FromErrno(errno, "open " + path);
  return file;
}

// Everything below, sorted; links are not followed.
Result<std::vector<std::string>> PathsBelow(const std::string& directory) {
  std::error_code failed;
  std::vector<std::string> paths;
  for (fs::recursive_directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    paths.push_back(entry->path().lexically_relative(directory).string());
  }
  if (failed) return Error::FromErrno(failed.value(), "list " + directory);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<void> AddPlain(TarWriter& tar, const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const UniqueFd file, OpenFile(path));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + path);
  if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)) {
    return Unsupported(path + ": neither a file nor a directory");
  }
  info.st_mode = S_ISDIR(info.st_mode) ? S_IFDIR | 0755 : S_IFREG | 0644;
  info.st_uid = info.st_gid = 0;
  return tar.Add(path, name, info, "", file.get());
}

Result<void> AddAsItIs(TarWriter& tar, const std::string& path, const std::string& name) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return Error::FromErrno(errno, "stat " + path);
  if (S_ISSOCK(info.st_mode)) return {};
  std::string link;
  if (S_ISLNK(info.st_mode)) {
    std::error_code failed;
    link = fs::read_symlink(path, failed).string();
    if (failed) return Error::FromErrno(failed.value(), "read link " + path);
  }
  UniqueFd file;
  if (S_ISREG(info.st_mode)) {
    ASSIGN_OR_RETURN(file, OpenFile(path));
    if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + path);
    if (!S_ISREG(info.st_mode)) return Conflict(path + ": was replaced while it was read");
  }
  return tar.Add(path, name, info, link, file.get());
}

}  // namespace

Result<void> WriteTar(const std::string& directory, const ByteSink& sink) {
  TarWriter tar(sink);
  RETURN_IF_ERROR(tar.Open());
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, PathsBelow(directory));
  for (const std::string& path : paths) {
    RETURN_IF_ERROR(AddPlain(tar, StrCat(directory, "/", path), path));
  }
  return tar.Close();
}

Result<void> WriteTarAs(const std::string& path, const std::string& name, const ByteSink& sink) {
  TarWriter tar(sink);
  RETURN_IF_ERROR(tar.Open());
  RETURN_IF_ERROR(AddAsItIs(tar, path, name));
  std::error_code failed;
  if (fs::is_directory(fs::symlink_status(path, failed))) {
    ASSIGN_OR_RETURN(const std::vector<std::string> below, PathsBelow(path));
    for (const std::string& each : below) {
      RETURN_IF_ERROR(AddAsItIs(tar, StrCat(path, "/", each), StrCat(name, "/", each)));
    }
  }
  return tar.Close();
}

Result<void> WriteTarOf(const std::vector<TarMember>& members, const ByteSink& sink) {
  TarWriter tar(sink);
  RETURN_IF_ERROR(tar.Open());
  for (const TarMember& member : members) {
    struct stat info{};
    info.st_mode = S_IFREG | 0644;
    info.st_size = static_cast<off_t>(member.size);
    RETURN_IF_ERROR(tar.Add(member.name, member.name, info, "", member.file));
  }
  return tar.Close();
}

}  // namespace holdfast::agent::cli
