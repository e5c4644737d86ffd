// SPDX-License-Identifier: Apache-2.0
// A world whose connection table is kept in step with its Services, and datagrams from a sender
// that stays.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "netproxy/conntrack/stale_flows.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {

// `World`: a ServiceRunner with a back end.
template <class World>
class FlowWorld : public World {
 protected:
  // With the record of the one before, if there is one.
  void OpenFlows() {
    flows_.reset();
    auto record = FlowRecord::Load(directory_.path + "/flows");
    ASSERT_OK(record);
    auto flows = StaleFlows::Open(std::move(*record));
    ASSERT_OK(flows);
    flows_.emplace(std::move(*flows));
  }

  // Record, rules, flows. How many flows went.
  size_t Change(bool complete, std::vector<model::ServicePortRowPtr> rows,
                std::vector<model::ServicePortKey> removed = {}) {
    const model::ServiceChange change =
        this->ChangeOf(complete, std::move(rows), std::move(removed));
    EXPECT_OK(flows_->Before(change));
    EXPECT_OK(this->back_end_->Apply(change));
    auto deleted = flows_->After(change);
    EXPECT_OK(deleted);
    return deleted.value_or(99);
  }

  // Puts back what somebody took away. How many flows went.
  size_t Repair() {
    EXPECT_OK(this->back_end_->Repair());
    auto deleted = flows_->AfterRepair();
    EXPECT_OK(deleted);
    return deleted.value_or(99);
  }

  UniqueFd Sender(int netns, const std::string& ip) {
    return Socket(netns, SOCK_DGRAM, ip, 7000, false);
  }
  // Sends one datagram and says who got it.
  std::string Send(const UniqueFd& sender, const std::string& address, uint16_t port) {
    SockAddr to = SockAddr::Of(address, port);
    char byte = 'x';
    if (::sendto(sender.get(), &byte, 1, 0, to.get(), to.size) != 1) {
      return ::strerrorname_np(errno);
    }
    return this->ReceivedBy();
  }

 private:
  struct Directory {
    std::string path = testing::TempDir() + "holdfast-flows-XXXXXX";
    Directory() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
    ~Directory() { std::filesystem::remove_all(path); }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
  };
  Directory directory_;
  std::optional<StaleFlows> flows_;
};

}  // namespace holdfast::netproxy
