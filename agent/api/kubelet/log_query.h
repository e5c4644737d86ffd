// SPDX-License-Identifier: Apache-2.0
// What /containerLogs is asked for, from the query of its URL. Pure.
// Source: control-plane.md 7.7; PodLogOptions, its decoding and validation as a kubelet does it.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/log/log_follower.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::api {

// Keys and values decoded; in the order of the URL within a key. At most 1,000 pairs are read.
using Query = std::map<std::string, std::vector<std::string>>;
Query ParseQuery(std::string_view text);

// The text of the path with its percent signs decoded, one element per part; "/a//b" has an empty one.
std::vector<std::string> PathParts(std::string_view path);

struct LogOptions {
  bool follow = false, previous = false, timestamps = false;
  LogFilter filter;
  std::optional<int64_t> limit_bytes;
};

// Why it is refused, as status and text.
struct LogRefusal {
  unsigned status;
  const char* text;
};
std::expected<LogOptions, LogRefusal> ReadLogOptions(Query query, WallTime now);

}  // namespace holdfast::agent::api
