// SPDX-License-Identifier: Apache-2.0
// What pods have written, in directories like theirs: who is evicted, who is only told of, who is not counted at all.
#include "agent/evict/storage_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_pod_view.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

class StorageWatchTest : public ::testing::Test {
 protected:
  StorageWatchTest() {
    std::string name = "/tmp/holdfast-evict-XXXXXX";
    top_ = ::mkdtemp(name.data());
    instance_.root_dir = top_ + "/root";
    instance_.pod_log_dir = top_ + "/logs";
  }
  ~StorageWatchTest() override { std::filesystem::remove_all(top_); }

  // A pod that runs its container for the second time; its origin as the annotation says it.
  static core::Pod MakePod(const std::string& source = "api") {
    core::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_name("web");
    pod.mutable_metadata()->set_uid("u1");
    (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = source;
    pod.mutable_spec()->add_containers()->set_name("app");
    auto* status = pod.mutable_status()->add_containerstatuses();
    status->set_name("app");
    status->set_restartcount(1);
    status->mutable_state()->mutable_running();
    pod.mutable_status()->set_phase("Running");
    return pod;
  }
  static core::Pod WithLimit(core::Pod pod, const std::string& limit) {
    auto* limits = pod.mutable_spec()->mutable_containers(0)->mutable_resources();
    (*limits->mutable_limits())["ephemeral-storage"].set_string(limit);
    return pod;
  }
  static core::Pod WithVolume(core::Pod pod, const std::string& limit) {
    auto* volume = pod.mutable_spec()->add_volumes();
    volume->set_name("data");
    volume->mutable_volumesource()->mutable_emptydir()->mutable_sizelimit()->set_string(limit);
    return pod;
  }

  PodPaths Paths() const { return {instance_, PodUid("u1"), "default", "web"}; }
  static void Write(const std::string& path, size_t bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << std::string(bytes, 'x');
  }
  std::vector<std::string> Evicted(const core::Pod& pod, int looks = 1) {
    pods_.SetPod(pod);
    StorageWatch watch(Parts());
    for (int i = 0; i < looks; ++i) watch.Look();
    return std::exchange(evicted_, {});
  }
  StorageWatchParts Parts() {
    return {
        .instance = instance_,
        .pods = pods_,
        .evict =
            [this](const PodUid& uid, const Eviction& eviction) {
              EXPECT_EQ(eviction, (Eviction{.why = eviction.why, .signal = eviction.signal}))
                  << "a second, and no condition";
              EXPECT_TRUE(eviction.signal.ends_with("fs.limit")) << eviction.signal;
              evicted_.push_back(uid.value + ": " + eviction.why);
            },
        .tell = [this](const core::Pod&, const EventNote& note) { told_.push_back(note.message); },
        .trees = trees_};
  }

  std::string top_;
  model::Instance instance_;
  FakePodView pods_;
  TreeSizesOptions trees_;
  std::vector<std::string> evicted_, told_;
};

using Texts = std::vector<std::string>;

TEST_F(StorageWatchTest, APodAboveItsLimitIsEvicted) {
  Write(Paths().EmptyDir("data") + "/a/b/file", 300'000);
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "1Mi")), Texts{});
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "200Ki")),
            Texts{"u1: Usage of EmptyDir volume \"data\" exceeds the limit \"200Ki\". "});
  EXPECT_EQ(told_, Texts{});
}

TEST_F(StorageWatchTest, LayersImagesVolumesAndLogsCount) {
  const Texts above{
      "u1: Pod ephemeral local storage usage exceeds the total limit of containers 250Ki. "};
  Write(Paths().Scratch("app", 1) + "/upper/var/file", 100'000);
  Write(Paths().Scratch("app", 0) + "/upper/var/file", 900'000);  // of a run that is over
  EXPECT_EQ(Evicted(WithLimit(MakePod(), "250Ki")), Texts{});
  Write(Paths().ImageVolume("app", 1, 0) + "/file", 100'000);
  EXPECT_EQ(Evicted(WithLimit(MakePod(), "250Ki")), Texts{});
  Write(Paths().LogFile("app", 1), 100'000);
  EXPECT_EQ(Evicted(WithLimit(MakePod(), "250Ki")), above);
}

TEST_F(StorageWatchTest, WhoEndsOrHasNoLimitIsNotLookedAt) {
  Write(Paths().EmptyDir("data") + "/file", 300'000);
  core::Pod ends = WithVolume(MakePod(), "1Ki");
  ends.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  EXPECT_EQ(Evicted(ends), Texts{});
  core::Pod failed = WithVolume(MakePod(), "1Ki");
  failed.mutable_status()->set_phase("Failed");
  EXPECT_EQ(Evicted(failed), Texts{});
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "0")), Texts{});
}

TEST_F(StorageWatchTest, ACriticalOrStaticPodIsToldOfOnce) {
  Write(Paths().EmptyDir("data") + "/file", 300'000);
  const std::string told =
      "Usage of EmptyDir volume \"data\" exceeds the limit \"1Ki\". A critical or static pod is "
      "not "
      "evicted.";
  EXPECT_EQ(Evicted(WithVolume(MakePod("file"), "1Ki"), 3), Texts{});
  EXPECT_EQ(told_, Texts{told});
  told_.clear();
  core::Pod critical = WithVolume(MakePod(), "1Ki");
  critical.mutable_spec()->set_priority(2'000'000'000);
  EXPECT_EQ(Evicted(critical), Texts{});
  EXPECT_EQ(told_, Texts{told});
}

// Deep, wide and with more names than files.
TEST_F(StorageWatchTest, AHostileTreeIsCountedInPart) {
  trees_ = {.lasts = std::chrono::milliseconds(0), .most_inodes = 50};
  const std::string data = Paths().EmptyDir("data");
  std::string deep = data;
  for (int i = 0; i < 30; ++i) deep += "/d";
  Write(deep + "/file", 10);
  for (int i = 0; i < 30; ++i) Write(data + "/wide" + std::to_string(i), 10);
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "1Gi"), 2), Texts{});
  EXPECT_EQ(told_, Texts{"local storage has more than 50 files in one place: only a part of it is "
                         "held to its limits"});
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "1Ki")).size(), 1u) << "so much it has at least";
}

TEST_F(StorageWatchTest, AFileWithManyNamesIsOneFile) {
  const std::string data = Paths().EmptyDir("data");
  Write(data + "/file", 100'000);
  for (int i = 0; i < 20; ++i) {
    std::filesystem::create_hard_link(data + "/file", data + "/name" + std::to_string(i));
  }
  EXPECT_EQ(Evicted(WithVolume(MakePod(), "200Ki")), Texts{});
}

TEST_F(StorageWatchTest, ItsThreadLooksByItselfAndStops) {
  Write(Paths().EmptyDir("data") + "/file", 300'000);
  pods_.SetPod(WithVolume(MakePod(), "1Ki"));
  std::atomic<int> count = 0;
  StorageWatchParts parts = Parts();
  parts.evict = [&count](const PodUid&, const Eviction&) { ++count; };
  StorageWatch watch(std::move(parts));
  ASSERT_TRUE(watch.Start(std::chrono::milliseconds(1)));
  EXPECT_TRUE(test_support::Eventually([&] { return count > 2; }));
}

}  // namespace
}  // namespace holdfast::agent
