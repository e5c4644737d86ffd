// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/log_query.h"

#include <algorithm>
#include <utility>

#include "agent/kube/times.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/percent.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kMostPairs = 1000;
constexpr LogRefusal kUndecodable{400, R"({"message": "Unable to decode query."})"};
constexpr LogRefusal kInvalid{422, R"({"message": "Invalid request."})"};

const std::string* First(const Query& query, const char* key) {
  const auto found = query.find(key);
  return found == query.end() || found->second.empty() ? nullptr : &found->second.front();
}

// As Kubernetes reads one: "", "1" and "yes" are true.
bool ReadBool(const Query& query, const char* key) {
  const std::string* const text = First(query, key);
  if (text == nullptr) return false;
  const std::string lower = ToLower(*text);
  return lower != "false" && lower != "0";
}

// False: it is no number.
bool ReadNumber(const Query& query, const char* key, std::optional<int64_t>& out) {
  const std::string* const text = First(query, key);
  if (text == nullptr) return true;
  out = WholeNumber<int64_t>(std::string_view(*text).substr(text->starts_with('+') ? 1 : 0));
  return out.has_value();
}

bool ReadTime(const Query& query, const char* key, std::optional<WallTime>& out) {
  const std::string* const text = First(query, key);
  if (text == nullptr || text->empty() || *text == "null") return true;
  const auto time = kube::ParseRfc3339(*text);
  if (!time) return false;
  out = std::max(kube::ToWallTime(*time), WallTime());
  return true;
}

// False: neither of a stream's names.
bool ReadStream(const Query& query, LogFilter& filter) {
  const std::string* const text = First(query, "stream");
  if (text == nullptr || *text == "All") return true;
  if (*text == "Stdout") filter.stream = LogStreamKind::kStdout;
  if (*text == "Stderr") filter.stream = LogStreamKind::kStderr;
  return filter.stream.has_value();
}

}  // namespace

Query ParseQuery(std::string_view text) {
  Query query;
  for (size_t pairs = 0; !text.empty() && pairs < kMostPairs; ++pairs) {
    const std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    const size_t split = std::min(pair.find('='), pair.size());
    const std::string_view value = split < pair.size() ? pair.substr(split + 1) : "";
    query[PercentDecoded(pair.substr(0, split), true)].push_back(PercentDecoded(value, true));
  }
  return query;
}

std::vector<std::string> PathParts(std::string_view path) {
  std::vector<std::string> parts;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    parts.push_back(PercentDecoded(path.substr(0, end)));
    if (end == path.size()) return parts;
    path.remove_prefix(end + 1);
  }
}

std::expected<LogOptions, LogRefusal> ReadLogOptions(Query query, WallTime now) {
  if (const std::string* const tail = First(query, "tail"); tail != nullptr && !tail->empty()) {
    const std::string lines = *tail;
    lines == "all" ? void(query.erase("tailLines")) : void(query["tailLines"] = {lines});
  }
  LogOptions options;
  options.follow = ReadBool(query, "follow");
  options.previous = ReadBool(query, "previous");
  options.timestamps = ReadBool(query, "timestamps");
  std::optional<int64_t> seconds;
  std::optional<WallTime> since;
  if (!ReadNumber(query, "tailLines", options.filter.tail_lines) ||
      !ReadNumber(query, "limitBytes", options.limit_bytes) ||
      !ReadNumber(query, "sinceSeconds", seconds) || !ReadTime(query, "sinceTime", since)) {
    return std::unexpected(kUndecodable);
  }
  const bool one_stream = First(query, "stream") != nullptr && *First(query, "stream") != "All";
  if (options.filter.tail_lines.value_or(0) < 0 || options.limit_bytes.value_or(1) < 1 ||
      seconds.value_or(1) < 1 || (seconds && since) || !ReadStream(query, options.filter) ||
      (one_stream && options.filter.tail_lines)) {
    return std::unexpected(kInvalid);
  }
  if (since) options.filter.since = *since;
  constexpr int64_t kLongest = 100LL * 365 * 24 * 3600;
  if (seconds) {
    const auto ago = std::chrono::seconds(std::min(*seconds, kLongest));
    options.filter.since = std::max(WallTime{now.since_epoch - ago}, WallTime{});
  }
  return options;
}

}  // namespace holdfast::agent::api
