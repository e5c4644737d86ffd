// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_proxy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "agent/proxy/node_options.h"
#include "agent/proxy/proxy_answers.h"
#include "agent/proxy/service_book.h"
#include "holdfast/base/strings.h"
#include "netproxy/nft/cleanup.h"

namespace holdfast::agent {
namespace {

constexpr char kZoneLabel[] = "topology.kubernetes.io/zone";

using Log = std::function<void(const std::string& line)>;

Result<std::unique_ptr<ServiceRules>> OpenRules(const AgentConfig& config, const Log& log,
                                                std::shared_ptr<ProxyMetrics> metrics) {
  ServiceRulesOptions options;
  options.metrics = std::move(metrics);
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

bool HasFamily(const model::ServiceSettings& settings, bool v6) {
  return std::any_of(settings.service_cidrs.begin(), settings.service_cidrs.end(),
                     [v6](const Cidr& cidr) { return cidr.network.v6 == v6; });
}

Result<HealthServer::Listeners> FixedListeners(const AgentConfig& config, ProxyAnswers answers) {
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
  ASSIGN_OR_RETURN(const auto options, ReadAnnounceOptions(config_));
  if (!options) return {};
  ASSIGN_OR_RETURN(announcements_, Announcements::Start(*options, *rules_, clock, log));
  return {};
}

void ServiceProxy::TellAnnounced(Announced announced) {
  if (!announcements_) return;
  announcements_->SetListener([services = services_.get(), announced = std::move(announced)](
                                  const model::ServiceName& name, const AddressHeld& held) {
    const ServicePtr service = services->Find(name);  // none: it was deleted meanwhile
    if (service) announced(*service, held);
  });
}

ProxyAnswers ServiceProxy::Answers(std::shared_ptr<ProxyMetrics> metrics, const Clock& clock,
                                   const model::ServiceSettings& settings) const {
  ProxyAnswers answers{services_->driver(), clock, std::move(metrics),
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

Result<std::unique_ptr<ServiceProxy>> ServiceProxy::Start(const AgentConfig& config,
                                                          PodSource& source, PodView& pods,
                                                          const Clock& clock,
                                                          LocalServicesCallbacks callbacks,
                                                          Announced announced) {
  ASSIGN_OR_RETURN(const ServiceNodeOptions node, ReadServiceOptions(config));
  const Log log = callbacks.log;
  std::unique_ptr<ServiceProxy> proxy(new ServiceProxy(config));
  proxy->log_ = log;
  const auto metrics = std::make_shared<ProxyMetrics>();
  ASSIGN_OR_RETURN(proxy->rules_, OpenRules(config, log, metrics));
  RETURN_IF_ERROR(proxy->StartAnnouncements(clock, log));
  ASSIGN_OR_RETURN(ServiceBook book, OpenBook(config, node.ranges, clock, log));
  LocalServicesOptions options;
  options.node_name = config.instance.node_name;
  if (const auto zone = config.node_labels.find(kZoneLabel); zone != config.node_labels.end()) {
    options.zone = zone->second;
  }
  options.driver.table = node.table;
  options.driver.metrics = metrics;
  if (const Announcements* answering = proxy->announcements_.get()) {
    options.announced = [answering](const IpAddress& address) { return answering->Of(address); };
  }
  ASSIGN_OR_RETURN(proxy->services_,
                   LocalServices::Start(source, pods, proxy->back_end(), clock, std::move(book),
                                        std::move(options), std::move(callbacks)));
  proxy->TellAnnounced(std::move(announced));
  ServiceDriver& driver = proxy->services_->driver();
  proxy->rules_->SetTouchedListener([&driver] { driver.RepairSoon(); });
  ASSIGN_OR_RETURN(auto fixed,
                   FixedListeners(config, proxy->Answers(metrics, clock, *node.table.settings)));
  ASSIGN_OR_RETURN(proxy->health_,
                   ServiceHealth::Start(driver, clock, ServiceHealth::ListenAddresses(node.table),
                                        std::move(fixed), log));
  const auto moved = [p = proxy.get()](const netproxy::TableOptions& table) {
    p->services_->SetTableOptions(table);
    p->health_->SetAddresses(ServiceHealth::ListenAddresses(table));
  };
  ASSIGN_OR_RETURN(proxy->addresses_, AddressWatch::Start(config, node.table, moved, log));
  return proxy;
}

ServiceProxy::~ServiceProxy() {
  if (announcements_) announcements_->SetListener({});  // it asks for Services
  if (rules_) rules_->SetTouchedListener({});           // it calls the driver
}

void ServiceProxy::SetMode(const std::string& mode) {
  if (const auto may = CheckAnnounceMode(config_, mode); !may) {
    log_(StrCat("proxyMode ", mode, ": ", may.error().message()));
    return;
  }
  if (rules_->SetMode(mode)) services_->driver().ApplyAll();
}

Result<void> ServiceProxy::RemoveRules(const AgentConfig& config) {
  AgentConfig nftables = config;
  nftables.proxy_mode = "nftables";  // needs no program, so there is something to begin with
  ASSIGN_OR_RETURN(
      const auto rules,
      OpenRules(nftables, [](const std::string&) {}, std::make_shared<ProxyMetrics>()));
  RETURN_IF_ERROR(rules->Remove());
  return {};
}

Result<std::vector<std::string>> ServiceProxy::RemoveKubeProxyRules(const AgentConfig& config) {
  ASSIGN_OR_RETURN(const netproxy::ipvs::IpvsOptions ipvs, ReadIpvsOptions(config));
  ASSIGN_OR_RETURN(std::vector<std::string> removed, netproxy::nft::RemoveKubeProxyTables());
  for (const std::string& mode : ProxyModes()) {
    if (mode == "nftables") continue;  // a table of its own: done above
    ASSIGN_OR_RETURN(std::optional<bool> any, RemoveUnopened(mode, config.instance, ipvs));
    if (!any) {
      auto opened = OpenBackEnd(mode, config.instance, ipvs);
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
