// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_journal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime::keeper {

struct LogJournal::File {
  uint32_t magic;
  uint32_t version;
  std::atomic<uint32_t> current;
  uint32_t unused;
  off64_t cells[2][2];  // [stream][window]
  LogState slots[2];
};

namespace {

constexpr uint32_t kJournalMagic = 0x4a4c4648;  // "HFLJ"
constexpr uint32_t kJournalVersion = 1;
constexpr size_t kJournalBytes = 4096;

}  // namespace

Result<LogJournal> LogJournal::Open(int dir, const std::string& name) {
  static_assert(sizeof(File) <= kJournalBytes);
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
  ASSIGN_OR_RETURN(const UniqueFd fd, sys::OpenAt(dir, name, O_RDWR | O_CREAT, 0600));
  // All its space at once: a page that cannot be had later would be a SIGBUS.
  if (const int err = ::posix_fallocate(fd.get(), 0, kJournalBytes); err != 0) {
    return Error::FromErrno(err, StrCat("allocate ", name));
  }
  void* mapped = ::mmap(nullptr, kJournalBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) return Error::FromErrno(errno, StrCat("mmap ", name));
  LogJournal journal(static_cast<File*>(mapped));
  File& file = *journal.file_;
  if (file.magic == 0) {
    file.version = kJournalVersion;
    file.magic = kJournalMagic;
  }
  if (file.magic != kJournalMagic || file.version != kJournalVersion || file.current.load() > 1) {
    return Unsupported(StrCat("log journal ", name, ": of another version"));
  }
  return journal;
}

LogJournal::LogJournal(LogJournal&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}

LogJournal& LogJournal::operator=(LogJournal&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

LogJournal::~LogJournal() {
  if (file_ != nullptr) ::munmap(file_, kJournalBytes);
}

const LogState& LogJournal::state() const {
  return file_->slots[file_->current.load(std::memory_order_acquire)];
}

off64_t* LogJournal::cell(LogStream stream, uint8_t window) const {
  return &file_->cells[static_cast<size_t>(stream)][window & 1];
}

void LogJournal::Publish(const LogState& state) {
  const uint32_t next = 1 - file_->current.load(std::memory_order_relaxed);
  file_->slots[next] = state;
  file_->current.store(next, std::memory_order_release);
}

}  // namespace holdfast::runtime::keeper
