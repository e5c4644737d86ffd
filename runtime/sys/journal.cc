// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/sys/journal_form.h"

namespace holdfast::sys {
namespace {

constexpr size_t kFileLimit = size_t{1} << 30;
constexpr size_t kSlack = size_t{256} << 10;  // dead bytes that are not worth a new file
constexpr mode_t kFileMode = 0600;

Result<std::string> NewMark() {
  std::array<char, kJournalMark> mark{};
  if (::getrandom(mark.data(), mark.size(), 0) != static_cast<ssize_t>(mark.size())) {
    return Error::FromErrno(errno, "getrandom");
  }
  return std::string(mark.data(), mark.size());
}

// Returns what is to be told of it.
Result<std::string> PutAside(int dir, const std::string& name, const std::string& suffix,
                             const std::string& why) {
  const std::string aside = name + suffix;
  if (::renameat(dir, name.c_str(), dir, aside.c_str()) == 0) {
    return StrCat(name, ": ", why, "; put aside as ", aside);
  }
  return Error::FromErrno(errno, StrCat(name, ": ", why, "; rename to ", aside));
}

// Whether a directory still has the file.
bool IsNamed(int file) {
  struct stat status{};
  return ::fstat(file, &status) == 0 && status.st_nlink > 0;
}

}  // namespace

Result<Journal::Opened> Journal::Open(DirFd directory, std::string name, Lasting lasting,
                                      WallTime superseded_at) {
  RETURN_IF_ERROR(RemoveTemporariesAt(directory.get(), ".", Writer::kAny, name));
  Opened opened;
  opened.journal = std::unique_ptr<Journal>(new Journal(std::move(directory), name, lasting));
  Journal& journal = *opened.journal;
  const int dir = journal.directory_.get();
  const auto put_aside = [&](const std::string& suffix, const std::string& why) -> Result<void> {
    ASSIGN_OR_RETURN(std::string told, PutAside(dir, name, suffix, why));
    opened.problems.push_back(std::move(told));
    return {};
  };
  const auto file = ReadFileAt(dir, name, kFileLimit);
  if (!file && file.error().code() == Code::kNotFound) return opened;
  if (!file) return file.error();
  const auto parsed = ParseJournal(*file);
  if (ChangedAt(dir, name) < superseded_at) {
    RETURN_IF_ERROR(put_aside(".superseded", "older than what was kept elsewhere"));
  } else if (parsed) {
    journal.Take(*parsed, opened);
  } else if (parsed.error().code() == Code::kUnsupported) {
    return WithContext(Result<Opened>(parsed.error()), name);
  } else {
    RETURN_IF_ERROR(put_aside(".corrupt", parsed.error().message()));
  }
  return opened;
}

void Journal::Take(const ParsedJournal& parsed, Opened& opened) {
  mark_ = parsed.mark;
  end_ = parsed.end;
  for (const JournalEntry& entry : parsed.entries) {
    const std::string key(entry.key);
    opened.flagged.erase(key);
    if (entry.state == kJournalRemoved) {
      places_.erase(key);
      opened.values.erase(key);
      continue;
    }
    places_[key] = {entry.offset, entry.size};
    opened.values[key] = entry.value;
    if (entry.state == kJournalFlagged) opened.flagged.insert(key);
  }
  for (const auto& [key, place] : places_) live_ += place.size;
  for (const std::string& problem : parsed.problems) {
    opened.problems.push_back(StrCat(name_, ": ", problem));
  }
}

Result<void> Journal::OpenToWrite() {
  if (!file_) {
    ASSIGN_OR_RETURN(UniqueFd file, OpenAt(directory_.get(), name_, O_RDWR | O_CREAT, kFileMode));
    file_ = std::make_shared<const UniqueFd>(std::move(file));
    cut_ = false;
  }
  // What a killed writer or a write that failed left there is no part of the next entry.
  if (!cut_ && ::ftruncate(file_->get(), static_cast<off_t>(end_)) != 0) {
    return Error::FromErrno(errno, StrCat("ftruncate ", name_));
  }
  cut_ = true;
  return end_ > 0 ? Result<void>() : WriteHeader();
}

Result<void> Journal::WriteHeader() {
  ASSIGN_OR_RETURN(mark_, NewMark());
  const std::string header = JournalHeader(mark_);
  RETURN_IF_ERROR(WriteAt(0, header));
  end_ = header.size();
  return {};
}

Result<void> Journal::Unlink() {
  const std::lock_guard lock(mutex_);
  return RemoveFileAt(directory_.get(), name_);
}

Result<std::string> Journal::ReadPlace(const Place& place) const {
  std::string bytes(place.size, '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = ::pread(file_->get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(place.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Error::FromErrno(errno, StrCat("read ", name_));
    if (got == 0) return Internal(StrCat(name_, ": shorter than what was written"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

Result<void> Journal::WriteAt(size_t offset, std::string_view bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::pwrite(file_->get(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      cut_ = false;
      return Error::FromErrno(errno, StrCat("write ", name_));
    }
    done += static_cast<size_t>(wrote);
  }
  return {};
}

Result<void> Journal::Put(std::string_view key, std::string_view value) {
  if (key.size() > kJournalKeyLimit || value.size() > kJournalValueLimit) {
    return InvalidArgument(
        StrCat(name_, ": ", key.substr(0, 64), ": too long to be kept, ", value.size(), " bytes"));
  }
  const std::lock_guard lock(mutex_);
  RETURN_IF_ERROR(OpenToWrite());
  const std::string bytes = JournalEntryBytes(mark_, key, value);
  const auto former = places_.find(key);
  // As when an agent that begins saves what it has just read.
  if (former != places_.end() && Holds(former->second, bytes)) return {};
  RETURN_IF_ERROR(WriteAt(end_, bytes));
  if (former != places_.end()) live_ -= former->second.size;
  places_.insert_or_assign(std::string(key), Place{end_, bytes.size()});
  live_ += bytes.size();
  end_ += bytes.size();
  // The value is there; that its file is long costs nothing but space.
  if (IsLong() && !WriteAnew()) long_at_ = 2 * end_;
  return {};
}

bool Journal::Holds(const Place& place, std::string_view entry) const {
  if (place.size != entry.size()) return false;
  const auto there = ReadPlace(place);
  return there && *there == entry;
}

Result<void> Journal::Flag(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return {};
  return SetState(place->second, kJournalFlagged);
}

Result<void> Journal::Remove(std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return {};
  RETURN_IF_ERROR(SetState(place->second, kJournalRemoved));
  live_ -= place->second.size;
  places_.erase(place);
  return {};
}

Result<void> Journal::SetState(const Place& place, char state) {
  RETURN_IF_ERROR(OpenToWrite());
  return WriteAt(place.offset + kJournalState, std::string_view(&state, 1));
}

// Also what former processes left in the file.
Result<void> Journal::Sync() {
  std::shared_ptr<const UniqueFd> file;
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(OpenToWrite());
    // The kernel tells of a page that it could not write once, and then calls it written.
    if (doubtful_) return WriteAnew();
    file = file_;
  }
  if (::fdatasync(file->get()) != 0) {
    const int failure = errno;
    const std::lock_guard lock(mutex_);
    doubtful_ = true;
    return Error::FromErrno(failure, StrCat("fdatasync ", name_));
  }
  return SyncName(file);
}

Result<void> Journal::SyncName(const std::shared_ptr<const UniqueFd>& file) {
  {
    const std::lock_guard lock(mutex_);
    if (name_synced_) return {};
  }
  ASSIGN_OR_RETURN(const UniqueFd directory, OpenAt(directory_.get(), ".", O_RDONLY | O_DIRECTORY));
  if (::fsync(directory.get()) != 0) {
    return Error::FromErrno(errno, StrCat("fsync directory of ", name_));
  }
  const std::lock_guard lock(mutex_);
  name_synced_ = file == file_;
  return {};
}

bool Journal::IsLong() const { return end_ > std::max(long_at_, 2 * live_ + kSlack); }

// Entries as they are, so that damage is found as what it is.
Result<void> Journal::WriteAnew() {
  std::string bytes = JournalHeader(mark_);
  bytes.reserve(bytes.size() + live_);
  std::map<std::string, Place, std::less<>> places;
  for (const auto& [key, place] : places_) {
    ASSIGN_OR_RETURN(const std::string entry, ReadPlace(place));
    places[key] = {bytes.size(), entry.size()};
    bytes += entry;
  }
  const bool durable = lasting_ == Lasting::kDisk;
  auto written = WriteFileAtomicAt(directory_.get(), name_, bytes, kFileMode, durable);
  // It may have failed when the new file had the name already.
  if (!written && IsNamed(file_->get())) return written;
  HOLDFAST_PAUSE_POINT("sys.journal.written_anew");
  file_.reset();  // the former one
  name_synced_ = durable && written;
  doubtful_ = false;
  places_ = std::move(places);
  end_ = bytes.size();
  return written;
}

}  // namespace holdfast::sys
