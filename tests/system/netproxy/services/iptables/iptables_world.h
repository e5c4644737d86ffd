// SPDX-License-Identifier: Apache-2.0
// The world of Services with the iptables back end in its node, once for each kind of xtables that
// is installed, in both families.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "netproxy/services/iptables/back_end.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {

// The back end of one kind of xtables, as the agent has it where it chose this kind.
inline std::unique_ptr<iptables::IptablesBackEnd> NewIptables(const std::string& kind,
                                                              const std::string& lock) {
  std::unique_ptr<iptables::XtablesHost> host;
  std::shared_ptr<iptables::IptablesWatch> watch;
  std::vector<std::unique_ptr<iptables::XtablesHost>> others;
  for (iptables::Programs& programs : iptables::FindPrograms()) {
    if (programs.name == kind) {
      auto opened = iptables::OpenWatch(programs);
      EXPECT_OK(opened);
      if (!opened) return nullptr;
      watch = std::move(*opened);
      host = iptables::NewProcessHost(std::move(programs), {lock, watch});
    } else {
      others.push_back(iptables::NewProcessHost(std::move(programs), {lock, nullptr}));
    }
  }
  EXPECT_NE(host, nullptr) << "iptables-" << kind << " is not installed";
  if (host == nullptr) return nullptr;
  return std::make_unique<iptables::IptablesBackEnd>(std::move(host), std::move(others),
                                                     std::move(watch));
}

class IptablesWorld : public ServiceRunner,
                      public ::testing::WithParamInterface<std::tuple<std::string, bool>> {
 protected:
  using Rows = std::vector<model::ServicePortRow>;

  void SetUp() override {
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    Restart();
  }

  std::string Kind() const { return std::get<0>(GetParam()); }
  bool v6() const { return std::get<1>(GetParam()); }
  std::string Program(const char* verb) const {
    return StrCat(v6() ? "ip6tables-" : "iptables-", Kind(), verb);
  }
  std::string Rules() const { return Command(Program("-save")); }

  // A new back end, as after a restart of the agent.
  void Restart() {
    auto opened = NewIptables(Kind(), LockFile());
    ASSERT_NE(opened, nullptr);
    iptables_ = opened.get();
    back_end_ = std::move(opened);
  }
  std::string LockFile() const { return directory_ + "/iptables.lock"; }

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

  iptables::IptablesBackEnd* iptables_ = nullptr;
};

}  // namespace holdfast::netproxy
