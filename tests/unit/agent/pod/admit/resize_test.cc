// SPDX-License-Identifier: Apache-2.0
// Other amounts for pods that run: what is given, what waits, and in which order.
#include "agent/pod/admit/resize.h"

#include <gtest/gtest.h>

#include <vector>

#include "agent/pod/admit/node_admission.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using How = ResizeVerdict::How;
using PodPtr = std::shared_ptr<const corev1::Pod>;

struct Asked {
  std::string uid;
  std::string request;  // of cpu
  std::string limit = {};
  int32_t priority = 0;
  bool guaranteed = false;
};

PodPtr Pod(const Asked& asked) {
  auto pod = std::make_shared<corev1::Pod>();
  pod->mutable_metadata()->set_uid(asked.uid);
  pod->mutable_spec()->set_priority(asked.priority);
  auto* resources = pod->mutable_spec()->add_containers()->mutable_resources();
  (*resources->mutable_requests())["cpu"].set_string(asked.request);
  if (!asked.limit.empty()) (*resources->mutable_limits())["cpu"].set_string(asked.limit);
  if (asked.guaranteed) {
    (*resources->mutable_limits())["cpu"].set_string(asked.request);
    (*resources->mutable_requests())["memory"].set_string("1Mi");
    (*resources->mutable_limits())["memory"].set_string("1Mi");
  }
  return pod;
}

WallTime At(int64_t seconds) { return {std::chrono::seconds(seconds)}; }

class NodeResizeTest : public ::testing::Test {
 protected:
  NodeResizeTest() {
    auto offer = std::make_shared<NodeOffer>();
    for (const auto& [name, text] : {std::pair{"cpu", "4"}, {"memory", "1Gi"}, {"pods", "110"}}) {
      offer->allocatable[name] = *kube::Amount::Parse(text);
    }
    offer_ = std::move(offer);
    node_.SetListener([this](const PodUid& uid) { told_.push_back(uid.value); });
  }
  ResizeVerdict Ask(const Asked& asked, const Asked& given, WallTime since = {}) {
    return node_.Resize({Pod(asked), Pod(given), since});
  }

  std::shared_ptr<const NodeOffer> offer_;
  NodeAdmission node_{[this] { return offer_; }};
  std::vector<std::string> told_;
};

TEST_F(NodeResizeTest, GivesWhatThereIsAndDefersWhatThereIsNot) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"b", "1"})).admitted());
  EXPECT_EQ(Ask({"a", "3"}, {"a", "1"}).how, How::kGiven);
  const ResizeVerdict verdict = Ask({"b", "2"}, {"b", "1"});
  EXPECT_EQ(verdict.how, How::kDeferred);
  EXPECT_EQ(verdict.message,
            "Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000");
  EXPECT_EQ(Ask({"a", "3"}, {"a", "1"}).how, How::kGiven) << "it has its own room";
  EXPECT_FALSE(node_.Admit(*Pod({"c", "1"})).admitted()) << "and that is taken";
  EXPECT_EQ(Ask({"b", "500m"}, {"b", "1"}).how, How::kGiven) << "less is always there";
  EXPECT_TRUE(node_.Admit(*Pod({"c", "500m"})).admitted());
}

// As a kubelet of 1.36 says it: it waits for a larger node.
TEST_F(NodeResizeTest, MoreThanTheNodeHasIsDeferredToo) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  EXPECT_EQ(Ask({"a", "100"}, {"a", "1"}).how, How::kDeferred);
}

TEST_F(NodeResizeTest, AnotherQosClassCannotBe) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1", "", 0, true})).admitted());
  const ResizeVerdict verdict = Ask({"a", "1", "2"}, {"a", "1", "", 0, true});
  EXPECT_EQ(verdict.how, How::kInfeasible);
  EXPECT_EQ(verdict.message, "Pod QOS Class may not change as a result of resizing");
  EXPECT_EQ(verdict.cause, "qos_class");
}

// As a kubelet: what a container may swap follows its request.
TEST_F(NodeResizeTest, ARequestThatSwapFollowsStays) {
  const auto pod = [](const char* memory, bool restarts) {
    auto made = std::make_shared<corev1::Pod>(*Pod({"a", "1"}));
    (*made->mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "api";
    auto* container = made->mutable_spec()->mutable_containers(0);
    (*container->mutable_resources()->mutable_requests())["memory"].set_string(memory);
    if (restarts) {
      auto* policy = container->add_resizepolicy();
      policy->set_resourcename("memory");
      policy->set_restartpolicy("RestartContainer");
    }
    return PodPtr(made);
  };
  ASSERT_TRUE(node_.Admit(*pod("1Mi", false)).admitted());
  EXPECT_EQ(node_.Resize({pod("2Mi", false), pod("1Mi", false), {}}).how, How::kGiven) << "NoSwap";
  auto swapping = std::make_shared<NodeOffer>(*offer_);
  swapping->limited_swap = true;
  offer_ = swapping;
  const ResizeVerdict verdict = node_.Resize({pod("2Mi", false), pod("1Mi", false), {}});
  EXPECT_EQ(verdict.how, How::kInfeasible);
  EXPECT_EQ(verdict.message, "In-place resize of containers with swap is not supported.");
  EXPECT_EQ(verdict.cause, "swap_limitation");
  EXPECT_EQ(node_.Resize({pod("2Mi", true), pod("1Mi", true), {}}).how, How::kGiven)
      << "it starts again";
  EXPECT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kGiven) << "of cpu";
}

