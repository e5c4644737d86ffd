// SPDX-License-Identifier: Apache-2.0
// One Service and its slices -> rows of the table. Pure. Whether two services want one address is
// decided later (service_claims.h).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/model/service.h"
#include "holdfast/model/service_table.h"

namespace holdfast::netproxy {

// What the node says to all rows.
struct TableOptions {
  std::shared_ptr<const model::ServiceSettings> settings =
      std::make_shared<const model::ServiceSettings>();
  std::vector<IpAddress> node_addresses;
  // externalIPs of Services count only in these ranges; the default is none (CVE-2020-8554).
  std::vector<Cidr> external_ip_ranges;
  bool masquerade_all = false;
};

// Why a service has no rules at all; "" when it has some.
std::string_view WhySkipped(const model::Service& service);

struct BuiltRows {
  // By port and family, in the order of the ports; every frontend the service asks for.
  std::vector<model::ServicePortRow> rows;
  std::vector<std::string> problems;  // what was left out and why, one sentence part each
};

BuiltRows BuildRows(const model::Service& service,
                    std::span<const model::EndpointSlice* const> slices,
                    const TableOptions& options);

model::ServicePortKey KeyOf(const model::Service& service, const model::ServicePort& port, bool v6);

// "default" and "web" of the key's name "default/web:http".
model::ServiceName ServiceOf(std::string_view port_key);

// "default/web"
std::string ToString(const model::ServiceName& name);
// "tcp 192.0.2.7:80", "tcp [2001:db8::1]:80", "tcp node port 30080 (IPv6)"
std::string ToString(const model::Frontend& frontend, model::L4Protocol protocol);

}  // namespace holdfast::netproxy
