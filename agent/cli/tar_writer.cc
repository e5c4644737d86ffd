// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/tar_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = 512;
constexpr size_t kReadSize = 256 * 1024;
constexpr uint64_t kMaxSize = 077777777777;  // eleven octal digits

// POSIX.1-1988 ustar: fixed offsets within one block.
using TarHeader = std::array<char, kBlock>;

void PutOctal(TarHeader& header, size_t offset, size_t digits, uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%0*llo", static_cast<int>(digits),
                static_cast<unsigned long long>(value));
  std::memcpy(header.data() + offset, text.data(), digits);
}

TarHeader MakeHeader(const std::string& name, const struct stat& info, bool directory) {
  TarHeader header{};
  std::memcpy(header.data(), name.data(), name.size());
  PutOctal(header, 100, 7, directory ? 0755 : 0644);
  PutOctal(header, 108, 7, 0);
  PutOctal(header, 116, 7, 0);
  PutOctal(header, 124, 11, directory ? 0 : static_cast<uint64_t>(info.st_size));
  PutOctal(header, 136, 11, static_cast<uint64_t>(info.st_mtim.tv_sec));
  header[156] = directory ? '5' : '0';
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  std::memset(header.data() + 148, ' ', 8);  // the checksum counts itself as spaces
  uint64_t sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  PutOctal(header, 148, 6, sum);
  header[154] = '\0';
  return header;
}

Result<void> WriteContent(int fd, const std::string& name, uint64_t size, const ByteSink& sink) {
  std::string buffer(kReadSize, '\0');
  uint64_t left = size;
  while (left > 0) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(left, buffer.size()));
    const ssize_t count = ::read(fd, buffer.data(), want);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Error::FromErrno(errno, "read " + name);
    if (count == 0) return Conflict(name + ": became shorter while it was read");
    if (!sink({buffer.data(), static_cast<size_t>(count)})) return Unavailable("sending stopped");
    left -= static_cast<uint64_t>(count);
  }
  const std::string padding((kBlock - size % kBlock) % kBlock, '\0');
  if (!padding.empty() && !sink(padding)) return Unavailable("sending stopped");
  return {};
}

Result<void> WriteEntry(const fs::path& path, const std::string& name, const ByteSink& sink) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return Error::FromErrno(errno, "open " + path.string());
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) return Error::FromErrno(errno, "stat " + path.string());
  const bool directory = S_ISDIR(info.st_mode);
  if (!directory && !S_ISREG(info.st_mode)) {
    return Unsupported(path.string() + ": neither a file nor a directory");
  }
  const std::string entry = directory ? name + "/" : name;
  if (entry.size() > 100) return Unsupported(path.string() + ": name too long for an OCI layout");
  if (static_cast<uint64_t>(info.st_size) > kMaxSize) return Unsupported(name + ": above 8 GiB");
  const TarHeader header = MakeHeader(entry, info, directory);
  if (!sink({header.data(), header.size()})) return Unavailable("sending stopped");
  if (directory) return {};
  return WriteContent(file.get(), name, static_cast<uint64_t>(info.st_size), sink);
}

}  // namespace

Result<void> WriteTar(const std::string& directory, const ByteSink& sink) {
  std::error_code failed;
  std::vector<fs::path> paths;
  for (fs::recursive_directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    paths.push_back(entry->path());
  }
  if (failed) return Error::FromErrno(failed.value(), "list " + directory);
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    RETURN_IF_ERROR(WriteEntry(path, path.lexically_relative(directory).string(), sink));
  }
  if (!sink(std::string(2 * kBlock, '\0'))) return Unavailable("sending stopped");
  return {};
}

}  // namespace holdfast::agent::cli
