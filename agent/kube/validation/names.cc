// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/names.h"

#include <arpa/inet.h>

#include <algorithm>

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

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLowerOrDigit(char c) { return IsLower(c) || IsDigit(c); }
bool IsAlphanumeric(char c) { return IsLowerOrDigit(c) || IsUpper(c); }

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

std::string AtMost(size_t characters) {
  return StrCat("must be no more than ", characters, " characters");
}

void CheckLength(std::string_view text, size_t most, Faults& faults) {
  if (text.size() > most) faults.push_back(AtMost(most));
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

}  // namespace

Faults CheckDns1123Label(std::string_view name) {
  Faults faults;
  CheckLength(name, kLabelLength, faults);
  if (!IsLabelForm(name)) {
    faults.emplace_back(IsSubdomainForm(name) ? "must not contain dots" : kLabelRule);
  }
  return faults;
}

Faults CheckDns1123Subdomain(std::string_view name) {
  Faults faults;
  CheckLength(name, kSubdomainLength, faults);
  if (!IsSubdomainForm(name)) faults.emplace_back(kSubdomainRule);
  return faults;
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
      for (const std::string& fault : CheckDns1123Subdomain(prefix)) {
        faults.push_back("prefix part " + fault);
      }
    }
  }
  if (name.empty()) faults.emplace_back("name part must be non-empty");
  if (name.size() > kLabelLength) faults.push_back("name part " + AtMost(kLabelLength));
  if (!IsNamePartForm(name)) faults.push_back(StrCat("name part ", kNamePartRule));
  return faults;
}

Faults CheckLabelValue(std::string_view value) {
  Faults faults;
  CheckLength(value, kLabelLength, faults);
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
  in6_addr parsed{};
  const std::string text(address);
  if (::inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
      ::inet_pton(AF_INET6, text.c_str(), &parsed) == 1) {
    return {};
  }
  return {"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"};
}

std::string InclusiveRange(int64_t low, int64_t high) {
  return StrCat("must be between ", low, " and ", high, ", inclusive");
}

}  // namespace holdfast::agent::kube
