// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/log_format.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace holdfast::runtime::keeper {
namespace {

constexpr size_t kPrefixBytes = 40;  // time, ' ', "stdout" or "stderr", ' ', tag, ' '
constexpr size_t kTagOffset = 38;

std::tm BrokenDown(WallTime time) {
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(time.since_epoch).count();
  std::tm tm{};
  ::gmtime_r(&seconds, &tm);
  return tm;
}

struct Entry {
  size_t text = 0;      // bytes of text
  size_t consumed = 0;  // text and its newline
  char tag = 0;         // 'F', 'P', or 0: not finished yet
};

Entry NextEntry(std::string_view rest, bool at_end) {
  const size_t window = std::min(rest.size(), kMaxEntryText + 1);
  if (const void* newline = std::memchr(rest.data(), '\n', window); newline != nullptr) {
    const size_t length = static_cast<size_t>(static_cast<const char*>(newline) - rest.data());
    return {length, length + 1, 'F'};
  }
  if (rest.size() > kMaxEntryText) return {kMaxEntryText, kMaxEntryText, 'P'};
  if (at_end) return {rest.size(), rest.size(), 'P'};
  return {};
}

}  // namespace

std::string FormatTime(WallTime time) {
  const std::tm tm = BrokenDown(time);
  const auto second = std::chrono::floor<std::chrono::seconds>(time.since_epoch);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", tm.tm_year + 1900,
                tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                static_cast<long long>((time.since_epoch - second).count()));
  return text;
}

std::string FormatRotationTime(WallTime time) {
  const std::tm tm = BrokenDown(time);
  char text[64];
  std::snprintf(text, sizeof text, "%04d%02d%02d-%02d%02d%02d", tm.tm_year + 1900, tm.tm_mon + 1,
                tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
  return text;
}

Formatted FormatEntries(std::string_view text, LogStream stream, WallTime time, bool at_end,
                        std::span<char> out) {
  char prefix[kPrefixBytes];
  std::memcpy(prefix, FormatTime(time).data(), 30);
  std::memcpy(prefix + 30, stream == LogStream::kStdout ? " stdout F " : " stderr F ", 10);
  Formatted done;
  while (done.consumed < text.size()) {
    const Entry entry = NextEntry(text.substr(done.consumed), at_end);
    if (entry.tag == 0) break;
    const size_t needed = kPrefixBytes + entry.text + 1;
    if (needed > out.size() - done.produced) {
      done.full = true;
      break;
    }
    char* to = out.data() + done.produced;
    std::memcpy(to, prefix, kPrefixBytes);
    to[kTagOffset] = entry.tag;
    std::memcpy(to + kPrefixBytes, text.data() + done.consumed, entry.text);
    to[needed - 1] = '\n';
    done.produced += needed;
    done.consumed += entry.consumed;
  }
  return done;
}

}  // namespace holdfast::runtime::keeper
