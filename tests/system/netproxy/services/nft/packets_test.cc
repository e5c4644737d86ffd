// SPDX-License-Identifier: Apache-2.0
// The table of expectations in nf_tables, and what takes many packets: spread, affinity, endpoints
// that flip.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "netproxy/services/nft/back_end.h"
#include "tests/system/netproxy/services/runner.h"

namespace holdfast::netproxy {
namespace {

class NftPackets : public ServiceRunner, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ServiceRunner::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    auto opened = nft::NftServices::Open("holdfast-services");
    ASSERT_OK(opened);
    back_end_ = std::move(*opened);
  }
  bool v6() const { return GetParam(); }
  std::string Vip() const { return AddressOf("vip:10", v6()); }

  std::shared_ptr<model::ServicePortRow> Plain(std::vector<std::string> endpoints) const {
    return RowOf({"t/plain", model::L4Protocol::kTcp, std::move(endpoints), "vip:10"}, v6());
  }
  std::shared_ptr<model::ServicePortRow> Sticky(std::vector<std::string> endpoints,
                                                std::chrono::seconds timeout) const {
    return StickyRow(std::move(endpoints), timeout, v6());
  }
};
INSTANTIATE_TEST_SUITE_P(Families, NftPackets, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "IPv6" : "IPv4"; });

TEST_P(NftPackets, EveryExpectationHolds) {
  Apply(true, AllRows(v6()));
  RunExpectations("nft", v6());
}

TEST_P(NftPackets, DumpLoadsAgainIntoTheSame) {
  auto rows = AllRows(v6());
  rows.push_back(Sticky({"a", "b"}, std::chrono::seconds(60)));
  std::erase_if(rows, [](const auto& row) {
    return row->key.name == "t/cluster" || row->key.name == "t/np" || row->key.name == "t/lb" ||
           row->key.name == "t/lb:dns";
  });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a->key < b->key; });
  Apply(true, rows);
  const std::string ours = Command("nft list ruleset");
  Command("nft -j list ruleset");
  auto dump = back_end_->Dump();
  ASSERT_OK(dump);
  const std::string path = directory_ + "/dump.nft";
  FILE* file = ::fopen(path.c_str(), "we");
  ASSERT_NE(file, nullptr);
  ::fwrite(dump->data(), 1, dump->size(), file);
  ::fclose(file);
  Command("nft flush ruleset && nft -f " + path);
  EXPECT_EQ(Command("nft list ruleset"), ours);
  Command("nft list ruleset > " + directory_ + "/listing.nft && nft flush ruleset && nft -f " +
          directory_ + "/listing.nft");
  EXPECT_EQ(Command("nft list ruleset"), ours) << "the listing loads again";
}

TEST_P(NftPackets, ConnectionsSpreadEvenly) {
  Apply(true, {Plain({"a", "b", "c"})});
  std::map<std::string, int> met;
  constexpr int kConnections = 10000;
  for (int i = 0; i < kConnections; ++i) ++met[Try("client", Vip(), 80).endpoint];
  ASSERT_EQ(met.size(), 3u);
  const double expected = kConnections / 3.0;
  const double sigma = std::sqrt(kConnections * (1 / 3.0) * (2 / 3.0));
  for (const auto& [name, count] : met) EXPECT_NEAR(count, expected, 4 * sigma) << name;
}

