// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/reference.h"

#include <algorithm>
#include <string_view>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxName = 255;
constexpr size_t kMaxTag = 128;
constexpr std::string_view kDefaultDomain = "docker.io";

bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

template <class Predicate>
bool All(std::string_view text, Predicate predicate) {
  return std::all_of(text.begin(), text.end(), predicate);
}

bool HasUpper(std::string_view text) { return std::any_of(text.begin(), text.end(), IsUpper); }

// A label of a host name: letters, digits and inner hyphens.
bool ValidLabel(std::string_view label) {
  return !label.empty() && IsAlphanumeric(label.front()) && IsAlphanumeric(label.back()) &&
         All(label, [](char c) { return IsAlphanumeric(c) || c == '-'; });
}

bool ValidHost(std::string_view host) {
  if (host.starts_with('[')) {
    return host.size() > 2 && host.ends_with(']') &&
           All(host.substr(1, host.size() - 2), [](char c) { return IsHex(c) || c == ':'; });
  }
  for (;;) {
    const size_t dot = host.find('.');
    if (!ValidLabel(host.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    host.remove_prefix(dot + 1);
  }
}

bool ValidDomain(std::string_view domain) {
  const size_t bracket = domain.rfind(']');
  const size_t colon = domain.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return ValidHost(domain);
  const std::string_view port = domain.substr(colon + 1);
  return !port.empty() && All(port, IsDigit) && ValidHost(domain.substr(0, colon));
}

// [a-z0-9]+ joined by one of: ".", "_", "__", any number of "-".
bool ValidComponent(std::string_view part) {
  if (part.empty() || !IsLowerOrDigit(part.front()) || !IsLowerOrDigit(part.back())) return false;
  for (size_t i = 0; i < part.size();) {
    if (IsLowerOrDigit(part[i])) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < part.size() && !IsLowerOrDigit(part[end])) ++end;
    const std::string_view separator = part.substr(i, end - i);
    const bool hyphens = All(separator, [](char c) { return c == '-'; });
    if (!hyphens && separator != "." && separator != "_" && separator != "__") return false;
    i = end;
  }
  return true;
}

bool ValidPath(std::string_view path) {
  for (;;) {
    const size_t slash = path.find('/');
    if (!ValidComponent(path.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool ValidTag(std::string_view tag) {
  return !tag.empty() && tag.size() <= kMaxTag &&
         (IsAlphanumeric(tag.front()) || tag.front() == '_') &&
         All(tag, [](char c) { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

struct Failure {
  const std::string& text;
  Error operator()(std::string_view why) const {
    return InvalidArgument(StrCat("couldn't parse image name \"", text, "\": ", why));
  }
};

// "algorithm:hex"; the algorithm decides the length.
std::string_view WrongDigest(std::string_view digest) {
  const size_t colon = digest.find(':');
  if (colon == std::string_view::npos || colon == 0) return "invalid reference format";
  const std::string_view hex = digest.substr(colon + 1);
  if (hex.size() < 32 || !All(hex, IsHex)) return "invalid reference format";
  if (digest.substr(0, colon) != "sha256") return "unsupported digest algorithm";
  if (hex.size() != 64 || HasUpper(hex)) return "invalid checksum digest length";
  return {};
}

void SplitDomain(std::string_view text, std::string& domain, std::string& rest) {
  const bool is_short = IsShortName(text);
  const size_t slash = text.find('/');
  domain = is_short ? kDefaultDomain : text.substr(0, slash);
  rest = is_short ? text : text.substr(slash + 1);
  if (domain == "index.docker.io") domain = kDefaultDomain;
  if (domain == kDefaultDomain && rest.find('/') == std::string::npos) rest.insert(0, "library/");
}

}  // namespace

// The first part is a host when it looks like one.
bool IsShortName(std::string_view text) {
  const size_t slash = text.find('/');
  const std::string_view first = text.substr(0, slash);
  return slash == std::string_view::npos || (first.find_first_of(".:") == std::string_view::npos &&
                                             first != "localhost" && !HasUpper(first));
}

std::string Reference::Name() const {
  return digest.empty() ? StrCat(repository, ":", tag) : StrCat(repository, "@", digest);
}

Result<Reference> ParseReference(const std::string& text) {
  const Failure fail{text};
  if (text.empty()) return fail("invalid reference format");
  if (text.size() == 64 && All(text, [](char c) { return IsHex(c) && !IsUpper(c); })) {
    return fail(
        StrCat("invalid repository name (", text, "), cannot specify 64-byte hexadecimal strings"));
  }
  std::string domain;
  std::string rest;
  SplitDomain(text, domain, rest);

  Reference reference;
  const size_t at = rest.find('@');
  if (at != std::string::npos) {
    reference.digest = rest.substr(at + 1);
    rest.resize(at);
  }
  const size_t colon = rest.find(':');
  const std::string path = rest.substr(0, colon);
  if (HasUpper(path)) {
    return fail(StrCat("invalid reference format: repository name (", path, ") must be lowercase"));
  }
  if (colon != std::string::npos) {
    reference.tag = rest.substr(colon + 1);
    if (!ValidTag(reference.tag)) return fail("invalid reference format");
  }
  if (!ValidDomain(domain) || !ValidPath(path)) return fail("invalid reference format");
  if (at != std::string::npos) {
    if (const std::string_view wrong = WrongDigest(reference.digest); !wrong.empty()) {
      return fail(wrong);
    }
  }
  if (path.size() > kMaxName) {
    return fail("repository name must not be more than 255 characters");
  }
  reference.repository = StrCat(domain, "/", path);
  if (reference.tag.empty() && reference.digest.empty()) reference.tag = "latest";
  return reference;
}

}  // namespace holdfast::runtime
