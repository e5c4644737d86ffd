// SPDX-License-Identifier: Apache-2.0
// Journal: values by key, all of them in one file that only grows, until most of it is of no
// account any more and the rest is written anew. A change costs one write(2), no new file and no
// renaming, whatever else is in it. The form is in runtime/sys/journal_form.h.
//
// Who is killed at any moment leaves each key with its former value or its new one. A value counts
// for good (after a power cut too) once Sync() has succeeded after it. A flag and a removal take no
// space, so they succeed on a full disk. Damage costs the values that lie in it and no others.
//
// Thread-safe: changes are one after the other, Sync() stands in nobody's way. One journal at a
// time has the file: its owner holds a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::sys {

struct ParsedJournal;

class Journal {
 public:
  // kProcess: values outlive this process, not a power cut; nobody calls Sync().
  enum class Lasting : uint8_t { kProcess, kDisk };
  struct Opened;

  // `name` in `directory`; need not be there, and is made by the first change. One that is no
  // journal is renamed to `name`.corrupt and told; one that was last changed before
  // `superseded_at`, when the same values were kept elsewhere, to `name`.superseded. kUnsupported:
  // a newer release has written it.
  static Result<Opened> Open(DirFd directory, std::string name, Lasting lasting,
                             WallTime superseded_at = {});

  // The same value again is not written. After an error the key has its former value.
  // kInvalidArgument above 64 KiB of key or 32 MiB of value.
  Result<void> Put(std::string_view key, std::string_view value);
  // Of a value, until it is put again; absent is success.
  Result<void> Flag(std::string_view key);
  // Absent is success.
  Result<void> Remove(std::string_view key);
  // All values that there are before the call are on the disk.
  Result<void> Sync();
  // The file itself; its values go on elsewhere. Nothing else may follow.
  Result<void> Unlink();

 private:
  struct Place {
    size_t offset;
    size_t size;
  };

  Journal(DirFd directory, std::string name, Lasting lasting)
      : directory_(std::move(directory)), name_(std::move(name)), lasting_(lasting) {}
  void Take(const ParsedJournal& parsed, Opened& opened);
  Result<void> SyncName(const std::shared_ptr<const UniqueFd>& file);
  // These with mutex_ held.
  Result<void> OpenToWrite();
  Result<void> WriteHeader();
  Result<std::string> ReadPlace(const Place& place) const;
  bool Holds(const Place& place, std::string_view entry) const;
  Result<void> WriteAt(size_t offset, std::string_view bytes);
  Result<void> SetState(const Place& place, char state);
  bool IsLong() const;
  Result<void> WriteAnew();

  const DirFd directory_;
  const std::string name_;
  const Lasting lasting_;

  std::mutex mutex_;                      // for all below
  std::shared_ptr<const UniqueFd> file_;  // none until there is something to write
  std::string mark_;
  std::map<std::string, Place, std::less<>> places_;  // of what counts
  size_t live_ = 0;                                   // bytes of these
  size_t end_ = 0;                                    // where the next entry goes
  size_t long_at_ = 0;        // no earlier is it written anew: the last time it failed
  bool cut_ = true;           // nothing lies behind end_; not known before the file is open
  bool doubtful_ = false;     // a sync of the file has failed
  bool name_synced_ = false;  // that the directory names this file is on the disk
};

struct Journal::Opened {
  std::unique_ptr<Journal> journal;
  std::map<std::string, std::string, std::less<>> values;
  std::set<std::string, std::less<>> flagged;  // whose values are
  std::vector<std::string> problems;           // a line for each thing that could not be read
};

}  // namespace holdfast::sys
