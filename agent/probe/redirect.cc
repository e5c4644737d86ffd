// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/redirect.h"

#include <algorithm>
#include <string_view>

#include "holdfast/base/ascii.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent {
namespace {

constexpr size_t kLongestLocation = 8 * 1024;

uint16_t DefaultPort(bool tls) { return tls ? 443 : 80; }

struct Authority {
  std::string host;
  std::optional<uint16_t> port;
};

// "host", "host:80", "[fd00::1]:80"; nullopt: none of them.
std::optional<Authority> ParseAuthority(std::string_view text) {
  const bool brackets = text.starts_with('[');
  const size_t host_end = brackets ? text.find(']') : text.find(':');
  if (brackets && host_end == std::string_view::npos) return std::nullopt;
  Authority out;
  out.host = text.substr(brackets ? 1 : 0, brackets ? host_end - 1 : host_end);
  const std::string_view rest =
      host_end == std::string_view::npos ? "" : text.substr(host_end + (brackets ? 1 : 0));
  if (out.host.empty()) return std::nullopt;
  if (rest.empty()) return out;
  if (!rest.starts_with(':')) return std::nullopt;
  out.port = WholeNumber<uint16_t>(rest.substr(1));
  if (out.port.value_or(0) == 0) return std::nullopt;
  return out;
}

// What follows the authority of a URL.
struct Target {
  std::string_view path;
  std::string_view query;  // with the '?'

  static Target Of(std::string_view text) {
    const size_t end = std::min(text.find('?'), text.size());
    return {text.substr(0, end), text.substr(end)};
  }
};

// RFC 3986, 5.2.4: without the segments "." and "..". `path` begins with '/'.
std::string WithoutDots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const std::string_view segment = path.substr(0, path.find('/', 1));
    path.remove_prefix(segment.size());
    if (segment != "/." && segment != "/..") {
      out += segment;
      continue;
    }
    if (segment == "/.." && !out.empty()) out.resize(out.rfind('/'));
    if (path.empty()) out += "/";
  }
  return out;
}

// "//host:port" of the scheme that `next` has by now.
bool TakeAuthority(std::string_view text, HttpCheck& next) {
  text.remove_prefix(std::min(text.size(), text.rfind('@') + 1));
  if (text.ends_with(':')) text.remove_suffix(1);
  const auto authority = ParseAuthority(text);
  if (!authority) return false;
  next.host = authority->host;
  next.port = authority->port.value_or(DefaultPort(next.tls));
  next.authority = text;
  return true;
}

std::optional<HttpCheck> Resolved(const HttpCheck& from, std::string_view location) {
  HttpCheck next = from;
  const size_t colon = location.find_first_of(":/?");
  if (colon != std::string_view::npos && location[colon] == ':') {
    const std::string scheme = ToLower(location.substr(0, colon));
    location.remove_prefix(colon + 1);
    next.tls = scheme == "https";
    if ((!next.tls && scheme != "http") || !location.starts_with("//")) return std::nullopt;
  }
  Target base = Target::Of(from.path);
  if (location.starts_with("//")) {
    location.remove_prefix(2);
    const size_t end = std::min(location.find_first_of("/?"), location.size());
    if (!TakeAuthority(location.substr(0, end), next)) return std::nullopt;
    location.remove_prefix(end);
    base = {"/", ""};
  }
  const Target to = Target::Of(location);
  if (to.path.starts_with('/')) {
    next.path = to.path;
  } else if (to.path.empty()) {
    next.path = base.path;
  } else {
    next.path = StrCat(base.path.substr(0, base.path.rfind('/') + 1), to.path);
  }
  next.path = StrCat(WithoutDots(next.path), location.empty() ? base.query : to.query);
  return next;
}

}  // namespace

std::string UrlOf(const HttpCheck& check) {
  return StrCat(check.tls ? "https://" : "http://", JoinHostPort(check.host, check.port),
                check.path);
}

std::string AuthorityOf(const HttpCheck& check) {
  return check.authority.empty() ? JoinHostPort(check.host, check.port) : check.authority;
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::optional<HttpCheck> FollowRedirect(const HttpCheck& first, const HttpCheck& from,
                                        const std::string& location) {
  const bool is_text = std::ranges::all_of(location, [](char c) { return c > ' ' && c != 0x7f; });
  if (location.empty() || location.size() > kLongestLocation || !is_text) return std::nullopt;
  auto next = Resolved(from, std::string_view(location).substr(0, location.find('#')));
  if (!next || next->host != first.host) return std::nullopt;
  return next;
}

bool IsHeaderValue(const std::string& value) {
  return std::ranges::none_of(value,
                              [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f; });
}

}  // namespace holdfast::agent
