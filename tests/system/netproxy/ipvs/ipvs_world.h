// SPDX-License-Identifier: Apache-2.0
// The world of Services with the IPVS back end in its node.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "netproxy/ipvs/back_end.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {

class IpvsWorld : public ServiceRunner {
 protected:
  using Rows = std::vector<model::ServicePortRow>;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    int ignored = 0;
    Command("modprobe -q ip_vs", &ignored);  // where it is a module that nobody asked for
    if (!ipvs::IpvsKernel::Open()) GTEST_SKIP() << "kernel lacks IPVS";
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    options_.state_dir = directory_ + "/ipvs";
    Restart();
  }

  // A new back end, as after a restart of the agent.
  void Restart() {
    auto opened = ipvs::IpvsBackEnd::Open(options_);
    ASSERT_OK(opened);
    back_end_ = std::move(*opened);
  }

  // Every change leaves exactly what a fresh look wants.
  ServiceApplied Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    ServiceApplied applied = ServiceRunner::Apply(complete, std::move(rows), std::move(removed));
    auto differences = back_end_->Repair();
    EXPECT_OK(differences);
    EXPECT_EQ(differences.value_or(999), 0u) << back_end_->Dump().value_or("");
    return applied;
  }

  // All virtual servers of the node.
  static ipvs::Observed Observe() {
    auto kernel = ipvs::IpvsKernel::Open();
    EXPECT_OK(kernel);
    auto observed = kernel->ListVirtuals();
    EXPECT_OK(observed);
    EXPECT_OK(kernel->ListReals(*observed));
    return *observed;
  }

  std::set<std::string> Reached(const std::string& client, const std::string& address,
                                uint16_t port, int tries = 30) {
    std::set<std::string> out;
    for (int i = 0; i < tries; ++i) out.insert(Try(client, address, port).endpoint);
    return out;
  }

  ipvs::IpvsOptions options_;
};

class IpvsFamilies : public IpvsWorld, public ::testing::WithParamInterface<bool> {
 protected:
  bool v6() const { return GetParam(); }
  std::string Vip(int n = 10) const { return StrCat(v6() ? "fd00:96::" : "10.96.0.", n); }
  std::string NodeIp() const { return AddressOf("node", v6()); }

  std::shared_ptr<model::ServicePortRow> Web(std::vector<std::string> endpoints,
                                             model::L4Protocol protocol = model::L4Protocol::kTcp) {
    return RowOf({"t/web", protocol, std::move(endpoints), "vip:10"}, v6());
  }
  std::shared_ptr<model::ServicePortRow> Sticky(std::vector<std::string> endpoints,
                                                std::chrono::seconds timeout) const {
    auto row = RowOf({"t/sticky", model::L4Protocol::kTcp, std::move(endpoints), "vip:10", false,
                      false, 30080, "lb:20"},
                     v6());
    row->affinity = timeout;
    return row;
  }
};

}  // namespace holdfast::netproxy
