// SPDX-License-Identifier: Apache-2.0
// Two nodes' keepers and one API server on loopback. The rules themselves are tested in
// tests/unit/netproxy/announce/lease_election_test.cc, with a clock of the test.
#include "agent/lease/lease_keeper.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <map>

#include "holdfast/base/strings.h"
#include "netproxy/announce/election.h"
#include "tests/fakes/fake_api_server.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using netproxy::announce::AddressLease;
using netproxy::announce::kFence;
using test_support::Eventually;
using test_support::FakeApiServer;
using Manner = FakeApiServer::Manner;
using std::chrono::milliseconds;

constexpr char kPath[] =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/holdfast-address-198.51.100.7";

// So that fences and patience take a third of their time; requests do not.
class FastClock : public Clock {
 public:
  BootTime Boot() const override { return {3 * real_.Boot().since_boot}; }
  WallTime Wall() const override { return real_.Wall(); }

 private:
  SystemClock real_;
};

class LeaseKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    keys_.emplace(directory_, "IP:127.0.0.1");
    server_.emplace(*keys_);
  }
  void TearDown() override {
    leases_.clear();
    keepers_.clear();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Start(const std::string& node) {
    LeaseKeeperOptions options;
    options.server.server = StrCat("https://127.0.0.1:", server_->port());
    options.server.host = options.server.tls_server_name = "127.0.0.1";
    options.server.port = server_->port();
    options.server.authority.file = keys_->Path("ca.crt");
    options.server.certificate.file = keys_->Path("client.crt");
    options.server.key.file = keys_->Path("client.key");
    options.identity = node;
    options.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    auto keeper = LeaseKeeper::Start(std::move(options), clock_);
    ASSERT_TRUE(keeper) << keeper.error().message();
    leases_[node] = (*keeper)->LeaseOf(*IpAddress::Parse("198.51.100.7"));
    keepers_[node] = std::move(*keeper);
  }
  void End(const std::string& node) {
    leases_[node]->Unwant(this);
    leases_.erase(node);
    keepers_.erase(node);
  }

  void Want(const std::string& node) {
    leases_[node]->Want(this, clock_.Boot() + std::chrono::hours(1));
  }
  bool Holds(const std::string& node) const { return leases_.at(node)->MayAnswer(clock_.Boot()); }
  std::string HolderAtTheServer() const {
    const nlohmann::json lease = server_->Object(kPath);
    return lease.is_null() ? "(none)" : lease["spec"].value("holderIdentity", "");
  }
  size_t LinesWith(const std::string& text) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::count_if(
        lines_.begin(), lines_.end(),
        [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  FastClock clock_;
  std::string directory_ = std::filesystem::temp_directory_path() / "lease-keeper-XXXXXX";
  std::optional<test_support::TlsKeys> keys_;
  std::optional<FakeApiServer> server_;
  std::mutex mutex_;  // guards lines_
  std::vector<std::string> lines_;
  std::map<std::string, std::unique_ptr<LeaseKeeper>> keepers_;
  std::map<std::string, std::shared_ptr<AddressLease>> leases_;
};

TEST_F(LeaseKeeperTest, OneOfTwoHoldsItAndGivesItBackAtItsEnd) {
  Start("a");
  Start("b");
  Want("a");
  ASSERT_TRUE(Eventually([&] { return Holds("a"); }));
  EXPECT_EQ(HolderAtTheServer(), "a");
  Want("b");
  const std::string version = server_->Object(kPath)["metadata"]["resourceVersion"];
  ASSERT_TRUE(Eventually([&] {
    return server_->Object(kPath)["metadata"]["resourceVersion"] != version;
  })) << "renewed";
  EXPECT_FALSE(Holds("b"));
  EXPECT_EQ(HolderAtTheServer(), "a");
  End("a");
  EXPECT_NE(HolderAtTheServer(), "a") << "given back, so nobody has to wait";
  ASSERT_TRUE(Eventually([&] { return Holds("b"); }));
  EXPECT_EQ(server_->Object(kPath)["spec"]["leaseTransitions"], 2);
}

TEST_F(LeaseKeeperTest, WhoeverCannotRenewIsSilentWhileRequestsHang) {
  Start("a");
  Want("a");
  ASSERT_TRUE(Eventually([&] { return Holds("a"); }));
  for (const Manner manner : {Manner::kSilent, Manner::kGarbage, Manner::kForbidden}) {
    server_->Behave(manner);
    const BootTime began = clock_.Boot();
    ASSERT_TRUE(Eventually([&] { return !Holds("a"); }));
    EXPECT_LE(clock_.Boot() - began, kFence + milliseconds(2500));
    ASSERT_TRUE(Eventually([&] { return LinesWith("trying again") == 1; }));
    server_->Behave(Manner::kHonest);
    ASSERT_TRUE(Eventually([&] { return Holds("a"); })) << "it is still its own";
    // Told after it holds: the line may still be on its way.
    EXPECT_TRUE(Eventually(
        [&] { return LinesWith("lease of 198.51.100.7: the API server answers again") == 1; }));
    EXPECT_EQ(LinesWith("trying again"), 1u);
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }
  EXPECT_EQ(server_->Object(kPath)["spec"]["leaseTransitions"], 1);
}

TEST_F(LeaseKeeperTest, NobodyAsksForWhatNobodyWants) {
  Start("a");
  const auto count = [&] { return server_->seen().size(); };
  Want("a");
  ASSERT_TRUE(Eventually([&] { return Holds("a"); }));
  leases_["a"]->Unwant(this);
  ASSERT_TRUE(Eventually([&] { return HolderAtTheServer().empty(); })) << "given back";
  const size_t before = count();
  EXPECT_FALSE(Eventually([&] { return count() != before; }, std::chrono::seconds(1)));
}

TEST_F(LeaseKeeperTest, AnAgentEndsInTimeWithoutAnApiServer) {
  Start("a");
  Want("a");
  ASSERT_TRUE(Eventually([&] { return Holds("a"); }));
  server_->Behave(Manner::kSilent);
  const BootTime began = clock_.Boot();
  End("a");
  EXPECT_LT(clock_.Boot() - began, std::chrono::seconds(3));
}

TEST(LeaseIdentityTest, IsOfThisProcessAlone) {
  const auto one = NewLeaseIdentity("node-1");
  const auto two = NewLeaseIdentity("node-1");
  ASSERT_TRUE(one && two);
  EXPECT_TRUE(one->starts_with("node-1/"));
  EXPECT_NE(*one, *two);
}

}  // namespace
}  // namespace holdfast::agent
