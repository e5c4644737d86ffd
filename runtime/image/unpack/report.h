// SPDX-License-Identifier: Apache-2.0
// The helper's answer: NUL-terminated fields in a memory file of fixed size, so that a helper that
// was taken over can neither block the reader nor fill its memory. The reader trusts none of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::runtime::unpack {

inline constexpr uint64_t kMaxReportBytes = 32ull << 20;

// First field: kReportOk, followed by what the mode says, or kReportError, code, text.
inline constexpr std::string_view kReportOk = "ok";
inline constexpr std::string_view kReportError = "error";
// Last field; no clean name has two slashes in a row.
inline constexpr std::string_view kReportEnd = "//end";
// Layer: "members" N, "bytes" N, then "opaque" PATH and "implicit" PATH.
inline constexpr std::string_view kFieldMembers = "members";
inline constexpr std::string_view kFieldBytes = "bytes";
inline constexpr std::string_view kFieldOpaque = "opaque";
inline constexpr std::string_view kFieldImplicit = "implicit";
// Archive: "file" NAME (the N-th is in file "N"), "link" NAME TARGET, "images" (scan only).
inline constexpr std::string_view kFieldFile = "file";
inline constexpr std::string_view kFieldLink = "link";
inline constexpr std::string_view kFieldImages = "images";

inline void AppendField(std::string& report, std::string_view field) {
  report.append(field);
  report.push_back('\0');
}

// Complete fields only.
inline std::vector<std::string> SplitFields(std::string_view report) {
  std::vector<std::string> fields;
  for (size_t end = report.find('\0'); end != std::string_view::npos; end = report.find('\0')) {
    fields.emplace_back(report.substr(0, end));
    report.remove_prefix(end + 1);
  }
  return fields;
}

}  // namespace holdfast::runtime::unpack
