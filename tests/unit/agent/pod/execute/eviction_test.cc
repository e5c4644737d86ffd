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
