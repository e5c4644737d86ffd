// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"

#include <algorithm>
#include <array>

#include "holdfast/base/ascii.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kLabelLength = 63;
constexpr size_t kSubdomainLength = 253;
constexpr size_t kPortNameLength = 15;

constexpr char kLabelRule[] =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
constexpr char kSubdomainRule[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
constexpr char kLabel1035Rule[] =
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
constexpr char kUnderscoreRule[] =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is "
    "'_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
constexpr char kNamePartRule[] =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation "
    "is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr char kLabelValueRule[] =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr char kConfigKeyRule[] =
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name', "
    " "
    "or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
constexpr char kHeaderRule[] =
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex "
    "used for validation is '[-A-Za-z0-9]+')";

template <class Predicate>
bool AllOf(std::string_view text, Predicate predicate) {
  return std::all_of(text.begin(), text.end(), predicate);
}

bool IsLabelForm(std::string_view name) {
  return !name.empty() && IsLowerOrDigit(name.front()) && IsLowerOrDigit(name.back()) &&
         AllOf(name, [](char c) { return IsLowerOrDigit(c) || c == '-'; });
}

bool IsSubdomainForm(std::string_view name) {
  while (true) {
    const size_t dot = name.find('.');
    if (!IsLabelForm(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

bool IsNamePartForm(std::string_view name) {
  return !name.empty() && IsAlphanumeric(name.front()) && IsAlphanumeric(name.back()) &&
         AllOf(name, [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsUnderscoreLabelForm(std::string_view name) {
  if (name.starts_with('_')) name.remove_prefix(1);
  return !name.empty() && IsLowerOrDigit(name.front()) && IsLowerOrDigit(name.back()) &&
         AllOf(name, [](char c) { return IsLowerOrDigit(c) || c == '-' || c == '_'; });
}

// Kubernetes counts bytes everywhere, and says so of labels only.
std::string AtMost(size_t most, std::string_view unit) {
  return StrCat("must be no more than ", most, " ", unit);
}

void CheckLength(std::string_view text, size_t most, Faults& faults,
                 std::string_view unit = "characters") {
  if (text.size() > most) faults.push_back(AtMost(most, unit));
}

Faults CheckSubdomain(std::string_view name, std::string_view unit) {
  Faults faults;
  CheckLength(name, kSubdomainLength, faults, unit);
  if (!IsSubdomainForm(name)) faults.emplace_back(kSubdomainRule);
  return faults;
}

void CheckDots(std::string_view text, Faults& faults) {
  if (text == ".") {
    faults.emplace_back("must not be '.'");
  } else if (text == "..") {
    faults.emplace_back("must not be '..'");
  } else if (text.starts_with("..")) {
    faults.emplace_back("must not start with '..'");
  }
}

// "010.0.0.1": decimal to some, octal to others.
bool HasLeadingZeros(std::string_view address) {
  std::string plain;  // without them
  for (size_t i = 0; i < address.size(); ++i) {
    const bool starts = plain.empty() || !IsDigit(plain.back());
    const bool leads =
        starts && address[i] == '0' && i + 1 < address.size() && IsDigit(address[i + 1]);
    if (!leads) plain += address[i];
  }
  return plain != address && IpAddress::Parse(plain).has_value();
}

// ::ffff:192.0.2.1
bool IsIpv4Mapped(const IpAddress& address) {
  constexpr std::array<uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return address.v6 && std::equal(kPrefix.begin(), kPrefix.end(), address.bytes.begin());
}

}  // namespace

Faults CheckDns1123Label(std::string_view name) {
  Faults faults;
  CheckLength(name, kLabelLength, faults);
  if (!IsLabelForm(name)) {
    faults.emplace_back(IsSubdomainForm(name) ? "must not contain dots" : kLabelRule);
  }
  return faults;
}

Faults CheckDns1123Subdomain(std::string_view name) { return CheckSubdomain(name, "characters"); }

Faults CheckDns1123SubdomainWithUnderscore(std::string_view name) {
  Faults faults;
  CheckLength(name, kSubdomainLength, faults);
  std::string_view rest = name;
  while (true) {
    const size_t dot = rest.find('.');
    if (!IsUnderscoreLabelForm(rest.substr(0, dot))) {
      faults.emplace_back(kUnderscoreRule);
      return faults;
    }
    if (dot == std::string_view::npos) return faults;
    rest.remove_prefix(dot + 1);
  }
}

bool IsSubdomainOfAnyCase(std::string_view name) {
  const std::string lower = ToLower(name);
  std::string_view rest = lower;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view label = rest.substr(0, dot);
    if (!IsLabelForm(label) || label.size() > kLabelLength) return false;
    if (dot == std::string_view::npos) return true;
    rest.remove_prefix(dot + 1);
  }
}

Faults CheckDns1035Label(std::string_view name) {
  Faults faults;
  CheckLength(name, kLabelLength, faults);
  if (!IsLabelForm(name) || !IsLower(name.front())) faults.emplace_back(kLabel1035Rule);
  return faults;
}

Faults CheckQualifiedName(std::string_view name) {
  Faults faults;
  const size_t slash = name.find('/');
  if (slash != std::string_view::npos && name.find('/', slash + 1) != std::string_view::npos) {
    return {StrCat("a valid label key ", kNamePartRule,
                   " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")};
  }
  if (slash != std::string_view::npos) {
    const std::string_view prefix = name.substr(0, slash);
    name.remove_prefix(slash + 1);
    if (prefix.empty()) faults.emplace_back("prefix part must be non-empty");
    if (!prefix.empty()) {
      for (const std::string& fault : CheckSubdomain(prefix, "bytes")) {
        faults.push_back("prefix part " + fault);
      }
    }
  }
  if (name.empty()) faults.emplace_back("name part must be non-empty");
  if (name.size() > kLabelLength) faults.push_back("name part " + AtMost(kLabelLength, "bytes"));
  if (!IsNamePartForm(name)) faults.push_back(StrCat("name part ", kNamePartRule));
  return faults;
}

Faults CheckLabelValue(std::string_view value) {
  Faults faults;
  CheckLength(value, kLabelLength, faults, "bytes");
  if (!value.empty() && !IsNamePartForm(value)) faults.emplace_back(kLabelValueRule);
  return faults;
}

Faults CheckPortName(std::string_view name) {
  Faults faults;
  CheckLength(name, kPortNameLength, faults);
  if (name.empty() || !AllOf(name, [](char c) { return IsLowerOrDigit(c) || c == '-'; })) {
    faults.emplace_back("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  }
  if (std::none_of(name.begin(), name.end(), IsLower)) {
    faults.emplace_back("must contain at least one letter (a-z)");
  }
  if (name.find("--") != std::string_view::npos) {
    faults.emplace_back("must not contain consecutive hyphens");
  }
  if (name.starts_with('-') || name.ends_with('-')) {
    faults.emplace_back("must not begin or end with a hyphen");
  }
  return faults;
}

Faults CheckEnvName(std::string_view name) {
  if (name.empty()) return {"environment variable name must be non-empty"};
  if (AllOf(name, [](char c) { return c >= ' ' && c <= '~' && c != '='; })) return {};
  return {
      "a valid environment variable name must consist only of printable ASCII characters other "
      "than "
      "'='"};
}

Faults CheckConfigKey(std::string_view key) {
  Faults faults;
  CheckLength(key, kSubdomainLength, faults);
  const auto allowed = [](char c) { return IsAlphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  if (key.empty() || !AllOf(key, allowed)) faults.emplace_back(kConfigKeyRule);
  CheckDots(key, faults);
  return faults;
}

Faults CheckHttpHeaderName(std::string_view name) {
  const auto allowed = [](char c) { return IsAlphanumeric(c) || c == '-'; };
  if (!name.empty() && AllOf(name, allowed)) return {};
  return {kHeaderRule};
}

Faults CheckIpAddress(std::string_view address) {
  const auto parsed = IpAddress::Parse(std::string(address));
  const size_t colon = address.find(':');
  if (!parsed && colon == std::string_view::npos && HasLeadingZeros(address)) {
    return {"must not have leading 0s"};
  }
  if (!parsed) return {"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"};
  if (IsIpv4Mapped(*parsed)) return {"must not be an IPv4-mapped IPv6 address"};
  return {};
}

std::string InclusiveRange(int64_t low, int64_t high) {
  return StrCat("must be between ", low, " and ", high, ", inclusive");
}

}  // namespace holdfast::agent::kube
