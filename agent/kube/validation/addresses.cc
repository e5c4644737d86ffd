// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/addresses.h"

#include <algorithm>
#include <charconv>

#include "agent/kube/validation/names.h"

namespace holdfast::agent::kube {
namespace {

struct Refused {
  const char* range;
  const char* why;
};

constexpr Refused kRefused[] = {
    {"127.0.0.0/8", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
    {"::1/128", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
    {"169.254.0.0/16", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
    {"fe80::/10", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
    {"224.0.0.0/24", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
    {"ff02::/16", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
    {"224.0.0.0/4", "may not be a multicast address (224.0.0.0/4, ff00::/8)"},
    {"ff00::/8", "may not be a multicast address (224.0.0.0/4, ff00::/8)"},
};

// "10.0.0.0/08"
bool HasPaddedPrefix(std::string range) {
  const size_t slash = range.find('/');
  if (slash == std::string::npos || range.substr(slash + 1, 1) != "0") return false;
  range.erase(slash + 1,
              std::min(range.find_first_not_of('0', slash + 1), range.size() - 1) - slash - 1);
  return ReadRange(range).has_value();
}

}  // namespace

bool IsIpv6(const std::string& address) { return address.find(':') != std::string::npos; }

void CheckAddress(const std::string& address, const std::string& path, Report* report) {
  report->InvalidEach(path, address, CheckIpAddress(address));
}

void CheckUsableAddress(const std::string& address, const std::string& path, Report* report) {
  const size_t before = report->size();
  CheckAddress(address, path, report);
  const auto parsed = IpAddress::Parse(address);
  if (report->size() != before || !parsed) return;
  if (parsed->IsUnspecified()) {
    report->Invalid(path, address, StrCat("may not be unspecified (", address, ")"));
  }
  for (const Refused& refused : kRefused) {
    if (!Cidr::Parse(refused.range)->Contains(*parsed)) continue;
    return report->Invalid(path, address, refused.why);
  }
}

std::optional<Cidr> ReadRange(const std::string& range) {
  const size_t slash = range.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const auto address = IpAddress::Parse(range.substr(0, slash));
  const char* const end = range.data() + range.size();
  uint8_t prefix = 0;
  const auto [stop, error] = std::from_chars(range.data() + slash + 1, end, prefix);
  if (!address || error != std::errc() || stop != end || prefix > address->MaxPrefix()) {
    return std::nullopt;
  }
  return Cidr{Cidr::Mask(*address, prefix), prefix};
}

void CheckRange(const std::string& range, const std::string& path, Report* report) {
  const auto read = ReadRange(range);
  const std::string address = range.substr(0, range.find('/'));
  if (!read) {
    const Faults faults = CheckIpAddress(address);
    const bool zeros = faults == Faults{"must not have leading 0s"} || HasPaddedPrefix(range);
    report->Invalid(path, range,
                    zeros ? "must not have leading 0s in IP or prefix length"
                          : "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
  } else if (!CheckIpAddress(address).empty()) {
    report->Invalid(path, range, "must not have an IPv4-mapped IPv6 address");
  } else if (read->network != *IpAddress::Parse(address)) {
    report->Invalid(path, range, "must not have bits set beyond the prefix length");
  }
}

}  // namespace holdfast::agent::kube
