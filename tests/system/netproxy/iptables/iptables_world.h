// SPDX-License-Identifier: Apache-2.0
// The world of Services with the iptables back end in its node, once for each kind of xtables that
// is installed, in both families.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "netproxy/iptables/back_end.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {

class IptablesWorld : public ServiceRunner,
                      public ::testing::WithParamInterface<std::tuple<std::string, bool>> {
 protected:
  using Rows = std::vector<model::ServicePortRow>;

  void SetUp() override {
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Restart();
  }

  bool v6() const { return std::get<1>(GetParam()); }
  std::string Program(const char* verb) const {
    return StrCat(v6() ? "ip6tables-" : "iptables-", std::get<0>(GetParam()), verb);
  }
  std::string Rules() const { return Command(Program("-save")); }

  // A new back end, as after a restart of the agent.
  void Restart() {
    std::unique_ptr<iptables::XtablesHost> host;
    std::vector<std::unique_ptr<iptables::XtablesHost>> others;
    for (iptables::Programs& programs : iptables::FindPrograms()) {
      const bool chosen = programs.name == std::get<0>(GetParam());
      auto made = iptables::NewProcessHost(std::move(programs));
      if (chosen) {
        host = std::move(made);
      } else {
        others.push_back(std::move(made));
      }
    }
    ASSERT_NE(host, nullptr) << "iptables-" << std::get<0>(GetParam()) << " is not installed";
    back_end_ = std::make_unique<iptables::IptablesBackEnd>(std::move(host), std::move(others));
  }

  std::string Vip(int n = 1) const { return StrCat(v6() ? "fd00:96::" : "10.96.0.", n); }
  std::string NodeIp() const { return v6() ? "2001:db8::2" : "192.0.2.2"; }

  model::ServicePortRow Row(const std::string& name, std::vector<model::Frontend> frontends,
                            const std::vector<std::string>& endpoints) const {
    model::ServicePortRow row;
    row.key = {name, v6()};
    row.cluster = Endpoints(endpoints, v6());
    for (const std::string& endpoint : endpoints) {
      if (endpoint != "c") row.local.push_back(EndpointOf(endpoint, v6()));
    }
    std::sort(row.local.begin(), row.local.end());
    row.frontends = std::move(frontends);
    return row;
  }
  model::Frontend NodePort(uint16_t port) const {
    model::Frontend out;
    out.kind = model::FrontendKind::kNodePort;
    out.address.v6 = v6();
    out.port = port;
    out.masquerade = model::kFromPod | model::kFromNode | model::kFromOutside;
    return out;
  }

  ServiceApplied Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    return ApplyExactly(complete, std::move(rows), std::move(removed));
  }
  ServiceApplied Apply(bool complete, const Rows& rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    std::vector<model::ServicePortRowPtr> shared;
    for (const model::ServicePortRow& row : rows) {
      shared.push_back(std::make_shared<const model::ServicePortRow>(row));
    }
    return Apply(complete, std::move(shared), std::move(removed));
  }
};

}  // namespace holdfast::netproxy
