// SPDX-License-Identifier: Apache-2.0
#include "agent/routes/cluster_routes.h"

#include <gtest/gtest.h>

#include <condition_variable>

#include "agent/kube/codec.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

std::string Text(const std::vector<Cidr>& ranges) {
  std::string out;
  for (const Cidr& range : ranges) out += (out.empty() ? "" : " ") + range.ToString();
  return out;
}

kube::ObjectPtr Node(const std::string& name, const std::string& range,
                     const std::string& address) {
  auto node =
      kube::DecodeJson(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":")" + name +
                       R"("},"spec":{"podCIDRs":[")" + range + R"("]},"status":{"addresses":[)" +
                       R"({"type":"Hostname","address":"x"},{"type":"InternalIP","address":")" +
                       address + R"("}]}})");
  EXPECT_TRUE(node) << node.error().message();
  return std::move(*node);
}

// What was carried out, in order.
class Done {
 public:
  ClusterRoutesCallbacks Callbacks() {
    return {.set_ranges = [this](auto own, auto direct) -> Result<void> {
              Add("ranges " + Text(own) + (direct ? " direct " + Text(*direct) : " stay"));
              return failure ? Result<void>(Unavailable("no netlink")) : Result<void>();
            },
            .set_routes = [this](const auto& peers,
                                 const auto& self) -> Result<std::vector<std::string>> {
              std::string line = "routes";
              for (const IpAddress& address : self.addresses) Add("from " + address.ToString());
              for (const auto& peer : peers) line += " " + peer.name;
              Add(line);
              return problems;
            },
            .log = [this](const std::string& line) { Add("log " + line); }};
  }
  // Waits until it is there.
  ::testing::AssertionResult Has(const std::string& line) {
    std::unique_lock lock(mutex_);
    const bool found = news_.wait_for(lock, std::chrono::seconds(20), [&] {
      return std::ranges::find(lines_, line) != lines_.end();
    });
    if (found) return ::testing::AssertionSuccess();
    auto result = ::testing::AssertionFailure() << "not done: " << line << "; done:";
    for (const std::string& l : lines_) result << "\n  " << l;
    return result;
  }
  size_t Count(const std::string& line) {
    const std::lock_guard lock(mutex_);
    return static_cast<size_t>(std::ranges::count(lines_, line));
  }

  std::vector<std::string> problems;  // set while quiet
  bool failure = false;

 private:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    news_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::string> lines_;
};

class ClusterRoutesTest : public ::testing::Test {
 protected:
  void Start(std::vector<Cidr> configured = {}) {
    routes_ = std::make_unique<ClusterRoutes>(
        api_, ClusterRoutesOptions{"n1", std::move(configured)}, done_.Callbacks());
    ASSERT_TRUE(routes_->Start());
  }
  ObjectHandler& nodes() { return routes_->nodes(); }

  fakes::FakeApi api_;
  Done done_;
  std::unique_ptr<ClusterRoutes> routes_;
};

TEST_F(ClusterRoutesTest, BeforeTheFirstListNothingIsTakenAway) {
  Start();
  nodes().ListBegins();
  nodes().Put(Node("n2", "10.244.2.0/24", "192.0.2.2"));
  routes_->SetOwn({Cidr::Parse("10.244.1.0/24").value()});
  EXPECT_TRUE(done_.Has("ranges 10.244.1.0/24 stay"));
  nodes().Put(Node("n1", "10.244.1.0/24", "192.0.2.1"));
  nodes().ListEnds();
  EXPECT_TRUE(done_.Has("ranges 10.244.1.0/24 direct 10.244.2.0/24 192.0.2.2/32"));
  EXPECT_TRUE(done_.Has("routes n2"));
  EXPECT_TRUE(done_.Has("from 192.0.2.1"));
  nodes().Put(Node("n1", "10.244.1.0/24", "192.0.2.9"));
  EXPECT_TRUE(done_.Has("from 192.0.2.9"));
}

TEST_F(ClusterRoutesTest, NodesComeChangeAndGo) {
  Start();
  nodes().ListBegins();
  nodes().ListEnds();
  nodes().Put(Node("n2", "10.244.2.0/24", "192.0.2.2"));
  EXPECT_TRUE(done_.Has("ranges  direct 10.244.2.0/24 192.0.2.2/32"));
  nodes().Put(Node("n2", "10.244.3.0/24", "192.0.2.2"));
  EXPECT_TRUE(done_.Has("ranges  direct 10.244.3.0/24 192.0.2.2/32"));
  nodes().Put(Node("n3", "10.244.4.0/24", "192.0.2.3"));
  EXPECT_TRUE(done_.Has("routes n2 n3"));
  nodes().Gone(Node("n3", "10.244.4.0/24", "192.0.2.3"));
  nodes().Gone(Node("n2", "10.244.3.0/24", "192.0.2.2"));
  EXPECT_TRUE(done_.Has("ranges  direct "));
}

TEST_F(ClusterRoutesTest, ANodeWithoutRangesUsesThoseOfTheConfiguration) {
  Start({Cidr::Parse("10.9.0.0/24").value()});
  routes_->SetOwn({});
  EXPECT_TRUE(done_.Has("ranges 10.9.0.0/24 stay"));
  routes_->SetOwn({Cidr::Parse("10.244.1.0/24").value()});
  EXPECT_TRUE(done_.Has("ranges 10.244.1.0/24 stay"));
}

TEST_F(ClusterRoutesTest, EachTroubleIsToldOnce) {
  Start();
  done_.problems = {"no route to n2"};
  done_.failure = true;
  nodes().Trouble(Error(Code::kPermissionDenied, "forbidden"));
  nodes().Trouble(Error(Code::kPermissionDenied, "forbidden"));
  nodes().ListBegins();
  nodes().ListEnds();
  EXPECT_TRUE(done_.Has("log no route to n2"));
  nodes().Put(Node("n2", "10.244.2.0/24", "192.0.2.2"));
  EXPECT_TRUE(done_.Has("routes n2"));
  routes_.reset();
  EXPECT_EQ(done_.Count("log no route to n2"), 1u);
  EXPECT_EQ(done_.Count("log pod ranges: no netlink"), 1u);
  EXPECT_EQ(done_.Count("log nodes: forbidden"), 1u);
}

}  // namespace
}  // namespace holdfast::agent
