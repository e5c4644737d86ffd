// SPDX-License-Identifier: Apache-2.0
// The world of Services with the IPVS back end in its node.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/sys/sysctl.h"
#include "netproxy/services/ipvs/back_end.h"
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

  ServiceApplied Apply(bool complete, std::vector<model::ServicePortRowPtr> rows,
                       std::vector<model::ServicePortKey> removed = {}) {
    return ApplyExactly(complete, std::move(rows), std::move(removed));
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

  // One echo request and its answer.
  static bool Ping(int netns, const std::string& ip, int timeout_ms = kTimeoutMs) {
    bool answered = false;
    EXPECT_OK(sys::RunInNetworkNamespace(netns, [&]() -> Result<void> {
      RETURN_IF_ERROR(sys::WriteSysctl("net/ipv4/ping_group_range", "0 1000"));
      SockAddr to = SockAddr::Of(ip, 0);
      const bool v6 = to.storage.ss_family == AF_INET6;
      const UniqueFd fd(::socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC,
                                 v6 ? int{IPPROTO_ICMPV6} : int{IPPROTO_ICMP}));
      std::array<char, 8> echo = {static_cast<char>(v6 ? 128 : 8)};
      ::sendto(fd.get(), echo.data(), echo.size(), 0, to.get(), to.size);
      answered = WaitFor(fd.get(), POLLIN, timeout_ms);
      return {};
    }));
    return answered;
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
    return StickyRow(std::move(endpoints), timeout, v6());
  }
};

}  // namespace holdfast::netproxy
