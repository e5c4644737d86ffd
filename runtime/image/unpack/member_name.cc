// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/member_name.h"

#include <climits>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::unpack {
namespace {

constexpr size_t kMaxParts = 1024;

Error Refuse(std::string_view raw, std::string_view why) {
  return InvalidArgument(StrCat("member \"", Printable(raw), "\": ", why));
}

}  // namespace

Result<std::string> CleanMemberName(std::string_view raw) {
  if (raw.find('\0') != std::string_view::npos) return Refuse(raw, "name holds a NUL byte");
  std::string clean;
  size_t parts = 0;
  size_t begin = 0;
  while (begin < raw.size()) {
    size_t end = raw.find('/', begin);
    if (end == std::string_view::npos) end = raw.size();
    const std::string_view part = raw.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return Refuse(raw, "name holds \"..\"");
    if (part.size() > NAME_MAX) return Refuse(raw, "a part of the name is longer than 255 bytes");
    if (++parts > kMaxParts) return Refuse(raw, StrCat("deeper than ", kMaxParts, " directories"));
    if (!clean.empty()) clean.push_back('/');
    clean.append(part);
  }
  if (clean.size() >= PATH_MAX) return Refuse(raw, "name is longer than 4095 bytes");
  return clean;
}

std::string_view ParentOf(std::string_view clean) {
  const size_t slash = clean.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : clean.substr(0, slash);
}

std::string_view LeafOf(std::string_view clean) {
  const size_t slash = clean.rfind('/');
  return slash == std::string_view::npos ? clean : clean.substr(slash + 1);
}

std::string Printable(std::string_view raw) {
  static constexpr char kHex[] = "0123456789abcdef";
  constexpr size_t kLongest = 200;
  std::string out;
  for (const char c : raw.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out.push_back(c);
    } else {
      out.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  if (raw.size() > kLongest) out.append("…");
  return out;
}

}  // namespace holdfast::runtime::unpack
