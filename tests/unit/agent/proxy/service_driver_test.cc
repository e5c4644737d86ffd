// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_service_back_end.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;

model::Service Row(const std::string& name, const std::string& ip) {
  model::Service service;
  service.name = {"default", name};
  service.cluster_ips = {*IpAddress::Parse(ip)};
  service.ports = {{"", model::L4Protocol::kTcp, 80, 0}};
  return service;
}

class ServiceDriverTest : public ::testing::Test {
 protected:
  void Make(milliseconds repair_every = std::chrono::hours(1)) {
    ServiceDriverOptions options;
    options.repair_every = repair_every;
    options.first_retry = milliseconds(5);
    options.last_retry = milliseconds(20);
    ServiceDriverCallbacks callbacks;
    callbacks.problems = [this](const model::ServiceName& name,
                                const std::vector<std::string>& messages) {
      const std::lock_guard lock(mutex_);
      for (const std::string& message : messages) told_.push_back(name.name + ": " + message);
      if (messages.empty()) told_.push_back(name.name + ": well");
    };
    callbacks.log = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    driver_ = std::make_unique<ServiceDriver>(back_end_, clock_, options, callbacks);
  }
  void Set(const std::string& name, const std::string& ip) {
    driver_->Edit([&](netproxy::ServiceTracker& t) { t.SetService(Row(name, ip)); });
  }
  bool Settled() { return driver_->WaitUntilApplied(std::chrono::seconds(20)); }
  std::vector<std::string> Told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  std::vector<std::string> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  FakeServiceBackEnd back_end_;
  SystemClock clock_;
  std::mutex mutex_;
  std::vector<std::string> told_;
  std::vector<std::string> lines_;
  std::unique_ptr<ServiceDriver> driver_;  // last: its thread uses the rest
};

TEST_F(ServiceDriverTest, TheFirstChangeHoldsAllThatWasSetBeforeTheStart) {
  Make();
  Set("a", "10.96.0.1");
  Set("b", "10.96.0.2");
  EXPECT_TRUE(back_end_.changes().empty());
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Settled());
  ASSERT_EQ(back_end_.changes().size(), 1u);
  EXPECT_TRUE(back_end_.changes()[0].complete);
  EXPECT_EQ(back_end_.rows().size(), 2u);
  Set("a", "10.96.0.3");
  ASSERT_TRUE(Settled());
  EXPECT_FALSE(back_end_.changes().back().complete);
  EXPECT_EQ(back_end_.changes().back().rows.size(), 1u);
  EXPECT_FALSE(driver_->Health().pending_since);
  EXPECT_FALSE(driver_->Health().last_updated.IsZero());
}

TEST_F(ServiceDriverTest, AnEmptyTableIsAppliedToo) {
  Make();
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Settled());
  ASSERT_EQ(back_end_.changes().size(), 1u) << "what an agent before us left has to go";
}

TEST_F(ServiceDriverTest, AfterAFailureEverythingIsSentAgain) {
  Make();
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Settled());
  back_end_.FailNext(Unavailable("netlink: no buffer space"));
  back_end_.FailNext(Unavailable("netlink: no buffer space"));
  Set("a", "10.96.0.1");
  ASSERT_TRUE(Settled());
  EXPECT_TRUE(back_end_.changes().back().complete);
  EXPECT_EQ(back_end_.rows().size(), 1u);
  EXPECT_EQ(driver_->Health().error, "");
  ASSERT_TRUE(Eventually([&] { return Lines().size() == 2; }));
  EXPECT_THAT(Lines(), ElementsAre("service rules: netlink: no buffer space, trying again",
                                   "service rules are in place again"));
}

TEST_F(ServiceDriverTest, ARefusedServiceIsToldOnceAndTriedAgain) {
  Make(milliseconds(10));
  back_end_.Refuse({"default/bad"});
  ASSERT_TRUE(driver_->Start());
  driver_->Edit([](netproxy::ServiceTracker& t) {
    t.SetService(Row("bad", "10.96.0.1"));
    t.SetService(Row("good", "10.96.0.2"));
  });
  ASSERT_TRUE(Eventually([&] { return !Told().empty() && back_end_.repairs() > 3; }));
  EXPECT_EQ(back_end_.rows().size(), 1u);
  EXPECT_THAT(Told(), ElementsAre("bad: default/bad (IPv4): the kernel does not want it"));
  EXPECT_THAT(driver_->Explain({"default", "bad"})->problems,
              ElementsAre("default/bad: the kernel does not want it"));
  back_end_.Refuse({});
  ASSERT_TRUE(Eventually([&] { return back_end_.rows().size() == 2; }));
  ASSERT_TRUE(Eventually([&] { return Told().size() == 2; }));
  EXPECT_EQ(Told().back(), "bad: well");
}

TEST_F(ServiceDriverTest, TellsConflictsAndTheirEnd) {
  Make();
  ASSERT_TRUE(driver_->Start());
  Set("a", "10.96.0.1");
  Set("b", "10.96.0.1");
  ASSERT_TRUE(Eventually([&] { return Told().size() == 1; }));
  EXPECT_EQ(Told()[0], "b: tcp 10.96.0.1:80 belongs to service port default/a");
  driver_->Edit([](netproxy::ServiceTracker& t) { t.RemoveService({"default", "a"}); });
  ASSERT_TRUE(Eventually([&] { return Told().size() == 2; }));
  EXPECT_EQ(Told()[1], "b: well");
}

TEST_F(ServiceDriverTest, RepairsAtOnceWhenSomebodyTouchedTheRules) {
  Make();
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Settled());
  EXPECT_EQ(back_end_.repairs(), 0);
  back_end_.Damage(1);
  driver_->RepairSoon();
  ASSERT_TRUE(Eventually([&] { return Lines().size() == 1; }));
  EXPECT_EQ(Lines()[0], "service rules: 1 differences repaired");
  // What comes meanwhile is one more repair, not one each.
  for (int i = 0; i < 1000; ++i) driver_->RepairSoon();
  ASSERT_TRUE(Eventually([&] { return back_end_.repairs() >= 2; }));
  EXPECT_LE(back_end_.repairs(), 3);
}

TEST_F(ServiceDriverTest, SendsEverythingWhenAsked) {
  Make();
  Set("a", "10.96.0.1");
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Settled());
  driver_->ApplyAll();
  ASSERT_TRUE(Eventually([&] { return back_end_.changes().size() == 2; }));
  EXPECT_TRUE(back_end_.changes()[1].complete);
  EXPECT_EQ(back_end_.changes()[1].rows.size(), 1u);
}

TEST_F(ServiceDriverTest, DumpsWhatTheBackEndSays) {
  Make();
  EXPECT_EQ(driver_->Dump().error().code(), Code::kUnavailable);
  ASSERT_TRUE(driver_->Start());
  EXPECT_EQ(driver_->Dump().value_or("nothing"), "rules\n");
}

TEST_F(ServiceDriverTest, LogsWhatARepairFound) {
  Make(milliseconds(5));
  back_end_.Damage(3);
  ASSERT_TRUE(driver_->Start());
  ASSERT_TRUE(Eventually([&] { return !Lines().empty(); }));
  EXPECT_EQ(Lines()[0], "service rules: 3 differences repaired");
}

}  // namespace
}  // namespace holdfast::agent
