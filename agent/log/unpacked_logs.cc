// SPDX-License-Identifier: Apache-2.0
#include "agent/log/unpacked_logs.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cerrno>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr uint64_t kMaxUnpacked = 256ull << 20;

struct GzCloser {
  void operator()(gzFile file) const { ::gzclose(file); }
};
using GzPtr = std::unique_ptr<std::remove_pointer_t<gzFile>, GzCloser>;

// A copy and its part of the bytes of all copies, which goes with it.
class Copy {
 public:
  explicit Copy(std::shared_ptr<std::atomic<uint64_t>> total) : total_(std::move(total)) {}
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy() { *total_ -= bytes_; }

  Result<void> Make() {
    file_.Reset(::memfd_create("log", MFD_CLOEXEC));
    if (!file_) return Error::FromErrno(errno, "memfd_create");
    return {};
  }
  Result<void> Append(std::string_view data, uint64_t most) {
    bytes_ += data.size();
    *total_ += data.size();
    if (*total_ > most) {
      return Error(Code::kResourceExhausted, StrCat("packed logs of more than ", most >> 20,
                                                    " MiB are being read at once; try again"));
    }
    if (bytes_ > kMaxUnpacked) {
      return Error(Code::kResourceExhausted, StrCat("more than ", kMaxUnpacked >> 20, " MiB"));
    }
    return sys::WriteAll(file_.get(), data);
  }
  const UniqueFd& file() const { return file_; }

 private:
  const std::shared_ptr<std::atomic<uint64_t>> total_;
  UniqueFd file_;
  uint64_t bytes_ = 0;
};

Result<void> Unpack(UniqueFd packed, Copy& copy, uint64_t most) {
  RETURN_IF_ERROR(copy.Make());
  GzPtr reader(::gzdopen(packed.get(), "rb"));
  if (!reader) return Internal("gzdopen: out of memory");
  (void)packed.Release();  // the reader's now
  std::vector<char> buffer(256 * 1024);
  while (true) {
    const int count = ::gzread(reader.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
    if (count < 0) return Internal("damaged");
    if (count == 0) return {};
    RETURN_IF_ERROR(copy.Append({buffer.data(), static_cast<size_t>(count)}, most));
  }
}

}  // namespace

LogFile UnpackedLogs::Find(const Key& key) {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [](const auto& entry) { return entry.second.expired(); });
  const auto found = files_.find(key);
  return found == files_.end() ? nullptr : found->second.lock();
}

Result<LogFile> UnpackedLogs::Open(UniqueFd packed, const std::string& name) {
  struct stat info{};
  if (::fstat(packed.get(), &info) != 0) return Error::FromErrno(errno, StrCat("stat ", name));
  const Key key{info.st_dev, info.st_ino, info.st_size,
                info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec};
  if (LogFile known = Find(key)) return known;
  // Without the lock: another reader may be faster, then there are two copies for a while.
  const auto copy = std::make_shared<Copy>(bytes_);
  RETURN_IF_ERROR(
      WithContext(Unpack(std::move(packed), *copy, most_bytes_), StrCat("unpack ", name)));
  LogFile file(copy, &copy->file());
  const std::lock_guard lock(mutex_);
  files_.insert_or_assign(key, file);
  return file;
}

}  // namespace holdfast::agent
