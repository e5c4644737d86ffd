// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/back_ends.h"

#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/nft/watch.h"
#include "netproxy/services/iptables/back_end.h"
#include "netproxy/services/ipvs/back_end.h"
#include "netproxy/services/nft/back_end.h"

namespace holdfast::agent {
namespace {

Result<OpenedBackEnd> OpenNftables(const model::Instance& instance,
                                   const netproxy::ipvs::IpvsOptions& /*ipvs*/) {
  const std::string table = ServiceTableName(instance);
  ASSIGN_OR_RETURN(auto services, netproxy::nft::NftServices::Open(table));
  ASSIGN_OR_RETURN(auto watch, netproxy::nft::NftWatch::Open(table, services->port()));
  return OpenedBackEnd{std::move(services),
                       std::make_shared<netproxy::nft::NftWatch>(std::move(watch))};
}

Result<OpenedBackEnd> OpenIptables(const model::Instance& instance,
                                   const netproxy::ipvs::IpvsOptions& /*ipvs*/) {
  ASSIGN_OR_RETURN(auto services,
                   netproxy::iptables::IptablesBackEnd::Open(instance.root_dir + "/iptables.lock"));
  auto watch = services->watch();
  return OpenedBackEnd{std::move(services), std::move(watch)};
}

netproxy::ipvs::IpvsOptions NamesOf(const model::Instance& instance,
                                    netproxy::ipvs::IpvsOptions options) {
  options.nft_table = instance.table_name + "-ipvs";
  options.device = IpvsDevice(instance);
  options.state_dir = instance.run_dir + "/ipvs";
  return options;
}

Result<OpenedBackEnd> OpenIpvs(const model::Instance& instance,
                               const netproxy::ipvs::IpvsOptions& ipvs) {
  const netproxy::ipvs::IpvsOptions options = NamesOf(instance, ipvs);
  ASSIGN_OR_RETURN(auto services, netproxy::ipvs::IpvsBackEnd::Open(options));
  ASSIGN_OR_RETURN(auto watch, netproxy::nft::NftWatch::Open(options.nft_table, services->port()));
  return OpenedBackEnd{std::move(services),
                       std::make_shared<netproxy::nft::NftWatch>(std::move(watch))};
}

struct Mode {
  const char* name;
  Result<OpenedBackEnd> (*open)(const model::Instance& instance,
                                const netproxy::ipvs::IpvsOptions& ipvs);
};
constexpr Mode kModes[] = {
    {"nftables", OpenNftables}, {"iptables", OpenIptables}, {"ipvs", OpenIpvs}};

}  // namespace

std::string IpvsDevice(const model::Instance& instance) {
  constexpr size_t kLongestDevice = 15;  // the name of a network interface
  return (instance.table_name + "-ipvs").substr(0, kLongestDevice);
}

std::vector<std::string> ProxyModes() {
  std::vector<std::string> names;
  for (const Mode& mode : kModes) names.emplace_back(mode.name);
  return names;
}

std::string ServiceTableName(const model::Instance& instance) {
  return instance.table_name + "-services";
}

Result<std::optional<bool>> RemoveUnopened(const std::string& mode, const model::Instance& instance,
                                           const netproxy::ipvs::IpvsOptions& ipvs) {
  if (mode != "ipvs") return std::optional<bool>();
  ASSIGN_OR_RETURN(const bool any, netproxy::ipvs::IpvsBackEnd::CleanUp(NamesOf(instance, ipvs)));
  return std::optional(any);
}

Result<netproxy::ipvs::IpvsOptions> ReadIpvsOptions(const IpvsConfig& config) {
  netproxy::ipvs::IpvsOptions out;
  out.scheduler = config.scheduler;
  out.scheduler_flags = config.scheduler_flags;
  out.strict_arp = config.strict_arp;
  for (const std::string& text : config.exclude_cidrs) {
    auto cidr = Cidr::Parse(text);
    if (!cidr) return std::move(cidr.error()).Wrap("ipvsExcludeCIDRs");
    out.exclude_cidrs.push_back(*cidr);
  }
  out.tcp_timeout = config.tcp_timeout;
  out.tcp_fin_timeout = config.tcp_fin_timeout;
  out.udp_timeout = config.udp_timeout;
  const auto flags = netproxy::ipvs::SchedulerFlags(out);
  if (!flags) return flags.error();
  return out;
}

Result<OpenedBackEnd> OpenBackEnd(const std::string& mode, const model::Instance& instance,
                                  const netproxy::ipvs::IpvsOptions& ipvs) {
  for (const Mode& known : kModes) {
    if (mode == known.name) return WithContext(known.open(instance, ipvs), mode);
  }
  return InvalidArgument(StrCat("proxyMode \"", mode, "\" is not known"));
}

}  // namespace holdfast::agent
