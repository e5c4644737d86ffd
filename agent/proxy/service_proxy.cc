// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_proxy.h"

#include <utility>

#include "agent/proxy/node_options.h"
#include "agent/proxy/service_book.h"
#include "netproxy/nft/cleanup.h"

namespace holdfast::agent {
namespace {

using Log = std::function<void(const std::string& line)>;

Result<std::unique_ptr<ServiceRules>> OpenRules(const AgentConfig& config, const Log& log) {
  ServiceRulesOptions options;
  options.mode = config.proxy_mode;
  options.record = config.instance.root_dir + "/proxy/modes";
  ASSIGN_OR_RETURN(const netproxy::ipvs::IpvsOptions ipvs, ReadIpvsOptions(config));
  options.open = [instance = config.instance, ipvs](const std::string& mode) {
    return OpenBackEnd(mode, instance, ipvs);
  };
  options.remove_unopened = [instance = config.instance, ipvs](const std::string& mode) {
    return RemoveUnopened(mode, instance, ipvs);
  };
  options.log = log;
  ASSIGN_OR_RETURN(auto flows, netproxy::StaleFlows::Open());
  return ServiceRules::Open(std::move(options), std::move(flows));
}

Result<ServiceBook> OpenBook(const AgentConfig& config, const ServiceRanges& ranges,
                             const Clock& clock, const Log& log) {
  ASSIGN_OR_RETURN(ServiceBook book,
                   ServiceBook::Open(config.instance.root_dir + "/services", ranges, clock));
  for (const std::string& warning : book.TakeWarnings()) log(warning);
  return book;
}

}  // namespace

Result<std::unique_ptr<ServiceProxy>> ServiceProxy::Start(const AgentConfig& config,
                                                          PodSource& source, PodView& pods,
                                                          const Clock& clock,
                                                          LocalServicesCallbacks callbacks) {
  ASSIGN_OR_RETURN(const ServiceNodeOptions node, ReadServiceOptions(config));
  const Log log = callbacks.log;
  std::unique_ptr<ServiceProxy> proxy(new ServiceProxy());
  ASSIGN_OR_RETURN(proxy->rules_, OpenRules(config, log));
  ASSIGN_OR_RETURN(ServiceBook book, OpenBook(config, node.ranges, clock, log));
  LocalServicesOptions options;
  options.node_name = config.instance.node_name;
  options.driver.table = node.table;
  ASSIGN_OR_RETURN(proxy->services_,
                   LocalServices::Start(source, pods, *proxy->rules_, clock, std::move(book),
                                        std::move(options), std::move(callbacks)));
  ServiceDriver& driver = proxy->services_->driver();
  proxy->rules_->SetTouchedListener([&driver] { driver.RepairSoon(); });
  ASSIGN_OR_RETURN(
      proxy->health_,
      ServiceHealth::Start(driver, clock, ServiceHealth::ListenAddresses(node.table), log));
  return proxy;
}

ServiceProxy::~ServiceProxy() {
  if (rules_) rules_->SetTouchedListener({});  // it calls the driver
}

void ServiceProxy::SetMode(const std::string& mode) {
  rules_->SetMode(mode);
  services_->driver().ApplyAll();
}

Result<void> ServiceProxy::RemoveRules(const AgentConfig& config, bool kube_proxy_too) {
  AgentConfig nftables = config;
  nftables.proxy_mode = "nftables";  // needs no program, so there is something to begin with
  ASSIGN_OR_RETURN(const auto rules, OpenRules(nftables, [](const std::string&) {}));
  RETURN_IF_ERROR(rules->Remove());
  if (!kube_proxy_too) return {};
  ASSIGN_OR_RETURN(const auto tables, netproxy::nft::RemoveKubeProxyTables());
  (void)tables;
  for (const std::string& mode : ProxyModes()) {
    if (mode == "nftables") continue;  // a table of its own: done above
    auto opened = OpenBackEnd(mode, config.instance);
    if (!opened && opened.error().code() == Code::kNotFound) continue;  // so nothing is left of it
    if (!opened) return std::move(opened.error());
    RETURN_IF_ERROR(WithContext(opened->back_end->Remove(), mode));
  }
  return {};
}

}  // namespace holdfast::agent
