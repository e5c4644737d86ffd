// SPDX-License-Identifier: Apache-2.0
// Volumes that show what the pod itself is, and what the status says of those that are mounted.
#include <gtest/gtest.h>

#include "tests/unit/agent/pod/decide/pod_world.h"

namespace holdfast::agent {
namespace {

std::string Downward(const std::string& items) {
  return StrCat(R"(containers { name: "app" image: "x" resources {
    requests { key: "cpu" value { string: "100m" } } } }
    volumes { name: "me" volumeSource { downwardAPI { )",
                items, " } } }");
}

constexpr char kCpu[] =
    R"(items { path: "cpu" resourceFieldRef { containerName: "app" resource: "requests.cpu" } })";

// A manifest's: there is nothing of an API server that would have a version.
void Resize(PodWorld& world, const std::string& cpu) {
  auto* resources = world.pod.mutable_spec()->mutable_containers(0)->mutable_resources();
  (*resources->mutable_requests())["cpu"].set_string(cpu);
  world.verdict = ResizeVerdict{};
}

PodWorld Running(const std::string& spec) {
  PodWorld world(spec);
  world.memory.allocation = AllocationOf(world.pod);
  world.Run();
  EXPECT_TRUE(world.Run().empty());
  return world;
}

TEST(ShownVolumesTest, FilesOfAmountsFollowAResizeOfAManifestsPod) {
  PodWorld world = Running(Downward(kCpu));
  Resize(world, "200m");
  EXPECT_EQ(world.Run(), (Actions{"resize #1", "ensure volumes"}));
  EXPECT_TRUE(world.Run().empty()) << "once";
}

TEST(ShownVolumesTest, ARestartedAgentLooksAtThemOnce) {
  PodWorld world = Running(Downward(kCpu));
  world.RestartAgent();
  EXPECT_EQ(world.Run(), Actions{"ensure volumes"}) << "the one before may not have come to it";
  EXPECT_TRUE(world.Run().empty());
}

TEST(ShownVolumesTest, FilesOfLabelsAndAnnotationsFollowThose) {
  PodWorld world =
      Running(Downward(R"(items { path: "labels" fieldRef { fieldPath: "metadata.labels" } })"));
  (*world.pod.mutable_metadata()->mutable_annotations())["a"] = "1";
  EXPECT_TRUE(world.Run().empty()) << "no file shows it";
  (*world.pod.mutable_metadata()->mutable_labels())["a"] = "1";
  EXPECT_EQ(world.Run(), Actions{"ensure volumes"});
  PodWorld other = Running(StrCat(
      R"(containers { name: "app" image: "x" } volumes { name: "me" volumeSource { projected {
      sources { downwardAPI { items { path: "a" fieldRef { fieldPath: "metadata.annotations['a']" } } } } } } })"));
  (*other.pod.mutable_metadata()->mutable_annotations())["a"] = "1";
  EXPECT_EQ(other.Run(), Actions{"ensure volumes"});
}

TEST(ShownVolumesTest, WhoShowsNothingIsLeftAlone) {
  PodWorld world =
      Running(Downward(R"(items { path: "name" fieldRef { fieldPath: "metadata.name" } })"));
  Resize(world, "200m");
  (*world.pod.mutable_metadata()->mutable_labels())["a"] = "1";
  EXPECT_EQ(world.Run(), Actions{"resize #1"});
  world.RestartAgent();
  EXPECT_TRUE(world.Run().empty());
}

TEST(MountStatusTest, ReadOnlyMountsSayHowFarItGoes) {
  PodWorld world(R"(containers { name: "app" image: "x"
    volumeMounts { name: "a" mountPath: "/a" }
    volumeMounts { name: "a" mountPath: "/b" readOnly: true }
    volumeMounts { name: "a" mountPath: "/c" readOnly: true recursiveReadOnly: "IfPossible" }
    volumeMounts { name: "a" mountPath: "/d" readOnly: true recursiveReadOnly: "Enabled" }
    volumeMounts { name: "a" mountPath: "/e" readOnly: true recursiveReadOnly: "Disabled" } }
    volumes { name: "a" volumeSource { emptyDir {} } })");
  world.Run();
  std::vector<std::string> shown;
  for (const auto& mount : world.Status("app").volumemounts()) {
    EXPECT_FALSE(mount.has_volumestatus());
    shown.push_back(StrCat(mount.name(), mount.mountpath(), mount.readonly() ? " ro " : "",
                           mount.recursivereadonly()));
  }
  EXPECT_EQ(shown, (Actions{"a/a", "a/b ro Disabled", "a/c ro Enabled", "a/d ro Enabled",
                            "a/e ro Disabled"}));
}

PodWorld WithImageVolume(PodOrigin origin) {
  PodWorld world(R"(containers { name: "app" image: "x"
    volumeMounts { name: "models" mountPath: "/models" } volumeMounts { name: "tmp" mountPath: "/tmp" } }
    volumes { name: "models" volumeSource { image { reference: "files" pullPolicy: "Never" } } }
    volumes { name: "tmp" volumeSource { emptyDir {} } })");
  world.memory.origin = origin;
  world.images["files"] = {ImageFact::State::kPresent, "sha256:9", "docker.io/files:1", "", "",
                           "docker.io/files@sha256:7"};
  world.Run();
  return world;
}

TEST(MountStatusTest, AMountedImageIsShownByItsDigest) {
  PodWorld world = WithImageVolume(PodOrigin::kFile);
  const auto& mounts = world.Status("app").volumemounts();
  EXPECT_EQ(mounts[0].volumestatus().image().imageref(), "docker.io/files@sha256:7");
  EXPECT_FALSE(mounts[1].has_volumestatus());
  world.images["files"].digest = "docker.io/files@sha256:8";  // its name means another by now
  world.Look();
  EXPECT_EQ(world.Status("app").volumemounts(0).volumestatus().image().imageref(),
            "docker.io/files@sha256:7");
}

TEST(MountStatusTest, AnApiServerWithoutTheGateIsNotToldOfIt) {
  PodWorld world = WithImageVolume(PodOrigin::kApi);
  EXPECT_FALSE(world.Status("app").volumemounts(0).has_volumestatus());
}

}  // namespace
}  // namespace holdfast::agent
