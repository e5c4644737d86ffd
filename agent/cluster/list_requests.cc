// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/list_requests.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr int kPageSize = 500;

// As RFC 3986 has it in a query.
std::string Escaped(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

std::string PathWith(const ReflectorOptions& options, const std::string& query) {
  return StrCat(options.path, "?", options.selectors, options.selectors.empty() ? "" : "&", query);
}

}  // namespace

std::string WatchListPath(const ReflectorOptions& options, std::chrono::seconds timeout) {
  return PathWith(options, StrCat("watch=true&allowWatchBookmarks=true&sendInitialEvents=true&"
                                  "resourceVersionMatch=NotOlderThan&timeoutSeconds=",
                                  timeout.count()));
}

std::string WatchPath(const ReflectorOptions& options, const std::string& version,
                      std::chrono::seconds timeout) {
  return PathWith(options, StrCat("watch=true&allowWatchBookmarks=true&resourceVersion=",
                                  Escaped(version), "&timeoutSeconds=", timeout.count()));
}

std::string ListPath(const ReflectorOptions& options, const std::string& version,
                     const std::string& next) {
  std::string query = StrCat("limit=", kPageSize);
  if (!next.empty()) {
    query += "&continue=" + Escaped(next);  // the token says of which version
  } else if (!version.empty()) {
    query += StrCat("&resourceVersionMatch=NotOlderThan&resourceVersion=", Escaped(version));
  }
  return PathWith(options, query);
}

std::chrono::seconds WatchTimeout(const ReflectorOptions& options, double random) {
  const bool single = options.selectors.find("metadata.name") != std::string::npos;
  const int least = single ? 1800 : 300;
  return std::chrono::seconds(least + static_cast<int>(least * random));
}

std::chrono::milliseconds DelayAfter(unsigned failures, double random) {
  const double delay =
      std::min(30'000.0, 800.0 * static_cast<double>(1u << std::min(failures, 6u)));
  return std::chrono::milliseconds(static_cast<int64_t>(delay * (1 + random / 2)));
}

}  // namespace holdfast::agent
