// SPDX-License-Identifier: Apache-2.0
// What became of each archive of the image directory: which images it brought, so that a start does
// not import it again, and why it could not be imported.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// A file as long as it stays the same.
struct ArchiveStamp {
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t modified_nanos = 0;
  bool operator==(const ArchiveStamp&) const = default;
};

struct ArchiveRecord {
  ArchiveStamp stamp;          // that `images` came from
  std::vector<Digest> images;  // none: it never could be imported
  // The last try that failed; of this run of the agent only.
  ArchiveStamp tried;
  std::string error;         // "": none did
  bool final_error = false;  // the file has to change
};

using ArchiveFiles = std::map<std::string, ArchiveStamp>;     // by name, what is there
using ArchiveRecords = std::map<std::string, ArchiveRecord>;  // by name

// Those to import now: new, changed, not yet to be had, or with an image that is no longer here.
std::vector<std::string> ArchivesToImport(const ArchiveFiles& files, const ArchiveRecords& records,
                                          const std::function<bool(const Digest&)>& is_here);

// Archives are whole when they have such a name: not "", ".x", "x.part", "x.tmp".
bool IsArchiveName(const std::string& name);

// The records, kept in a file. Thread-safe; what asks waits for no disk.
class ArchiveBook {
 public:
  // Not there, or not to be read: no records, so everything is imported again, which changes nothing.
  explicit ArchiveBook(std::string path);

  // "archive app.tar", "" for an image that none holds.
  std::string PinnedBy(const Digest& id) const;
  ArchiveRecords records() const;

  // What failed to be written is imported again at the next start.
  Result<void> NoteImported(const std::string& name, const ArchiveStamp& stamp,
                            std::vector<Digest> images);
  // False: that this file cannot be had for this reason was noted before.
  bool NoteFailure(const std::string& name, const ArchiveStamp& stamp, const std::string& error,
                   bool is_final);
  // What archives had brought that are gone are images like any other.
  Result<void> Retain(const ArchiveFiles& files);

 private:
  Result<void> Write() const;

  const std::string path_;
  mutable std::mutex mutex_;  // what follows; never held at the disk
  ArchiveRecords records_;
};

}  // namespace holdfast::agent