TEST_F(NodeResizeTest, WhoWaitsIsGivenItWhenRoomIsFreed) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"b", "3"})).admitted());
  ASSERT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kDeferred);
  EXPECT_TRUE(told_.empty());
  node_.Release("b");
  EXPECT_EQ(told_, std::vector<std::string>{"a"});
  EXPECT_FALSE(node_.Admit(*Pod({"c", "3"})).admitted()) << "it is taken before it asks again";
  EXPECT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kGiven);
}

TEST_F(NodeResizeTest, OneThatShrinksMakesRoomForOneThatWaits) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"b", "3"})).admitted());
  ASSERT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kDeferred);
  EXPECT_EQ(Ask({"b", "2"}, {"b", "3"}).how, How::kGiven);
  EXPECT_EQ(told_, std::vector<std::string>{"a"});
}

TEST_F(NodeResizeTest, AWishThatIsTakenBackWaitsNoMore) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"b", "3"})).admitted());
  ASSERT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kDeferred);
  const PodPtr as_before = Pod({"a", "1"});
  EXPECT_EQ(node_.Resize({as_before, as_before, At(1)}).how, How::kGiven);
  node_.Release("b");
  EXPECT_TRUE(told_.empty());
  EXPECT_TRUE(node_.Admit(*Pod({"c", "3"})).admitted());
}

TEST_F(NodeResizeTest, AWishThatIsTakenBackAfterItWasGivenMakesRoom) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_EQ(Ask({"a", "4"}, {"a", "1"}).how, How::kGiven);
  const PodPtr as_before = Pod({"a", "1"});
  EXPECT_EQ(node_.Resize({as_before, as_before, At(1)}).how, How::kGiven);
  EXPECT_TRUE(node_.Admit(*Pod({"b", "3"})).admitted());
}

TEST_F(NodeResizeTest, WhoIsToGoIsGivenNoPlaceAnyMore) {
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  node_.Release("a");
  EXPECT_EQ(Ask({"a", "2"}, {"a", "1"}).how, How::kDeferred);
  EXPECT_TRUE(node_.Admit(*Pod({"b", "4"})).admitted());
}

// What let one in that had waited.
TEST_F(NodeResizeTest, AVerdictOnOneThatWaitedHasItsCause) {
  const auto wish = [](const char* request) {
    return ResizeWish{Pod({"a", request}), Pod({"a", "1"}), {}};
  };
  const auto again = [this](ResizeWish waited) {
    waited.since = At(1);
    return node_.Resize(waited).cause;
  };
  const auto wait = [this](const ResizeWish& first) {
    const PodPtr before = Pod({"a", "1"});
    node_.Resize({before, before, At(1)});
    ASSERT_EQ(node_.Resize(first).how, How::kDeferred);
  };
  ASSERT_TRUE(node_.Admit(*Pod({"a", "1"})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"b", "3"})).admitted());
  const ResizeWish two = wish("2");
  wait(two);
  EXPECT_EQ(again(wish("500m")), "pod_updated") << "it asks for something else";
  wait(two);
  node_.Release("b");
  EXPECT_EQ(again(two), "pods_removed");
  ASSERT_TRUE(node_.Admit(*Pod({"b", "2"})).admitted());
  wait(wish("3"));
  node_.Release("b", kPodTerminated);
  EXPECT_EQ(again(wish("3")), "pod_terminated");
  ASSERT_TRUE(node_.Admit(*Pod({"b", "1"})).admitted());
  const ResizeWish four = wish("4");
  wait(four);
  EXPECT_EQ(Ask({"b", "500m"}, {"b", "1"}).how, How::kGiven);
  EXPECT_EQ(again(four), "") << "not enough";
  auto larger = std::make_shared<NodeOffer>(*offer_);
  larger->allocatable["cpu"] = *kube::Amount::Parse("8");
  offer_ = larger;
  EXPECT_EQ(again(four), "periodic_retry");
  EXPECT_EQ(Ask({"a", "1"}, {"a", "4"}).cause, "") << "it has not waited";
}

TEST_F(NodeResizeTest, RoomGoesByPriorityClassAndTime) {
  for (const char* uid : {"late", "early", "high"}) {
    ASSERT_TRUE(node_.Admit(*Pod({uid, "500m"})).admitted());
  }
  ASSERT_TRUE(node_.Admit(*Pod({"sure", "500m", "", 0, true})).admitted());
  ASSERT_TRUE(node_.Admit(*Pod({"big", "2"})).admitted());
  const auto ask = [&](const char* uid, int64_t since, int32_t priority = 0, bool sure = false) {
    EXPECT_EQ(Ask({uid, "1", "", priority, sure}, {uid, "500m", "", priority, sure}, At(since)).how,
              How::kDeferred);
  };
  ask("late", 20);
  ask("early", 10);
  ask("high", 30, 1000);
  ask("sure", 40, 0, true);
  node_.Release("big");
  EXPECT_EQ(told_, (std::vector<std::string>{"high", "sure", "early", "late"}));
}

TEST(ResizeOrderTest, WhoAsksForNoMoreComesFirst) {
  const ResizeWish less{Pod({"a", "1"}), Pod({"a", "2"}), At(9)};
  const ResizeWish more{Pod({"b", "2", "", 5000}), Pod({"b", "1", "", 5000}), At(1)};
  EXPECT_TRUE(ComesBefore(less, more));
  EXPECT_FALSE(ComesBefore(more, less));
  EXPECT_FALSE(ComesBefore(more, more));
  const ResizeWish fresh{Pod({"c", "2", "", 5000}), Pod({"c", "1", "", 5000}), {}};
  EXPECT_TRUE(ComesBefore(more, fresh)) << "it has not waited";
}

}  // namespace
}  // namespace holdfast::agent
