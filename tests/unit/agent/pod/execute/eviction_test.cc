// SPDX-License-Identifier: Apache-2.0
// Pods of the table that the node wants to end, and volumes of a running pod that show what it is.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

class EvictedPodTest : public PodTableTest {
 protected:
  std::string Reason() {
    const PodPtr pod = node_->view.FindPod("default", "web");
    return pod == nullptr ? "" : pod->status().reason();
  }
  static Eviction TooMuch() { return {.why = "too much. ", .signal = "ephemeralpodfs.limit"}; }
};

TEST_F(EvictedPodTest, ItEndsAndStaysEnded) {
  source_.Set({MakePod("u1")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  node_->table.Evict(PodUid("other"), TooMuch());
  node_->table.Evict(PodUid("u1"), TooMuch());
  EXPECT_TRUE(PhaseBecomes("Failed"));
  EXPECT_EQ(Reason(), "Evicted");
  EXPECT_EQ(std::ranges::count(EventReasons(), "Evicted"), 1);
  node_->table.Evict(PodUid("u1"), TooMuch());
  Boot();
  EXPECT_TRUE(PhaseBecomes("Failed"));
  EXPECT_EQ(Reason(), "Evicted");
  EXPECT_EQ(runtime_.StartCount(), 1u);
}

class PreemptedPodTest : public PodTableTest {
 protected:
  static corev1::Pod Critical() {
    corev1::Pod pod = MakePod("u2", "critical");
    pod.mutable_spec()->set_priority(2000000000);
    return pod;
  }
  // The node has room for one pod, and another wants it; the first does not end yet.
  void LetOnePodGiveWay() {
    offer_ = Offer("1");
    Boot();
    source_.Set({MakePod("u1")});
    ASSERT_TRUE(PhaseBecomes("Running"));
    runtime_.ignore_signals = true;
    source_.Set({MakePod("u1"), Critical()});
    ASSERT_TRUE(Eventually(
        [&] { return std::ranges::count(EventReasons(), std::string("Preempting")) == 1; }));
  }
};

TEST_F(PreemptedPodTest, ACriticalPodBeginsWhenItsVictimHasEnded) {
  ASSERT_NO_FATAL_FAILURE(LetOnePodGiveWay());
  EXPECT_EQ(node_->Phase("critical"), "gone") << "it waits";
  EXPECT_EQ(runtime_.StartCount(), 1u);
  runtime_.EndAll("app", 0);
  EXPECT_TRUE(PhaseBecomes("Failed"));
  const PodPtr victim = node_->view.FindPod("default", "web");
  EXPECT_EQ(victim->status().reason(), "Preempting");
  EXPECT_EQ(victim->status().message(), "Preempted in order to admit critical pod");
  EXPECT_TRUE(std::ranges::any_of(victim->status().conditions(), [](const auto& condition) {
    return condition.type() == "DisruptionTarget" && condition.reason() == "TerminationByKubelet" &&
           condition.message() == "Pod was preempted by Kubelet to accommodate a critical pod.";
  }));
  EXPECT_TRUE(Eventually([&] { return node_->Phase("critical") == "Running"; }));
  Boot();
  EXPECT_TRUE(Eventually([&] { return node_->Phase("critical") == "Running"; }));
  EXPECT_EQ(runtime_.StartCount(), 2u);
}

TEST_F(PreemptedPodTest, ACriticalPodThatIsNotWantedAnyMoreLeavesTheRoom) {
  ASSERT_NO_FATAL_FAILURE(LetOnePodGiveWay());
  source_.Set({MakePod("u1")});
  runtime_.EndAll("app", 0);
  EXPECT_TRUE(PhaseBecomes("Failed"));
  source_.Set({MakePod("u1"), MakePod("u3", "other")});
  EXPECT_TRUE(Eventually([&] { return node_->Phase("other") == "Running"; }));
  EXPECT_EQ(node_->Phase("critical"), "gone");
}

class ShownVolumeTest : public PodTableTest {
 protected:
  static corev1::Pod Asking(const std::string& cpu) {
    corev1::Pod pod = MakePod("u1");
    auto* resources = pod.mutable_spec()->mutable_containers(0)->mutable_resources();
    (*resources->mutable_requests())["cpu"].set_string(cpu);
    auto* volume = pod.mutable_spec()->add_volumes();
    volume->set_name("me");
    auto* item = volume->mutable_volumesource()->mutable_downwardapi()->add_items();
    item->set_path("cpu");
    item->mutable_resourcefieldref()->set_containername("app");
    item->mutable_resourcefieldref()->set_resource("requests.cpu");
    item->mutable_resourcefieldref()->mutable_divisor()->set_string("1m");
    return pod;
  }
  std::string Shown() {
    std::ifstream file(PodPaths(instance_, PodUid("u1"), "default", "web").WrittenVolume("me") +
                       "/cpu");
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(ShownVolumeTest, AResizeOfAManifestsPodIsShownByItsFiles) {
  offer_.allocatable["cpu"] = *kube::Amount::Parse("2");
  std::filesystem::create_directories(instance_.WrittenVolumesDir());
  Boot();
  source_.Set({Asking("100m")});
  ASSERT_TRUE(PhaseBecomes("Running"));
  EXPECT_EQ(Shown(), "100");
  source_.Set({Asking("300m")});
  EXPECT_TRUE(Eventually([&] { return Shown() == "300"; })) << Shown();
  EXPECT_EQ(runtime_.StartCount(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
