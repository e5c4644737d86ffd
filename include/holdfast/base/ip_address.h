// SPDX-License-Identifier: Apache-2.0
// IpAddress and Cidr: one value type for IPv4 and IPv6, with the arithmetic that ranges need.
// Text forms are those of inet_pton(3) and inet_ntop(3). No allocation besides the text.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast {

// Network byte order; IPv4 uses the first four bytes and keeps the others zero.
struct IpAddress {
  bool v6 = false;
  std::array<uint8_t, 16> bytes{};

  auto operator<=>(const IpAddress&) const = default;

  size_t size() const { return v6 ? 16 : 4; }
  int family() const { return v6 ? AF_INET6 : AF_INET; }
  uint8_t MaxPrefix() const { return v6 ? 128 : 32; }

  static Result<IpAddress> Parse(const std::string& text) {
    IpAddress a;
    if (::inet_pton(AF_INET, text.c_str(), a.bytes.data()) == 1) return a;
    a.v6 = true;
    if (::inet_pton(AF_INET6, text.c_str(), a.bytes.data()) == 1) return a;
    return InvalidArgument(StrCat("\"", text, "\" is no IP address"));
  }

  static IpAddress FromBytes(bool v6, const void* data) {
    IpAddress a;
    a.v6 = v6;
    std::memcpy(a.bytes.data(), data, a.size());
    return a;
  }

  std::string ToString() const {
    char text[INET6_ADDRSTRLEN];
    return ::inet_ntop(family(), bytes.data(), text, sizeof text) == nullptr ? "" : text;
  }

  bool IsUnspecified() const {
    for (uint8_t b : bytes) {
      if (b != 0) return false;
    }
    return true;
  }

  // The next address, wrapping to all zero after the last one.
  IpAddress Next() const {
    IpAddress a = *this;
    for (size_t i = size(); i-- > 0;) {
      if (++a.bytes[i] != 0) break;
    }
    return a;
  }
};

struct Cidr {
  IpAddress network;  // host bits are zero
  uint8_t prefix = 0;

  auto operator<=>(const Cidr&) const = default;

  // "10.88.0.0/16"; host bits must be zero, so that a typing error is not silently widened.
  static Result<Cidr> Parse(const std::string& text) {
    const size_t slash = text.find('/');
    if (slash == std::string::npos) return InvalidArgument(StrCat("\"", text, "\" is no CIDR"));
    auto address = IpAddress::Parse(text.substr(0, slash));
    if (!address) return std::move(address.error()).Wrap(StrCat("CIDR \"", text, "\""));
    Cidr c;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, c.prefix);
    if (error != std::errc() || stop != end || c.prefix > address->MaxPrefix()) {
      return InvalidArgument(StrCat("CIDR \"", text, "\": bad prefix length"));
    }
    c.network = Mask(*address, c.prefix);
    if (c.network != *address) {
      return InvalidArgument(StrCat("CIDR \"", text, "\": host bits are set, ",
                                    c.network.ToString(), "/", static_cast<int>(c.prefix),
                                    " is meant"));
    }
    return c;
  }

  std::string ToString() const { return StrCat(network.ToString(), "/", static_cast<int>(prefix)); }

  bool Contains(const IpAddress& a) const {
    return a.v6 == network.v6 && Mask(a, prefix) == network;
  }

  // The highest address of the range (IPv4: the broadcast address).
  IpAddress Last() const {
    IpAddress a = network;
    for (size_t i = 0; i < a.size(); ++i) a.bytes[i] |= static_cast<uint8_t>(~MaskByte(prefix, i));
    return a;
  }

  static IpAddress Mask(IpAddress a, uint8_t prefix) {
    for (size_t i = 0; i < a.size(); ++i) a.bytes[i] &= MaskByte(prefix, i);
    return a;
  }

  // Byte `i` of the netmask of `prefix`.
  static uint8_t MaskByte(uint8_t prefix, size_t i) {
    const size_t before = i * 8;
    if (prefix >= before + 8) return 0xff;
    if (prefix <= before) return 0;
    return static_cast<uint8_t>(0xff00u >> (prefix - before));
  }
};

}  // namespace holdfast
