// SPDX-License-Identifier: Apache-2.0
// How a Journal (holdfast/sys/journal.h) lies in its file. Pure; the input is never trusted.
//
//   header   "HFJ1", 8 bytes of chance that mark this file's entries, CRC-32C of these twelve
//   entry    the mark, 'P' (put), 'F' (put, and flagged since) or 'R' (put, and removed since: the key
//            has no value any more), the sizes of key (2 bytes) and value (4), CRC-32C of sizes, key and value; key, value
//
// Numbers are little-endian. Of several entries of a key the last one counts. The mark is made with
// the file and leaves it in no other way, so what somebody wrote into a value is never taken for an
// entry where damage hides the true ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::sys {

inline constexpr size_t kJournalMark = 8;
inline constexpr size_t kJournalHeader = 16;
inline constexpr size_t kJournalEntryHeader = kJournalMark + 11;
inline constexpr size_t kJournalState = kJournalMark;  // where 'P', 'F' or 'R' is in an entry
inline constexpr char kJournalPut = 'P';
inline constexpr char kJournalFlagged = 'F';
inline constexpr char kJournalRemoved = 'R';
inline constexpr size_t kJournalKeyLimit = 0xffff;
inline constexpr size_t kJournalValueLimit = size_t{32} << 20;

struct JournalEntry {
  std::string_view key;
  std::string_view value;
  char state = kJournalPut;
  size_t offset = 0;  // in the file
  size_t size = 0;    // all of it
};

struct ParsedJournal {
  std::string_view mark;  // "": there is no header yet
  std::vector<JournalEntry> entries;
  size_t end = 0;                     // behind the last of them: where the next one goes
  std::vector<std::string> problems;  // a line for each part that cannot be read
};

// Views into `file`. A header or an entry that the file ends in was being written by somebody who
// was killed: it is no problem and not within `end`. kInvalidArgument: the header is another's or
// damaged; kUnsupported: of a newer release.
Result<ParsedJournal> ParseJournal(std::string_view file);

std::string JournalHeader(std::string_view mark);
// Key and value within their limits.
std::string JournalEntryBytes(std::string_view mark, std::string_view key, std::string_view value);

}  // namespace holdfast::sys
