// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/redirect.h"

#include <algorithm>
#include <string_view>

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
  text.remove_prefix(std::min(text.size(), text.rfind('@') + 1));
  const bool brackets = text.starts_with('[');
  const size_t host_end = brackets ? text.find(']') : text.find(':');
  if (brackets && host_end == std::string_view::npos) return std::nullopt;
  Authority out;
  out.host = text.substr(brackets ? 1 : 0, brackets ? host_end - 1 : host_end);
  std::string_view rest =
      host_end == std::string_view::npos ? "" : text.substr(host_end + (brackets ? 1 : 0));
  if (out.host.empty()) return std::nullopt;
  if (rest.empty()) return out;
  rest.remove_prefix(1);
  out.port = WholeNumber<uint16_t>(rest);
  if (out.port.value_or(0) == 0) return std::nullopt;
  return out;
}

// "//host:port/path" of the scheme that `next` has by now.
std::optional<HttpCheck> Absolute(HttpCheck next, std::string_view rest) {
  const size_t end = rest.find_first_of("/?#");
  const auto authority = ParseAuthority(rest.substr(0, end));
  if (!authority) return std::nullopt;
  next.host = authority->host;
  next.port = authority->port.value_or(DefaultPort(next.tls));
  next.authority = std::string(rest.substr(0, end));
  next.path = end == std::string_view::npos ? "/" : std::string(rest.substr(end));
  if (!next.path.starts_with('/')) next.path.insert(0, "/");
  return next;
}

std::optional<HttpCheck> Resolved(const HttpCheck& from, std::string_view location) {
  HttpCheck next = from;
  for (const auto& [scheme, tls] : {std::pair("http:", false), std::pair("https:", true)}) {
    if (!location.starts_with(scheme)) continue;
    next.tls = tls;
    location.remove_prefix(std::string_view(scheme).size());
    if (!location.starts_with("//")) return std::nullopt;
  }
  if (location.starts_with("//")) return Absolute(std::move(next), location.substr(2));
  if (location.starts_with('/')) {
    next.path = location;
  } else if (location.starts_with('?')) {
    next.path = StrCat(from.path.substr(0, from.path.find('?')), location);
  } else {
    const std::string base = from.path.substr(0, from.path.find('?'));
    next.path = StrCat(base.substr(0, base.rfind('/') + 1), location);
  }
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
