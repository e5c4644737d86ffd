// SPDX-License-Identifier: Apache-2.0
// The chains that kube-proxy makes in iptables mode, by its own names, so that people and tools
// find what they know. A chain of a service is a prefix and 16 characters of the base32 of a
// SHA-256; the same in both families and in every proxy that follows Kubernetes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/model/service_table.h"

namespace holdfast::netproxy::iptables {

enum class Table : uint8_t { kFilter, kNat, kMangle };
inline constexpr std::array kAllTables = {Table::kFilter, Table::kNat, Table::kMangle};
inline constexpr size_t kTables = kAllTables.size();
std::string_view ToString(Table table);

inline constexpr std::string_view kServices = "KUBE-SERVICES";
inline constexpr std::string_view kExternalServices = "KUBE-EXTERNAL-SERVICES";
inline constexpr std::string_view kNodePorts = "KUBE-NODEPORTS";
inline constexpr std::string_view kPostrouting = "KUBE-POSTROUTING";
inline constexpr std::string_view kMarkMasq = "KUBE-MARK-MASQ";
// Ours: marks what no pod of this node sent, where it takes more than one match to say who is one.
inline constexpr std::string_view kMarkMasqForeign = "KUBE-MARK-MASQ-FOREIGN";
inline constexpr std::string_view kForward = "KUBE-FORWARD";
inline constexpr std::string_view kProxyFirewall = "KUBE-PROXY-FIREWALL";
// Shared with kubelet, which makes the same rule.
inline constexpr std::string_view kFirewall = "KUBE-FIREWALL";
inline constexpr std::string_view kCanary = "KUBE-PROXY-CANARY";

// "10.0.0.1:80", "[2001:db8::1]:80"
std::string ToString(const model::Endpoint& endpoint);

// `kind` is "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-" or "KUBE-FW-"; `variant` is empty but for a
// second chain of one kind.
std::string ServiceChain(std::string_view kind, const model::ServicePortRow& row,
                         std::string_view variant = "");
std::string EndpointChain(const model::ServicePortRow& row, const model::Endpoint& endpoint);

// One of the kernel's own chains.
bool IsBuiltIn(std::string_view name);
// One of the constant chains above, KUBE-FIREWALL excepted.
bool IsBaseChain(std::string_view name);
// Made for one service or endpoint, by us or by a kube-proxy of any version.
bool IsServiceChain(std::string_view name);

}  // namespace holdfast::netproxy::iptables
