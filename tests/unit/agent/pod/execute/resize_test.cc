// SPDX-License-Identifier: Apache-2.0
// Pods of the table that ask for other amounts while they run: who gets what, and what a restarted agent makes of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

class ResizedPodTest : public PodTableTest {
 protected:
  void SetUp() override {
    offer_.allocatable["cpu"] = *kube::Amount::Parse("2");
    PodTableTest::SetUp();
  }

  static corev1::Pod Asking(const std::string& uid, const std::string& cpu) {
    corev1::Pod pod = MakePod(uid, uid);
    auto* resources = pod.mutable_spec()->mutable_containers(0)->mutable_resources();
    (*resources->mutable_requests())["cpu"].set_string(cpu);
    pod.mutable_spec()->mutable_containers(0)->set_name("c-" + uid);
    return pod;
  }
  bool Runs(const std::string& uid) {
    return Eventually([&] { return node_->Phase(uid) == "Running"; });
  }
  // The reason of its PodResizePending; "" without one.
  std::string Pending(const std::string& uid) {
    for (const PodPtr& pod : node_->view.ListPods()) {
      if (pod->metadata().uid() != uid) continue;
      for (const auto& c : pod->status().conditions()) {
        if (c.type() == "PodResizePending") return c.reason();
      }
    }
    return "";
  }
  bool Has(const std::string& uid, int64_t milli) {
    return Eventually([&] {
      const auto pod = runtime_.ResizedPod(uid);
      const auto container = runtime_.ResizedTo("c-" + uid);
      return pod && container && pod->cpu_milli_request == milli &&
             container->cpu_milli_request == milli;
    });
  }
};

TEST_F(ResizedPodTest, RoomIsGivenToWhoFitsAndLaterToWhoWaits) {
  source_.Set({Asking("a", "500m"), Asking("b", "1")});
  ASSERT_TRUE(Runs("a") && Runs("b"));
  source_.Set({Asking("a", "800m"), Asking("b", "1")});
  EXPECT_TRUE(Has("a", 800));
  source_.Set({Asking("a", "1500m"), Asking("b", "1")});
  EXPECT_TRUE(Eventually([&] { return Pending("a") == "Deferred"; }));
  EXPECT_TRUE(Has("a", 800)) << "it keeps what it has";
  source_.Set({Asking("a", "1500m"), Asking("b", "500m")});
  EXPECT_TRUE(Has("b", 500));
  EXPECT_TRUE(Has("a", 1500)) << "the other's room";
  EXPECT_TRUE(Eventually([&] { return Pending("a").empty(); }));
  EXPECT_EQ(runtime_.StartCount(), 2u);
}

TEST_F(ResizedPodTest, APodThatGoesMakesRoom) {
  source_.Set({Asking("a", "500m"), Asking("b", "1500m")});
  ASSERT_TRUE(Runs("a") && Runs("b"));
  source_.Set({Asking("a", "1"), Asking("b", "1500m")});
  EXPECT_TRUE(Eventually([&] { return Pending("a") == "Deferred"; }));
  source_.Set({Asking("a", "1")});
  EXPECT_TRUE(Has("a", 1000));
}

TEST_F(ResizedPodTest, ItsResizesAreCounted) {
  const auto counted = [this](const std::string& row) {
    return Eventually(
        [&] { return node_->metrics.Text().find(row + " 1\n") != std::string::npos; });
  };
  source_.Set({Asking("a", "500m"), Asking("b", "1500m")});
  ASSERT_TRUE(Runs("a") && Runs("b"));
  EXPECT_EQ(node_->metrics.Text().find("resize"), std::string::npos);
  source_.Set({Asking("a", "1"), Asking("b", "1500m")});
  EXPECT_TRUE(Eventually([&] { return Pending("a") == "Deferred"; }));
  EXPECT_TRUE(counted(
      R"(kubelet_container_requested_resizes_total{operation="increase",requirement="requests",resource="cpu"})"));
  source_.Set({Asking("a", "1")});
  EXPECT_TRUE(
      counted(R"(kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"})"));
  EXPECT_TRUE(counted(R"(kubelet_pod_resize_duration_milliseconds_count{success="true"})"));
  source_.Set({Asking("a", "500m")});
  EXPECT_TRUE(Has("a", 500));
  EXPECT_TRUE(
      counted(R"(kubelet_pod_deferred_accepted_resizes_total{retry_trigger="pods_removed"})"))
      << "one that did not wait";
}

TEST_F(ResizedPodTest, WhatWasGivenOutlivesTheAgentAndWhatWaitsIsAskedAgain) {
  source_.Set({Asking("a", "500m"), Asking("b", "500m")});
  ASSERT_TRUE(Runs("a") && Runs("b"));
  source_.Set({Asking("a", "1500m"), Asking("b", "500m")});
  EXPECT_TRUE(Has("a", 1500));
  source_.Set({Asking("a", "1500m"), Asking("b", "1")});
  EXPECT_TRUE(Eventually([&] { return Pending("b") == "Deferred"; }));
  Boot();
  EXPECT_EQ(Pending("b"), "Deferred") << "before anybody is asked";
  EXPECT_TRUE(Runs("a") && Runs("b"));
  EXPECT_FALSE(Eventually([&] { return Pending("b") != "Deferred"; }, std::chrono::seconds(1)))
      << "the room is a's";
  source_.Set({Asking("b", "1")});
  EXPECT_TRUE(Has("b", 1000));
  EXPECT_EQ(runtime_.StartCount(), 2u);
}

TEST_F(ResizedPodTest, OneThatFailsIsToldAndTriedAgain) {
  source_.Set({Asking("a", "500m")});
  ASSERT_TRUE(Runs("a"));
  runtime_.FailResize("cannot decrease memory limits: x");
  source_.Set({Asking("a", "600m")});
  const auto told = [&] {
    const auto reasons = EventReasons();
    return std::ranges::find(reasons, "ResizeError") != reasons.end();
  };
  EXPECT_TRUE(Eventually(told));
  runtime_.FailResize("");
  clock_.passed_ms = 11'000;
  corev1::Pod looked_at_again = Asking("a", "600m");
  (*looked_at_again.mutable_metadata()->mutable_labels())["a"] = "b";
  source_.Set({looked_at_again});
  EXPECT_TRUE(Has("a", 600));
}

}  // namespace
}  // namespace holdfast::agent
