// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/back_ends.h"

#include <utility>

#include "holdfast/base/strings.h"
#include "netproxy/iptables/back_end.h"
#include "netproxy/ipvs/back_end.h"
#include "netproxy/nft/service_back_end.h"

namespace holdfast::agent {
namespace {

Result<OpenedBackEnd> OpenNftables(const model::Instance& instance) {
  const std::string table = ServiceTableName(instance);
  ASSIGN_OR_RETURN(auto services, netproxy::nft::NftServices::Open(table));
  ASSIGN_OR_RETURN(auto watch, netproxy::nft::NftWatch::Open(table, services->port()));
  return OpenedBackEnd{std::move(services), std::move(watch)};
}

Result<OpenedBackEnd> OpenIptables(const model::Instance& /*instance*/) {
  ASSIGN_OR_RETURN(auto services, netproxy::iptables::IptablesBackEnd::Open());
  return OpenedBackEnd{std::move(services), std::nullopt};
}

// The name of a network interface.
constexpr size_t kLongestDevice = 15;

Result<OpenedBackEnd> OpenIpvs(const model::Instance& instance) {
  netproxy::ipvs::IpvsOptions options;
  options.nft_table = instance.table_name + "-ipvs";
  options.device = options.nft_table.substr(0, kLongestDevice);
  options.state_dir = instance.run_dir + "/ipvs";
  const std::string table = options.nft_table;
  ASSIGN_OR_RETURN(auto services, netproxy::ipvs::IpvsBackEnd::Open(std::move(options)));
  ASSIGN_OR_RETURN(auto watch, netproxy::nft::NftWatch::Open(table, services->port()));
  return OpenedBackEnd{std::move(services), std::move(watch)};
}

struct Mode {
  const char* name;
  Result<OpenedBackEnd> (*open)(const model::Instance& instance);
};
constexpr Mode kModes[] = {
    {"nftables", OpenNftables}, {"iptables", OpenIptables}, {"ipvs", OpenIpvs}};

}  // namespace

std::vector<std::string> ProxyModes() {
  std::vector<std::string> names;
  for (const Mode& mode : kModes) names.emplace_back(mode.name);
  return names;
}

std::string ServiceTableName(const model::Instance& instance) {
  return instance.table_name + "-services";
}

Result<OpenedBackEnd> OpenBackEnd(const std::string& mode, const model::Instance& instance) {
  for (const Mode& known : kModes) {
    if (mode == known.name) return WithContext(known.open(instance), mode);
  }
  return InvalidArgument(StrCat("proxyMode \"", mode, "\" is not known"));
}

}  // namespace holdfast::agent
