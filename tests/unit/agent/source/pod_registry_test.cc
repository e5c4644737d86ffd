// SPDX-License-Identifier: Apache-2.0
#include "agent/source/pod_registry.h"

#include <gtest/gtest.h>

#include "agent/source/pod_change.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

WantedPod Pod(const std::string& uid, PodOrigin origin = PodOrigin::kFile) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_name("pod-" + uid);
  pod.mutable_metadata()->set_namespace_("default");
  return {std::make_shared<const corev1::Pod>(std::move(pod)), origin, std::nullopt};
}

// "+u1 -u2"
std::string Text(const std::vector<PodNews>& news) {
  std::string out;
  for (const PodNews& one : news) {
    out += (out.empty() ? "" : " ") + std::string(one.wanted ? "+" : "-") + one.uid.value;
  }
  return out;
}

TEST(PodRegistryTest, GivesTheNewestOfEachPodOnceInOrderOfTheFirstChange) {
  PodRegistry registry({PodOrigin::kFile});
  ASSERT_TRUE(registry.Set(Pod("b")));
  ASSERT_TRUE(registry.Set(Pod("a")));
  const WantedPod newer = Pod("b");
  ASSERT_TRUE(registry.Set(newer));
  const auto news = registry.Take();
  EXPECT_EQ(Text(news), "+b +a");
  EXPECT_EQ(news[0].wanted->pod, newer.pod);
  EXPECT_EQ(Text(registry.Take()), "");
  ASSERT_TRUE(registry.Set(newer));
  EXPECT_EQ(Text(registry.Take()), "") << "the same message again is no news";
  registry.Remove(PodOrigin::kFile, PodUid("a"));
  EXPECT_EQ(Text(registry.Take()), "-a");
  EXPECT_EQ(registry.Find(PodUid("a")), nullptr);
  EXPECT_EQ(registry.Find(PodUid("b")), newer.pod);
}

TEST(PodRegistryTest, EachOriginSpeaksForItsOwnPods) {
  PodRegistry registry({PodOrigin::kFile, PodOrigin::kApi});
  ASSERT_TRUE(registry.Set(Pod("a", PodOrigin::kApi)));
  (void)registry.Take();
  const auto stolen = registry.Set(Pod("a", PodOrigin::kFile));
  ASSERT_FALSE(stolen);
  EXPECT_EQ(stolen.error().code(), Code::kConflict);
  registry.Remove(PodOrigin::kFile, PodUid("a"));
  EXPECT_EQ(Text(registry.Take()), "");
  EXPECT_FALSE(registry.IsComplete(PodOrigin::kFile));
  EXPECT_TRUE(registry.IsComplete(PodOrigin::kHttp)) << "nothing will come from there";
  registry.Complete(PodOrigin::kFile);
  EXPECT_TRUE(registry.IsComplete(PodOrigin::kFile));
  EXPECT_FALSE(registry.IsComplete(PodOrigin::kApi));
}

TEST(PodRegistryTest, TellsOfEveryChange) {
  PodRegistry registry({PodOrigin::kFile});
  int told = 0;
  registry.SetListener([&] {
    ++told;
    (void)registry.Take();  // it may be asked from there
  });
  ASSERT_TRUE(registry.Set(Pod("a")));
  registry.Complete(PodOrigin::kFile);
  registry.Complete(PodOrigin::kFile);
  registry.Remove(PodOrigin::kFile, PodUid("a"));
  registry.Remove(PodOrigin::kFile, PodUid("a"));
  EXPECT_EQ(told, 3);
  registry.SetListener({});
  ASSERT_TRUE(registry.Set(Pod("a")));
  EXPECT_EQ(told, 3);
}

TEST(PodChangeTest, TellsBookkeepingFromChangesAndChangesFromAnotherPod) {
  corev1::Pod before;
  before.mutable_metadata()->set_uid("u1");
  before.mutable_metadata()->set_name("web");
  before.mutable_spec()->add_containers()->set_name("app");
  before.mutable_spec()->mutable_containers(0)->set_image("x:1");
  const auto kind = [&](auto change) {
    corev1::Pod after = before;
    change(after);
    return ComparePods(before, after);
  };
  EXPECT_EQ(kind([](auto&) {}), PodChangeKind::kNone);
  EXPECT_EQ(kind([](auto& p) {
              (*p.mutable_metadata()->mutable_annotations())["kubernetes.io/config.seen"] = "now";
              p.mutable_metadata()->set_resourceversion("7");
              p.mutable_status()->set_phase("Running");
            }),
            PodChangeKind::kNone);
  EXPECT_EQ(kind([](auto& p) { (*p.mutable_metadata()->mutable_labels())["a"] = "b"; }),
            PodChangeKind::kInPlace);
  EXPECT_EQ(kind([](auto& p) { p.mutable_spec()->mutable_containers(0)->set_image("x:2"); }),
            PodChangeKind::kInPlace);
  EXPECT_EQ(kind([](auto& p) { p.mutable_spec()->mutable_containers(0)->add_command("sh"); }),
            PodChangeKind::kReplaced);
  EXPECT_EQ(kind([](auto& p) { p.mutable_metadata()->set_name("other"); }),
            PodChangeKind::kReplaced);
  EXPECT_EQ(kind([](auto& p) { p.mutable_spec()->add_containers()->set_name("more"); }),
            PodChangeKind::kReplaced);
}

TEST(PodChangeTest, AResizeIsTakenOverAndAnotherClassOrAnAmountLessIsAnotherPod) {
  corev1::Pod before;
  before.mutable_metadata()->set_uid("u1");
  corev1::ResourceRequirements* has = before.mutable_spec()->add_containers()->mutable_resources();
  (*has->mutable_requests())["cpu"].set_string("100m");
  (*has->mutable_requests())["memory"].set_string("64Mi");
  (*has->mutable_limits())["memory"].set_string("64Mi");
  (*has->mutable_limits())["ephemeral-storage"].set_string("1Gi");
  const auto kind = [&](auto change) {
    corev1::Pod after = before;
    change(*after.mutable_spec()->mutable_containers(0)->mutable_resources());
    return ComparePods(before, after);
  };
  EXPECT_EQ(kind([](auto& r) { (*r.mutable_requests())["cpu"].set_string("2"); }),
            PodChangeKind::kInPlace);
  EXPECT_EQ(kind([](auto& r) { (*r.mutable_limits())["cpu"].set_string("2"); }),
            PodChangeKind::kInPlace)
      << "one more";
  EXPECT_EQ(kind([](auto& r) { r.mutable_limits()->erase("memory"); }), PodChangeKind::kReplaced);
  EXPECT_EQ(kind([](auto& r) { (*r.mutable_limits())["ephemeral-storage"].set_string("2Gi"); }),
            PodChangeKind::kReplaced);
  EXPECT_EQ(kind([](auto& r) { (*r.mutable_limits())["cpu"].set_string("100m"); }),
            PodChangeKind::kReplaced)
      << "it would be Guaranteed";
}

}  // namespace
}  // namespace holdfast::agent
