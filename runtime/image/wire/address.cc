// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/wire/address.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "holdfast/base/ascii.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime::fetch {
namespace {

constexpr size_t kMaxUrl = 8 << 10;

bool IsPrintable(char c) { return c > 0x20 && c < 0x7f; }

bool IsHostCharacter(char c) {
  return IsAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == ':' || c == '[' || c == ']';
}

// The end of the host in "host:port" or "[v6]:port".
size_t EndOfHost(std::string_view authority) {
  if (!authority.starts_with('[')) return std::min(authority.find(':'), authority.size());
  const size_t bracket = authority.find(']');
  return bracket == std::string_view::npos ? authority.size() : bracket + 1;
}

bool ParsePort(std::string_view text, uint16_t& port) {
  if (text.empty()) return true;
  if (!text.starts_with(':')) return false;
  text.remove_prefix(1);
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return code == std::errc() && end == text.data() + text.size() && port != 0;
}

}  // namespace

std::string Address::Origin() const { return StrCat(scheme, "://", host, ":", port); }

bool Address::IsLoopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  const auto address = IpAddress::Parse(host);
  return address && host.starts_with("127.");
}

std::string Shown(const std::string& url) {
  constexpr size_t kMaxShown = 200;
  std::string shown = url.substr(0, std::min(url.find('?'), kMaxShown));
  const size_t user = shown.find('@');
  const size_t scheme = shown.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  if (user != std::string::npos && user > begin && shown.find('/', begin) > user) {
    shown.erase(begin, user + 1 - begin);
  }
  return shown;
}

Result<Address> ParseAddress(const std::string& url) {
  const auto wrong = [&](std::string_view why) {
    return InvalidArgument(StrCat("URL \"", Shown(url), "\": ", why));
  };
  if (url.size() > kMaxUrl) return wrong("longer than 8192 bytes");
  if (!std::ranges::all_of(url, IsPrintable)) return wrong("holds a character that no URL has");
  Address address;
  std::string_view rest = url;
  const size_t colon = rest.find("://");
  if (colon == std::string_view::npos) return wrong("has no scheme");
  address.scheme = ToLower(rest.substr(0, colon));
  if (address.scheme != "http" && address.scheme != "https") return wrong("is not http or https");
  rest.remove_prefix(colon + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  rest.remove_prefix(authority.size());
  if (rest.find('#') != std::string_view::npos) return wrong("has a fragment");
  const size_t end = EndOfHost(authority);
  address.host = ToLower(authority.substr(0, end));
  if (address.host.empty() || !std::ranges::all_of(address.host, IsHostCharacter)) {
    return wrong("has no usable host");
  }
  address.port = address.IsSecure() ? 443 : 80;
  if (!ParsePort(authority.substr(end), address.port)) return wrong("has no usable port");
  address.path = rest;
  return address;
}

}  // namespace holdfast::runtime::fetch