TEST_P(NftPackets, AffinityHoldsOverAllAddressesAndEndsWithItsEndpoint) {
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  const std::string first = Try("client", Vip(), 80).endpoint;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Try("client", Vip(), 80).endpoint, first);
  EXPECT_EQ(Try("client", AddressOf("node", v6()), 30080).endpoint, first);
  EXPECT_EQ(Try("client", AddressOf("lb:20", v6()), 80).endpoint, first);
  Names others;
  for (const char* name : {"a", "b", "c"}) {
    if (name != first) others.insert(name);
  }
  Apply(false, {Sticky({others.begin(), others.end()}, std::chrono::seconds(3600))});
  const std::string second = Try("client", Vip(), 80).endpoint;
  EXPECT_TRUE(others.contains(second)) << second;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Try("client", Vip(), 80).endpoint, second);
  // One more endpoint moves nobody.
  Apply(false, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Try("client", Vip(), 80).endpoint, second);
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
  // A restarted agent keeps who had what.
  auto opened = nft::NftServices::Open("holdfast-services");
  ASSERT_OK(opened);
  back_end_ = std::move(*opened);
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Try("client", Vip(), 80).endpoint, second);
  // And with the affinity off there is none.
  Apply(false, {Sticky({"a", "b", "c"}, std::chrono::seconds(0))});
  Names met;
  for (int i = 0; i < 60; ++i) met.insert(Try("client", Vip(), 80).endpoint);
  EXPECT_EQ(met, (Names{"a", "b", "c"}));
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
}

TEST_P(NftPackets, AffinityIsRefreshedByConnectionsAndTimesOut) {
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(1))});
  using Clock = std::chrono::steady_clock;
  const std::string first = Try("client", Vip(), 80).endpoint;
  auto last = Clock::now();
  for (const auto end = last + std::chrono::milliseconds(2500); Clock::now() < end;) {
    const std::string now = Try("client", Vip(), 80).endpoint;
    const auto gap = Clock::now() - last;
    last = Clock::now();
    if (gap > std::chrono::milliseconds(800)) GTEST_SKIP() << "this machine is too busy";
    EXPECT_EQ(now, first);
  }
  // After the time-out the client is spread again: some try in 40 meets somebody else.
  bool moved = false;
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  std::string before = first;
  while (!moved && Clock::now() < deadline) {
    ::poll(nullptr, 0, 1300);
    const std::string now = Try("client", Vip(), 80).endpoint;
    moved = now != before;
  }
  EXPECT_TRUE(moved);
}

// docs/services.md: 131,072 clients of a Service are remembered; who comes then is served all the
// same.
class NftClients : public NftPackets {};
INSTANTIATE_TEST_SUITE_P(IPv4, NftClients, ::testing::Values(false));  // filling takes its time

TEST_P(NftClients, WhoCannotBeRememberedIsServed) {
  constexpr uint32_t kClients = 131072;
  Apply(true, {Sticky({"a", "b", "c"}, std::chrono::seconds(3600))});
  const std::string names =
      Command(StrCat("nft list table ip holdfast-services | awk '/^\\tmap /{name=$2} /size ",
                     kClients, "/{print name}'"));
  std::istringstream maps(names);
  int filled = 0;
  for (std::string map; maps >> map; ++filled) {
    const std::string value =
        map.find("port") != std::string::npos ? "8080" : addresses_.at("a")[0];
    const std::string path = directory_ + "/clients.nft";
    std::ofstream file(path);
    file << "add element ip holdfast-services " << map << " {";
    for (uint32_t i = 0; i < kClients; ++i) {
      file << "100." << 64 + (i >> 16) << "." << (i >> 8 & 255) << "." << (i & 255) << " : "
           << value << ",";
    }
    file << "}\n";
    file.close();
    Command("nft -f " + path);
  }
  ASSERT_GT(filled, 0) << names;
  Names met;
  for (int i = 0; i < 60; ++i) met.insert(Try("client", Vip(), 80).endpoint);
  EXPECT_EQ(met, (Names{"a", "b", "c"}));
}

// The endpoints change as fast as the kernel takes it; one of them is always there.
TEST_P(NftPackets, NoConnectionHangsWhileEndpointsFlip) {
  Apply(true, {Plain({"a"})});
  const auto row = [this](const auto& endpoints) { return Plain(endpoints); };
  EXPECT_GT(FlipEndpoints(Vip(), row, FlipConnections(10000)), 1000);
  EXPECT_EQ(back_end_->Repair().value_or(99), 0u);
}

}  // namespace
}  // namespace holdfast::netproxy
