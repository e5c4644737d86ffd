// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/addresses.h"

#include <charconv>

#include "agent/kube/validation/names.h"

namespace holdfast::agent::kube {
namespace {

struct Refused {
  const char* range;
  const char* why;
};

constexpr Refused kRefused[] = {
    {"0.0.0.0/32", "may not be unspecified (0.0.0.0)"},
    {"::/128", "may not be unspecified (::)"},
    {"127.0.0.0/8", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
    {"::1/128", "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
    {"169.254.0.0/16", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
    {"fe80::/10", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
    {"224.0.0.0/4", "may not be a multicast address (224.0.0.0/4, ff00::/8)"},
    {"ff00::/8", "may not be a multicast address (224.0.0.0/4, ff00::/8)"},
};

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
  for (const Refused& refused : kRefused) {
    if (Cidr::Parse(refused.range)->Contains(*parsed)) report->Invalid(path, address, refused.why);
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
  if (!ReadRange(range)) {
    report->Invalid(path, range, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)");
  }
}

}  // namespace holdfast::agent::kube
