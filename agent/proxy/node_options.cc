// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/node_options.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/node/node_addresses.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

Result<std::vector<Cidr>> ParseRanges(const char* field, const std::vector<std::string>& texts) {
  std::vector<Cidr> ranges;
  for (const std::string& text : texts) {
    auto range = Cidr::Parse(text);
    if (!range) return std::move(range.error()).Wrap(field);
    ranges.push_back(*range);
  }
  return ranges;
}

// One range per family at most: a service has one address of each.
Result<void> CheckFamilies(const std::vector<Cidr>& ranges) {
  if (ranges.size() < 2 || (ranges.size() == 2 && ranges[0].network.v6 != ranges[1].network.v6)) {
    return {};
  }
  return InvalidArgument("serviceCIDRs: more than one range of a family");
}

Result<std::vector<Cidr>> NodePortRanges(const std::vector<std::string>& texts,
                                         const std::vector<IpAddress>& node) {
  if (texts.size() != 1 || texts.front() != "primary") {
    return ParseRanges("nodePortAddresses", texts);
  }
  std::vector<Cidr> ranges;
  for (const IpAddress& address : node) ranges.push_back({address, address.MaxPrefix()});
  return ranges;
}

}  // namespace

Result<ServiceNodeOptions> ServiceOptionsOf(const model::Instance& instance,
                                            const ProxyConfig& config,
                                            const std::vector<std::string>& node_addresses) {
  ServiceNodeOptions options;
  for (const std::string& text : node_addresses) {
    if (const auto address = IpAddress::Parse(text)) {
      options.table.node_addresses.push_back(*address);
    }
  }
  model::ServiceSettings settings;
  ASSIGN_OR_RETURN(settings.local.cidrs, ParseRanges("podCIDRs", instance.pod_cidrs));
  if (settings.local.cidrs.empty()) {
    settings.local.interface = instance.interface_prefix;
    settings.local.is_prefix = true;
  }
  ASSIGN_OR_RETURN(settings.service_cidrs, ParseRanges("serviceCIDRs", config.service_cidrs));
  RETURN_IF_ERROR(CheckFamilies(settings.service_cidrs));
  ASSIGN_OR_RETURN(settings.node_port_ranges,
                   NodePortRanges(config.node_port_addresses, options.table.node_addresses));
  ASSIGN_OR_RETURN(options.table.external_ip_ranges,
                   ParseRanges("allowedExternalIPs", config.allowed_external_ips));
  options.ranges.cluster_ips = settings.service_cidrs;
  options.table.settings = std::make_shared<const model::ServiceSettings>(std::move(settings));
  return options;
}

Result<ServiceNodeOptions> ReadServiceOptions(const model::Instance& instance,
                                              const ProxyConfig& config) {
  return ServiceOptionsOf(instance, config, NodeAddresses(instance.interface_prefix));
}

}  // namespace holdfast::agent
