// SPDX-License-Identifier: Apache-2.0
#include "runtime/sys/journal_form.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/crc32c.h"
#include "holdfast/base/strings.h"

namespace holdfast::sys {
namespace {

constexpr std::string_view kMagic = "HFJ";
constexpr char kVersion = '1';
constexpr size_t kSizes = kJournalMark + 1;  // where they are in an entry
constexpr size_t kCrc = kSizes + 6;

void AppendNumber(std::string& out, uint64_t number, size_t bytes) {
  for (; bytes > 0; --bytes, number >>= 8) out.push_back(static_cast<char>(number & 0xff));
}

uint32_t NumberAt(std::string_view bytes, size_t at, size_t size) {
  uint32_t number = 0;
  while (size > 0) number = number << 8 | static_cast<uint8_t>(bytes[at + --size]);
  return number;
}

// What stands at `offset`, if it is an entry and right.
std::optional<JournalEntry> EntryAt(std::string_view file, std::string_view mark, size_t offset) {
  const std::string_view rest = file.substr(offset);
  if (rest.size() < kJournalEntryHeader || !rest.starts_with(mark)) return std::nullopt;
  const size_t key_size = NumberAt(rest, kSizes, 2);
  const size_t value_size = NumberAt(rest, kSizes + 2, 4);
  const size_t size = kJournalEntryHeader + key_size + value_size;
  if (rest.size() < size) return std::nullopt;
  const char state = rest[kJournalState];
  if (state != kJournalPut && state != kJournalFlagged && state != kJournalRemoved) {
    return std::nullopt;
  }
  const uint32_t crc = Crc32c(rest.substr(kJournalEntryHeader, key_size + value_size),
                              Crc32c(rest.substr(kSizes, kCrc - kSizes)));
  if (crc != NumberAt(rest, kCrc, 4)) return std::nullopt;
  JournalEntry entry;
  entry.key = rest.substr(kJournalEntryHeader, key_size);
  entry.value = rest.substr(kJournalEntryHeader + key_size, value_size);
  entry.state = state;
  entry.offset = offset;
  entry.size = size;
  return entry;
}

// Whether `rest` may be what there was time for of one entry.
bool IsCutShort(std::string_view rest, std::string_view mark) {
  if (rest.substr(0, mark.size()) != mark.substr(0, rest.size())) return false;
  if (rest.size() < kJournalEntryHeader) return true;
  const uint64_t wanted =
      uint64_t{kJournalEntryHeader} + NumberAt(rest, kSizes, 2) + NumberAt(rest, kSizes + 2, 4);
  return rest.size() < wanted;
}

void ParseEntries(std::string_view file, ParsedJournal& parsed) {
  size_t at = parsed.end;
  while (at < file.size()) {
    if (auto entry = EntryAt(file, parsed.mark, at)) {
      at += entry->size;
      parsed.end = at;
      parsed.entries.push_back(*entry);
      continue;
    }
    size_t next = file.find(parsed.mark, at + 1);
    while (next != std::string_view::npos && !EntryAt(file, parsed.mark, next)) {
      next = file.find(parsed.mark, next + 1);
    }
    if (next == std::string_view::npos && IsCutShort(file.substr(at), parsed.mark)) return;
    const size_t to = std::min(next, file.size());
    parsed.problems.push_back(StrCat("bytes ", at, " to ", to, " cannot be read"));
    at = to;
  }
}

}  // namespace

std::string JournalHeader(std::string_view mark) {
  std::string header(kMagic);
  header += kVersion;
  header += mark;
  AppendNumber(header, Crc32c(header), 4);
  return header;
}

std::string JournalEntryBytes(std::string_view mark, std::string_view key, std::string_view value) {
  std::string bytes;
  bytes.reserve(kJournalEntryHeader + key.size() + value.size());
  bytes += mark;
  bytes += kJournalPut;
  AppendNumber(bytes, key.size(), 2);
  AppendNumber(bytes, value.size(), 4);
  const std::string_view sizes = std::string_view(bytes).substr(kSizes);
  AppendNumber(bytes, Crc32c(value, Crc32c(key, Crc32c(sizes))), 4);
  bytes += key;
  bytes += value;
  return bytes;
}

Result<ParsedJournal> ParseJournal(std::string_view file) {
  ParsedJournal parsed;
  const std::string_view magic = file.substr(0, kMagic.size());
  if (magic != kMagic.substr(0, magic.size())) return InvalidArgument("it is no journal");
  if (file.size() > kMagic.size() && file[kMagic.size()] != kVersion) {
    const char version = file[kMagic.size()];
    if (version > kVersion && version <= '9') {
      return Unsupported(
          StrCat("a journal of version ", version, ", this release knows ", kVersion));
    }
    return InvalidArgument("the header is damaged");
  }
  if (file.size() < kJournalHeader) return parsed;
  parsed.mark = file.substr(kMagic.size() + 1, kJournalMark);
  if (JournalHeader(parsed.mark) != file.substr(0, kJournalHeader)) {
    return InvalidArgument("the header is damaged");
  }
  parsed.end = kJournalHeader;
  ParseEntries(file, parsed);
  return parsed;
}

}  // namespace holdfast::sys
