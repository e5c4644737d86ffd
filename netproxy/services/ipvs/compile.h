// SPDX-License-Identifier: Apache-2.0
// One row of the table as virtual servers, bound addresses and elements of rules. Pure.
//
// An address that a service has gets a virtual server for who chooses from the `inside` list, and
// for all if the lists are the same. Node ports, `outside` lists of their own and addresses that
// the node has anyway are virtual servers that are known by a mark, which our rules give: they do
// not depend on the node's addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/model/service_table.h"
#include "netproxy/services/ipvs/rules.h"
#include "netproxy/services/ipvs/virtual_server.h"

namespace holdfast::netproxy::ipvs {

struct CompileContext {
  VirtualConfig config;                // scheduler and its flags
  uint32_t masquerade_mark = 0x4000;   // one bit
  std::set<IpAddress> node_addresses;  // what the node has without us
};

struct RowRules {
  std::map<VirtualKey, VirtualServer> virtuals;
  std::vector<IpAddress> addresses;
  std::vector<RuleElement> elements;
};

// What tells the marks of a row from those of others: by its node port, else by `slot`.
uint32_t MarkId(const model::ServicePortRow& row, uint32_t slot);
// Rows without a node port share a space of slots; which one this name would like.
uint32_t PreferredSlot(const std::string& name);
inline constexpr uint32_t kSlots = 1u << 20;

// The mark: our own upper byte, the id around the masquerade bit, the bit itself.
uint32_t MarkOf(uint32_t id, model::EndpointList list, bool masquerade, uint32_t masquerade_mark);

bool NeedsSlot(const model::ServicePortRow& row, const CompileContext& context);
RowRules CompileRow(const model::ServicePortRow& row, const CompileContext& context, uint32_t slot);

}  // namespace holdfast::netproxy::ipvs
