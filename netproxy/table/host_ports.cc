// SPDX-License-Identifier: Apache-2.0
#include "netproxy/table/host_ports.h"

#include <algorithm>
#include <optional>

#include "holdfast/base/strings.h"
#include "netproxy/table/service_addresses.h"

namespace holdfast::netproxy {
namespace {

bool IsLoopback4(const IpAddress& ip) { return !ip.v6 && ip.bytes[0] == 127; }

// Nothing for "".
Result<std::optional<IpAddress>> HostIp(const HostPort& port) {
  if (port.host_ip.empty()) return std::optional<IpAddress>();
  auto ip = IpAddress::Parse(port.host_ip);
  if (!ip) return std::move(ip.error()).Wrap(StrCat("host port ", port.host_port));
  if (IsLoopback6(*ip)) {
    return Unsupported(StrCat("host port ", port.host_port, ": host IP ", port.host_ip,
                              " is IPv6's loopback address, whose packets Linux lets reach no pod "
                              "(there is no route_localnet for IPv6); 127.0.0.1 works"));
  }
  return std::optional<IpAddress>(*ip);
}

}  // namespace

model::L4Protocol ToL4(HostPort::Protocol protocol) {
  switch (protocol) {
    case HostPort::Protocol::kTcp:
      return model::L4Protocol::kTcp;
    case HostPort::Protocol::kUdp:
      return model::L4Protocol::kUdp;
    case HostPort::Protocol::kSctp:
      return model::L4Protocol::kSctp;
  }
  return model::L4Protocol::kTcp;
}

Result<std::vector<model::HostPortRow>> HostPortRows(const std::vector<HostPort>& ports,
                                                     const std::vector<IpAddress>& pod_addresses) {
  std::vector<model::HostPortRow> rows;
  for (const HostPort& port : ports) {
    if (port.host_port == 0 || port.container_port == 0) {
      return InvalidArgument(
          StrCat("host port ", port.host_port, " to ", port.container_port, ": 0 is no port"));
    }
    ASSIGN_OR_RETURN(const std::optional<IpAddress> host_ip, HostIp(port));
    for (const IpAddress& pod : pod_addresses) {
      if (host_ip && host_ip->v6 != pod.v6) continue;
      model::HostPortRow row;
      row.host_ip.v6 = pod.v6;
      if (host_ip) row.host_ip = *host_ip;
      row.protocol = ToL4(port.protocol);
      row.host_port = port.host_port;
      row.endpoint = {pod, port.container_port};
      rows.push_back(row);
    }
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

bool HasLoopback(const std::vector<model::HostPortRow>& rows) {
  return std::ranges::any_of(rows, [](const auto& row) { return IsLoopback4(row.host_ip); });
}

bool Clash(const model::HostPortRow& a, const model::HostPortRow& b) {
  return a.host_ip.v6 == b.host_ip.v6 && a.protocol == b.protocol && a.host_port == b.host_port &&
         (a.host_ip == b.host_ip || a.host_ip.IsUnspecified() || b.host_ip.IsUnspecified());
}

std::string ToString(const model::HostPortRow& row) {
  const std::string ip = row.host_ip.ToString();
  return StrCat(ToString(row.protocol), " ", row.host_ip.v6 ? StrCat("[", ip, "]") : ip, ":",
                row.host_port);
}

}  // namespace holdfast::netproxy
