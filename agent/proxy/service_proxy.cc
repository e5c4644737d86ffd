// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_proxy.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/proxy/node_options.h"
#include "agent/proxy/proxy_answers.h"
#include "agent/proxy/service_allocations.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "netproxy/services/nft/cleanup.h"

namespace holdfast::agent {
namespace {

constexpr char kZoneLabel[] = "topology.kubernetes.io/zone";

using Log = std::function<void(const std::string& line)>;

// Somebody else wrote into it: what a former agent left behind is not known.
Result<netproxy::FlowRecord> OpenFlowRecord(const std::string& path, const Log& log) {
  auto record = netproxy::FlowRecord::Load(path);
  if (record || record.error().code() != Code::kInvalidArgument) return record;
  log(StrCat(record.error().message(), "; it is made anew"));
  RETURN_IF_ERROR(sys::RemoveFileAt(AT_FDCWD, path));
  return netproxy::FlowRecord::Load(path);
}

Result<std::unique_ptr<ServiceRules>> OpenRules(const model::Instance& instance,
                                                const ProxyConfig& config, const Log& log,
                                                std::shared_ptr<ProxyMetrics> metrics) {
  ServiceRulesOptions options;
  options.metrics = std::move(metrics);
  options.mode = config.mode;
  options.record = instance.root_dir + "/proxy/modes";
  ASSIGN_OR_RETURN(const netproxy::ipvs::IpvsOptions ipvs, ReadIpvsOptions(config.ipvs));
  options.open = [instance, ipvs](const std::string& mode) {
    return OpenBackEnd(mode, instance, ipvs);
  };
  options.remove_unopened = [instance, ipvs](const std::string& mode) {
    return RemoveUnopened(mode, instance, ipvs);
  };
  options.log = log;
  ASSIGN_OR_RETURN(netproxy::FlowRecord record,
                   OpenFlowRecord(instance.run_dir + "/proxy/flows", log));
  ASSIGN_OR_RETURN(auto flows, netproxy::StaleFlows::Open(std::move(record)));
  return ServiceRules::Open(std::move(options), std::move(flows));
}

Result<ServiceAllocations> OpenBook(const model::Instance& instance, const ServiceRanges& ranges,
                                    const Clock& clock, const Log& log) {
  ASSIGN_OR_RETURN(ServiceAllocations book,
                   ServiceAllocations::Open(instance.root_dir + "/services", ranges, clock));
  for (const std::string& warning : book.TakeWarnings()) log(warning);
  return book;
}

bool HasFamily(const model::ServiceSettings& settings, bool v6) {
  return std::any_of(settings.service_cidrs.begin(), settings.service_cidrs.end(),
                     [v6](const Cidr& cidr) { return cidr.network.v6 == v6; });
}

Result<HealthServer::Listeners> FixedListeners(const ProxyConfig& config, ProxyAnswers answers) {
  ASSIGN_OR_RETURN(const auto health, ParseBindAddress(config.healthz_bind_address));
  ASSIGN_OR_RETURN(const auto metrics, ParseBindAddress(config.metrics_bind_address));
  if (health && metrics && *health == *metrics) {
    return InvalidArgument(
        StrCat("healthzBindAddress and metricsBindAddress are both ", config.healthz_bind_address));
  }
  return ProxyListeners(health, metrics, std::move(answers));
}

}  // namespace

Result<void> ServiceProxy::StartAnnouncements(const Clock& clock, const Log& log) {
  ASSIGN_OR_RETURN(const auto options, ReadAnnounceOptions(config_.instance, config_.proxy));
  if (!options) return {};
  ASSIGN_OR_RETURN(announcements_, Announcements::Start(*options, *rules_, clock, log));
  return {};
}

void ServiceProxy::TellAnnounced(Announced announced) {
  if (!announcements_) return;
  announcements_->SetListener([this, announced = std::move(announced)](
                                  const model::ServiceName& name, const AddressHeld& held) {
    const ServicePtr service = catalog_.Find(name);  // none: it was deleted meanwhile
    if (service) announced(*service, held);
  });
}

ProxyAnswers ServiceProxy::Answers(std::shared_ptr<ProxyMetrics> metrics, const Clock& clock,
                                   const model::ServiceSettings& settings) const {
  ProxyAnswers answers{*driver_, clock, std::move(metrics),
                       [rules = rules_.get()] { return rules->mode(); }};
  if (announcements_) {
    answers.announced = [announced = announcements_.get()] { return announced->Status(); };
  }
  answers.config = config_;
  answers.ipv4 = HasFamily(settings, false);
  answers.ipv6 = HasFamily(settings, true);
  return answers;
}

ServiceBackEnd& ServiceProxy::back_end() {
  if (announcements_) return *announcements_;
  return *rules_;
}

void ServiceProxy::StartDriver(const netproxy::TableOptions& table,
                               std::shared_ptr<ProxyMetrics> metrics, const Clock& clock,
                               const ServiceCallbacks& callbacks) {
  ServiceDriverCallbacks driver;
  // What the table or the kernel left out.
  driver.problems = [this, trouble = callbacks.trouble](const model::ServiceName& name,
                                                        const std::vector<std::string>& messages) {
    const ServicePtr service = catalog_.Find(name);
    if (service == nullptr || !trouble) return;  // deleted meanwhile
    for (const std::string& message : messages) trouble(*service, {"Quarantined", message});
  };
  driver.log = callbacks.log;
  ServiceDriverOptions options;
  options.table = table;
  options.metrics = std::move(metrics);
  driver_ =
      std::make_unique<ServiceDriver>(back_end(), clock, std::move(options), std::move(driver));
  rules_->SetTouchedListener([this] { driver_->RepairSoon(); });
  ShownServices::Announced announced;
  if (announcements_) {
    announced = [this](const IpAddress& address) { return announcements_->Of(address); };
  }
  shown_ = std::make_unique<ShownServices>(catalog_, *driver_, table, std::move(announced));
}

// Other addresses of the node, or ranges that follow from them.
void ServiceProxy::TakeTable(const netproxy::TableOptions& table) {
  shown_->SetNodeAddresses(table.node_addresses);
  driver_->Edit([&](netproxy::ServiceTracker& tracker) { tracker.SetOptions(table); });
  health_->SetAddresses(ServiceHealth::ListenAddresses(table));
}

Result<void> ServiceProxy::StartSource(const ServiceRanges& ranges, ServiceSources sources,
                                       const Clock& clock, ServiceCallbacks callbacks) {
  NodeIdentity node{config_.instance.node_name, ""};
  if (const auto zone = config_.node.labels.find(kZoneLabel); zone != config_.node.labels.end()) {
    node.zone = zone->second;
  }
  if (sources.api != nullptr) {
    cluster_ = std::make_unique<ClusterServices>(*sources.api, *driver_, catalog_, std::move(node),
                                                 std::move(callbacks));
    return {};
  }
  ASSIGN_OR_RETURN(ServiceAllocations book,
                   OpenBook(config_.instance, ranges, clock, callbacks.log));
  LocalServicesOptions options;
  options.node_name = std::move(node.name);
  options.zone = std::move(node.zone);
  ASSIGN_OR_RETURN(local_,
                   LocalServices::Start(sources.manifests, sources.pods, std::move(book), *driver_,
                                        catalog_, std::move(options), std::move(callbacks)));
  return {};
}

Result<std::unique_ptr<ServiceProxy>> ServiceProxy::Start(const AgentConfig& config,
                                                          ServiceSources sources,
                                                          const Clock& clock,
                                                          ServiceCallbacks callbacks,
                                                          Announced announced) {
  model::Instance instance = config.instance;
  if (sources.api != nullptr && !config.pod_network.IsCni()) instance.pod_cidrs.clear();
  ASSIGN_OR_RETURN(const ServiceNodeOptions node, ReadServiceOptions(instance, config.proxy));
  const Log log = callbacks.log;
  std::unique_ptr<ServiceProxy> proxy(new ServiceProxy(config));
  proxy->log_ = log;
  const auto metrics = std::make_shared<ProxyMetrics>();
  ASSIGN_OR_RETURN(proxy->rules_, OpenRules(config.instance, config.proxy, log, metrics));
  RETURN_IF_ERROR(proxy->StartAnnouncements(clock, log));
  proxy->StartDriver(node.table, metrics, clock, callbacks);
  RETURN_IF_ERROR(proxy->StartSource(node.ranges, sources, clock, std::move(callbacks)));
  proxy->TellAnnounced(std::move(announced));
  ASSIGN_OR_RETURN(auto fixed, FixedListeners(config.proxy, proxy->Answers(metrics, clock,
                                                                           *node.table.settings)));
  ASSIGN_OR_RETURN(proxy->health_, ServiceHealth::Start(*proxy->driver_, clock,
                                                        ServiceHealth::ListenAddresses(node.table),
                                                        std::move(fixed), log));
  const auto moved = [p = proxy.get()](const auto& table) { p->TakeTable(table); };
  ASSIGN_OR_RETURN(proxy->addresses_,
                   AddressWatch::Start(instance, config.proxy, node.table, moved, log));
  return proxy;
}

ServiceProxy::~ServiceProxy() {
  if (announcements_) announcements_->SetListener({});  // it asks for Services
  if (rules_) rules_->SetTouchedListener({});           // it calls the driver
}

void ServiceProxy::SetMode(const std::string& mode) {
  if (const auto may = CheckAnnounceMode(config_.proxy, mode); !may) {
    log_(StrCat("proxyMode ", mode, ": ", may.error().message()));
    return;
  }
  if (rules_->SetMode(mode)) driver_->ApplyAll();
}

Result<void> ServiceProxy::RemoveRules(const model::Instance& instance, const ProxyConfig& config) {
  ProxyConfig nftables = config;
  nftables.mode = "nftables";  // needs no program, so there is something to begin with
  ASSIGN_OR_RETURN(
      const auto rules,
      OpenRules(instance, nftables, [](const std::string&) {}, std::make_shared<ProxyMetrics>()));
  RETURN_IF_ERROR(rules->Remove());
  return {};
}

Result<std::vector<std::string>> ServiceProxy::RemoveKubeProxyRules(const model::Instance& instance,
                                                                    const IpvsConfig& config) {
  ASSIGN_OR_RETURN(const netproxy::ipvs::IpvsOptions ipvs, ReadIpvsOptions(config));
  ASSIGN_OR_RETURN(std::vector<std::string> removed, netproxy::nft::RemoveKubeProxyTables());
  for (const std::string& mode : ProxyModes()) {
    if (mode == "nftables") continue;  // a table of its own: done above
    ASSIGN_OR_RETURN(std::optional<bool> any, RemoveUnopened(mode, instance, ipvs));
    if (!any) {
      auto opened = OpenBackEnd(mode, instance, ipvs);
      if (!opened && opened.error().code() == Code::kNotFound)
        continue;  // so nothing is left of it
      if (!opened) return std::move(opened.error());
      ASSIGN_OR_RETURN(any, WithContext(opened->back_end->Remove(), mode));
    }
    if (*any) removed.push_back("rules of the " + mode + " mode");
  }
  return removed;
}

}  // namespace holdfast::agent
