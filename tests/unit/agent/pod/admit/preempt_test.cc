// SPDX-License-Identifier: Apache-2.0
// Who gives way to a critical pod: the cases and the outcomes of kubelet 1.36's pkg/kubelet/preemption.
#include "agent/pod/admit/preempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "agent/pod/admit/node_admission.h"

namespace holdfast::agent {
namespace {

using model::QosClass;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

constexpr int64_t kMi = 1 << 20;
constexpr int32_t kClusterCritical = 2000000000;

PodUse UseWith(QosClass qos, int64_t cpu, int64_t memory) {
  PodUse use;
  use.requests = {{"cpu", cpu}, {"memory", memory * kMi}, {"pods", 1}};
  use.qos = qos;
  return use;
}

const std::map<std::string, PodUse> kPods = {
    {"best-effort", UseWith(QosClass::kBestEffort, 0, 0)},
    {"burstable", UseWith(QosClass::kBurstable, 100, 100)},
    {"high-burstable", UseWith(QosClass::kBurstable, 300, 300)},
    {"guaranteed", UseWith(QosClass::kGuaranteed, 100, 100)},
    {"high-guaranteed", UseWith(QosClass::kGuaranteed, 300, 300)}};

std::vector<Shortfall> Needs(int64_t cpu, int64_t memory, int64_t pods) {
  std::vector<Shortfall> needs;
  if (cpu > 0) needs.push_back({"cpu", cpu});
  if (memory > 0) needs.push_back({"memory", memory * kMi});
  if (pods > 0) needs.push_back({"pods", pods});
  return needs;
}

std::optional<std::vector<std::string>> Chosen(const std::vector<std::string>& among,
                                               const std::vector<Shortfall>& needs) {
  std::vector<Preemptible> candidates;
  for (const std::string& name : among) candidates.push_back({name, &kPods.at(name)});
  return ChooseVictims(candidates, needs);
}

TEST(PreemptTest, AsFewAndAsLittleAsCanBe) {
  const std::vector<std::string> all = {"best-effort", "burstable", "high-burstable", "guaranteed",
                                        "high-guaranteed"};
  EXPECT_THAT(*Chosen({}, {}), IsEmpty());
  EXPECT_EQ(Chosen({}, Needs(0, 0, 1)), std::nullopt);
  EXPECT_THAT(*Chosen({"burstable"}, Needs(100, 100, 1)), ElementsAre("burstable"));
  EXPECT_EQ(Chosen({"burstable"}, Needs(200, 200, 2)), std::nullopt);
  EXPECT_EQ(Chosen({"best-effort"}, Needs(0, 1, 0)), std::nullopt);
  EXPECT_THAT(*Chosen({"burstable", "best-effort"}, Needs(0, 0, 1)), ElementsAre("best-effort"));
  EXPECT_THAT(*Chosen({"burstable", "guaranteed"}, Needs(0, 0, 1)), ElementsAre("burstable"));
  EXPECT_THAT(*Chosen({"best-effort", "high-burstable", "burstable"}, Needs(100, 100, 0)),
              ElementsAre("burstable"));
  EXPECT_THAT(*Chosen({"best-effort", "burstable", "high-burstable"}, Needs(150, 150, 0)),
              ElementsAre("high-burstable"));
  EXPECT_THAT(*Chosen(all, Needs(350, 350, 0)),
              UnorderedElementsAre("burstable", "high-burstable"));
  EXPECT_THAT(*Chosen(all, Needs(0, 550, 0)), ElementsAre("high-burstable", "high-guaranteed"));
}

TEST(PreemptTest, CriticalBeforeOthersThenByPriority) {
  PodUse ordinary;
  PodUse critical;
  critical.critical = true;
  EXPECT_TRUE(MayPreempt(critical, ordinary));
  EXPECT_FALSE(MayPreempt(critical, critical));
  EXPECT_FALSE(MayPreempt(ordinary, critical));
  PodUse higher = critical;
  critical.priority = kClusterCritical;
  EXPECT_FALSE(MayPreempt(higher, critical)) << "it has none";
  higher.priority = kClusterCritical + 1000;
  EXPECT_TRUE(MayPreempt(higher, critical));
  EXPECT_FALSE(MayPreempt(critical, higher));
}

class MakeRoomTest : public testing::Test {
 protected:
  static corev1::Pod Pod(const std::string& uid, const std::string& cpu, int32_t priority = 0) {
    corev1::Pod pod;
    pod.mutable_metadata()->set_uid(uid);
    corev1::Container* container = pod.mutable_spec()->add_containers();
    container->set_name("app");
    (*container->mutable_resources()->mutable_requests())["cpu"].set_string(cpu);
    pod.mutable_spec()->set_priority(priority);
    return pod;
  }
  NodeAdmission admission_{[] {
    auto node = std::make_shared<NodeOffer>();
    node->name = "n1";
    for (const auto& [name, amount] : {std::pair("cpu", "1"), {"pods", "110"}}) {
      node->allocatable[name] = *kube::Amount::Parse(amount);
    }
    return std::shared_ptr<const NodeOffer>(node);
  }};
};

TEST_F(MakeRoomTest, ThePlaceIsKeptUntilThoseWhoGoHaveGone) {
  ASSERT_TRUE(admission_.Admit(Pod("a", "400m")).admitted());
  ASSERT_TRUE(admission_.Admit(Pod("b", "600m")).admitted());
  const corev1::Pod critical = Pod("c", "500m", kClusterCritical);
  const auto room = admission_.MakeRoom(critical);
  EXPECT_TRUE(room.awaited);
  EXPECT_THAT(room.victims, ElementsAre(PodUid("b")));
  EXPECT_EQ(room.resource, "cpu");
  // Asked again it waits for the same one, and nobody comes in between.
  EXPECT_TRUE(admission_.MakeRoom(critical).awaited);
  EXPECT_THAT(admission_.MakeRoom(critical).victims, IsEmpty());
  admission_.Release("b");
  EXPECT_FALSE(admission_.Admit(Pod("d", "200m")).admitted()) << "it is kept for the other";
  EXPECT_FALSE(admission_.MakeRoom(critical).awaited);
  EXPECT_TRUE(admission_.Admit(critical).admitted());
}

TEST_F(MakeRoomTest, WhoGivesUpWaitingLeavesTheRoomToOthers) {
  ASSERT_TRUE(admission_.Admit(Pod("a", "1")).admitted());
  EXPECT_TRUE(admission_.MakeRoom(Pod("c", "500m", kClusterCritical)).awaited);
  admission_.Release("c");
  admission_.Release("a");
  EXPECT_TRUE(admission_.Admit(Pod("d", "1")).admitted());
}

TEST_F(MakeRoomTest, WhoBeganAfterAllIsChosenAgain) {
  ASSERT_TRUE(admission_.Admit(Pod("a", "1")).admitted());
  const corev1::Pod lower = Pod("lower", "600m", kClusterCritical);
  const corev1::Pod higher = Pod("higher", "600m", kClusterCritical + 1000);
  EXPECT_TRUE(admission_.MakeRoom(lower).awaited);
  EXPECT_THAT(admission_.MakeRoom(higher).victims, ElementsAre(PodUid("lower")));
  admission_.Release("higher");
  admission_.Release("a");
  ASSERT_TRUE(admission_.Admit(lower).admitted());
  EXPECT_THAT(admission_.MakeRoom(higher).victims, ElementsAre(PodUid("lower")))
      << "it runs, and nobody has told it to go";
}

TEST_F(MakeRoomTest, NobodyGoesInVain) {
  ASSERT_TRUE(admission_.Admit(Pod("a", "400m")).admitted());
  EXPECT_FALSE(admission_.MakeRoom(Pod("b", "900m", 1000)).awaited) << "it is not critical";
  EXPECT_FALSE(admission_.MakeRoom(Pod("c", "1100m", kClusterCritical)).awaited)
      << "the node has no such room";
  corev1::Pod elsewhere = Pod("d", "900m", kClusterCritical);
  (*elsewhere.mutable_spec()->mutable_nodeselector())["rack"] = "seven";
  EXPECT_FALSE(admission_.MakeRoom(elsewhere).awaited) << "it would be refused all the same";
  EXPECT_FALSE(admission_.MakeRoom(Pod("e", "600m", kClusterCritical)).awaited) << "there is room";
}

TEST_F(MakeRoomTest, AfterARestartWhoEndsAlreadyIsEnough) {
  admission_.Adopt(Pod("a", "600m"), true);
  admission_.Adopt(Pod("b", "400m"), false);
  const auto room = admission_.MakeRoom(Pod("c", "600m", kClusterCritical));
  EXPECT_TRUE(room.awaited);
  EXPECT_THAT(room.victims, IsEmpty());
}

}  // namespace
}  // namespace holdfast::agent
