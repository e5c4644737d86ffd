// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/names.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr std::string_view kBase32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr size_t kHashSize = 16;  // characters, of 5 bits each

std::string Hash(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  // Fails only without memory; the name is a wrong one then, and the same for every chain.
  ::EVP_Digest(text.data(), text.size(), digest.data(), &size, ::EVP_sha256(), nullptr);
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (size_t i = 0; out.size() < kHashSize; ++i) {
    bits = (bits << 8) | digest[i];
    for (count += 8; count >= 5 && out.size() < kHashSize; count -= 5) {
      out.push_back(kBase32[(bits >> (count - 5)) & 31]);
    }
  }
  return out;
}

}  // namespace

std::string_view ToString(Table table) {
  switch (table) {
    case Table::kFilter:
      return "filter";
    case Table::kNat:
      return "nat";
    case Table::kMangle:
      return "mangle";
  }
  return "";
}

std::string ToString(const model::Endpoint& endpoint) {
  const std::string ip = endpoint.ip.ToString();
  return endpoint.ip.v6 ? StrCat("[", ip, "]:", endpoint.port) : StrCat(ip, ":", endpoint.port);
}

std::string ServiceChain(std::string_view kind, const model::ServicePortRow& row,
                         std::string_view variant) {
  return StrCat(kind, Hash(StrCat(row.key.name, ToString(row.protocol), variant)));
}

std::string EndpointChain(const model::ServicePortRow& row, const model::Endpoint& endpoint) {
  return StrCat("KUBE-SEP-",
                Hash(StrCat(row.key.name, ToString(row.protocol), ToString(endpoint))));
}

bool IsBuiltIn(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {"PREROUTING", "INPUT", "FORWARD",
                                                             "OUTPUT", "POSTROUTING"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool IsBaseChain(std::string_view name) {
  static constexpr std::array kNames = {kServices,    kExternalServices, kNodePorts,
                                        kPostrouting, kMarkMasq,         kMarkMasqForeign,
                                        kForward,     kProxyFirewall,    kCanary};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool IsServiceChain(std::string_view name) {
  static constexpr std::array<std::string_view, 6> kPrefixes = {
      "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-"};
  for (const std::string_view prefix : kPrefixes) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view hash = name.substr(prefix.size());
    return hash.size() == kHashSize && hash.find_first_not_of(kBase32) == std::string_view::npos;
  }
  return false;
}

}  // namespace holdfast::netproxy::iptables
