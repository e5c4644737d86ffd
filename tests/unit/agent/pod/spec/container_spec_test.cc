// SPDX-License-Identifier: Apache-2.0
// From pod, image and node to what the runtime is told.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/resources.h"

namespace holdfast::agent {
namespace {

class SpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    image_.config.entrypoint = {"/entry"};
    image_.config.cmd = {"image-arg"};
    image_.config.env = {"PATH=/bin", "A=image", "broken"};
    image_.layers = {"/layers/1"};
    node_.node_name = "n1";
    node_.host_ips = {"192.0.2.1"};
    node_.cpu_milli_capacity = 4000;
    node_.memory_capacity_bytes = 1ll << 30;
    node_.seccomp_dir = "/seccomp";
  }

  void SetPod(const std::string& spec_text) {
    pod_.Clear();
    pod_.mutable_metadata()->set_name("web-n1");
    pod_.mutable_metadata()->set_namespace_("default");
    pod_.mutable_metadata()->set_uid("u1");
    (*pod_.mutable_metadata()->mutable_labels())["app"] = "web";
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec_text, pod_.mutable_spec()));
  }

  std::expected<model::ContainerSpec, StartFailure> Build(const std::string& spec_text) {
    SetPod(spec_text);
    return BuildPod();
  }
  std::expected<model::ContainerSpec, StartFailure> BuildPod() {
    const PodPaths paths(instance_, PodUid("u1"), "default", "web-n1");
    return BuildContainerSpec({pod_,
                               pod_.spec().containers(0),
                               image_,
                               node_,
                               paths,
                               {"10.88.0.2"},
                               volumes_,
                               ContainerId("id"),
                               2});
  }
  std::string OutOfFile(const std::string& ref, const VolumeTextReader& read);
  std::string ConfigError(const std::string& spec_text) {
    const auto spec = Build(spec_text);
    if (spec || spec.error().phase != StartFailure::Phase::kConfig) return "none";
    return spec.error().error.message();
  }

  std::expected<model::ContainerSpec, StartFailure> BuildWith(const DevicePlaces& devices,
                                                              const std::string& spec_text) {
    SetPod(spec_text);
    const PodPaths paths(instance_, PodUid("u1"), "default", "web-n1");
    ContainerBuild build{pod_,     pod_.spec().containers(0), image_, node_, paths, {},
                         volumes_, ContainerId("id"),         0};
    build.devices = devices;
    return BuildContainerSpec(build);
  }

  VolumePlaces volumes_ = {{"v", {"/volumes/v"}}, {"etc", {"/volumes/etc"}}};
  corev1::Pod pod_;
  Image image_;
  NodeEnvironment node_;
  model::Instance instance_;
};

using Words = std::vector<std::string>;

TEST_F(SpecTest, CommandAndArgsAgainstEntrypointAndCmd) {
  EXPECT_EQ(Build(R"(containers { name: "c" })")->argv, (Words{"/entry", "image-arg"}));
  EXPECT_EQ(Build(R"(containers { name: "c" args: "x" })")->argv, (Words{"/entry", "x"}));
  EXPECT_EQ(Build(R"(containers { name: "c" command: "/cmd" })")->argv, (Words{"/cmd"}));
  EXPECT_EQ(Build(R"p(containers {
                       name: "c"
                       command: "/cmd"
                       args: "$(A)"
                       env { name: "A" value: "1" }
                     })p")
                ->argv,
            (Words{"/cmd", "1"}));
  image_.config = {};
  const auto none = Build(R"(containers { name: "c" })");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().phase, StartFailure::Phase::kCreate);
}

TEST_F(SpecTest, BlockDevices) {
  const DevicePlaces places = {{"disk", {{7, 5, 0660, 0, 6}}}, {"ro", {{8, 0, 0600, 0, 0}, true}}};
  const auto spec = BuildWith(places,
                              "containers { name: 'c' volumeDevices { name: 'disk' devicePath: "
                              "'/dev//xvda' } volumeDevices { name: 'ro' devicePath: '/b' } }");
  ASSERT_TRUE(spec) << spec.error().error.message();
  EXPECT_EQ(spec->devices, (std::vector<model::DeviceSpec>{{{7, 5, 0660, 0, 6}, "/dev/xvda", false},
                                                           {{8, 0, 0600, 0, 0}, "/b", true}}));
  const auto problem = [&](const std::string& device) {
    const auto built =
        BuildWith(places, "containers { name: 'c' volumeDevices { " + device + " } }");
    return built ? "" : built.error().error.message();
  };
  EXPECT_EQ(problem("name: 'none' devicePath: '/b'"),
            "cannot find volume \"none\" to pass into container \"c\"");
  EXPECT_EQ(problem("name: 'v' devicePath: '/b'"),
            "cannot find volume \"v\" to pass into container \"c\"");
  EXPECT_EQ(problem("name: 'disk' devicePath: 'b'"),
            "error DevicePath `b` must be an absolute path");
}

// The last variable of a container that has one out of a file, or what is wrong.
std::string SpecTest::OutOfFile(const std::string& ref, const VolumeTextReader& read) {
  SetPod("containers { name: 'c' env { name: 'X' valueFrom { fileKeyRef { " + ref + " } } } }");
  const PodPaths paths(instance_, PodUid("u1"), "default", "web-n1");
  ContainerBuild build{pod_,     pod_.spec().containers(0), image_, node_, paths, {},
                       volumes_, ContainerId("id"),         0};
  build.read_volume_text = read;
  const auto spec = BuildContainerSpec(build);
  return spec ? spec->env.back() : spec.error().error.message();
}

TEST_F(SpecTest, AVariableOfAFileThatAContainerWrote) {
  const auto build = [&](const std::string& ref) {
    return OutOfFile(ref,
                     [](const std::string& volume, const std::string& path) -> Result<std::string> {
                       EXPECT_EQ(volume, "/volumes/v");
                       if (path != "run/env") return NotFound("open: nothing there");
                       return std::string("A='1'\nB");
                     });
  };
  EXPECT_EQ(build("volumeName: 'v' path: 'run/env' key: 'A'"), "X=1");
  EXPECT_EQ(build("volumeName: 'none' path: 'run/env' key: 'A'"),
            "cannot find the volume \"none\" referenced by FileKeyRef");
  EXPECT_EQ(build("volumeName: 'v' path: 'other' key: 'A' optional: true"),
            "couldn't parse env file: open: nothing there");
  EXPECT_EQ(build("volumeName: 'v' path: 'run/env' key: 'C'"),
            "couldn't parse env file: invalid environment variable format at line 2: missing '='");
}

TEST_F(SpecTest, AVariableThatAFileLacks) {
  const auto build = [&](const std::string& more) {
    return OutOfFile(
        "volumeName: 'v' path: 'env' key: 'A' " + more,
        [](const std::string&, const std::string&) { return Result<std::string>("B='1'"); });
  };
  EXPECT_EQ(build(""), "environment variable key \"A\" not found in file \"/volumes/v/env\"");
  EXPECT_EQ(build("optional: true"), "A=image") << "the last one that there is";
}

TEST_F(SpecTest, EnvironmentOfImageAndPodWithDownwardValues) {
  const auto spec = Build(R"p(containers {
      name: "c"
      env { name: "A" value: "pod" }
      env { name: "B" value: "$(A)/$(NONE)/$$(A)" }
      env { name: "IP" valueFrom { fieldRef { fieldPath: "status.podIP" } } }
      env { name: "APP" valueFrom { fieldRef { fieldPath: "metadata.labels['app']" } } }
      env { name: "CPU" valueFrom { resourceFieldRef { resource: "limits.cpu" } } }
      env {
        name: "MEM"
        valueFrom { resourceFieldRef { resource: "limits.memory" divisor { string: "1Mi" } } }
      }
      resources { limits { key: "cpu" value { string: "1500m" } } }
    })p");
  ASSERT_TRUE(spec) << spec.error().error.message();
  EXPECT_EQ(spec->env, (Words{"PATH=/bin", "A=pod", "B=pod/$(NONE)/$(A)", "IP=10.88.0.2", "APP=web",
                              "CPU=2", "MEM=1024"}));
}

TEST_F(SpecTest, WhatCannotBeReadIsAConfigError) {
  EXPECT_EQ(ConfigError(R"(containers { name: "c" env { name: "A" valueFrom { configMapKeyRef {
                localObjectReference { name: "m" } key: "k" } } } })"),
            "configmap \"m\" not found");
  EXPECT_EQ(
      ConfigError(
          R"(containers { name: "c" env { name: "A" valueFrom { fieldRef { fieldPath: "x" } } } })"),
      "unsupported fieldPath: x");
  EXPECT_NE(
      ConfigError(R"(containers { name: "c" volumeMounts { name: "absent" mountPath: "/a" } })"),
      "none");
  EXPECT_NE(
      ConfigError(
          R"(containers { name: "c" volumeMounts { name: "v" mountPath: "/a" subPath: "../x" } })"),
      "none");
}

TEST_F(SpecTest, RunAsNonRootNeedsANumberThatIsNotZero) {
  const std::string pod = R"(containers { name: "c" securityContext { runAsNonRoot: true } })";
  EXPECT_TRUE(
      ConfigError(pod).starts_with("container has runAsNonRoot and image will run as root"));
  image_.config.user = "www";
  EXPECT_TRUE(
      ConfigError(pod).starts_with("container has runAsNonRoot and image has non-numeric user "
                                   "(www), cannot verify user is non-root"));
  image_.config.user = "33:33";
  EXPECT_TRUE(Build(pod));
}

TEST_F(SpecTest, MountsAreOrderedAndManagedFilesGiveWay) {
  const auto spec = Build(R"(containers { name: "c" terminationMessagePath: "/dev/termination-log"
      volumeMounts { name: "v" mountPath: "/etc/hosts" } volumeMounts { name: "etc" mountPath: "/etc/" readOnly: true } })");
  ASSERT_TRUE(spec);
  Words places;
  for (const auto& mount : spec->mounts) places.push_back(mount.destination);
  EXPECT_EQ(places, (Words{"/etc", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname",
                           "/dev/termination-log"}));
  EXPECT_EQ(spec->mounts[1].source, "/volumes/v");
}

TEST_F(SpecTest, SecurityDefaultsAndOverrides) {
  const auto plain = Build(R"(containers { name: "c" })");
  EXPECT_EQ(plain->security.seccomp, model::SecuritySpec::Seccomp::kRuntimeDefault);
  EXPECT_TRUE(plain->security.allow_privilege_escalation);
  const auto spec = Build(R"(securityContext { runAsUser: 1 fsGroup: 7 supplementalGroups: 5
        seccompProfile { type: "Localhost" localhostProfile: "p.json" } }
      containers { name: "c" securityContext { runAsUser: 2 allowPrivilegeEscalation: false
        capabilities { add: "CAP_NET_RAW" drop: "ALL" } } })");
  EXPECT_EQ(spec->user.run_as_user, 2);
  EXPECT_EQ(spec->user.supplemental_groups, (std::vector<int64_t>{5, 7}));
  EXPECT_FALSE(spec->security.allow_privilege_escalation);
  EXPECT_EQ(spec->security.add_capabilities, Words{"NET_RAW"});
  EXPECT_EQ(spec->security.seccomp_profile, "/seccomp/p.json");
}

// What a container is under, by what it, the old annotation and the pod name.
TEST_F(SpecTest, AppArmorProfiles) {
  const auto profile = [this](const std::string& own, const std::string& pods = "",
                              const std::string& annotation = "", bool privileged = false) {
    const auto field = [](const std::string& type) {
      return type.empty() ? "" : StrCat("appArmorProfile { ", type, " }");
    };
    SetPod(StrCat("securityContext { ", field(pods),
                  " } containers { name: \"c\" securityContext { ", field(own),
                  privileged ? "privileged: true" : "", " } }"));
    if (!annotation.empty()) {
      (*pod_.mutable_metadata()
            ->mutable_annotations())["container.apparmor.security.beta.kubernetes.io/c"] =
          annotation;
    }
    const auto spec = BuildPod();
    if (spec) return spec->security.app_armor_profile;
    return StrCat("refused: ", spec.error().error.message());
  };
  const std::string standard = "type: \"RuntimeDefault\"";
  const std::string none = "type: \"Unconfined\"";
  const std::string own = "type: \"Localhost\" localhostProfile: \"mine\"";
  EXPECT_EQ(profile(""), "") << "the node has no AppArmor";
  EXPECT_EQ(profile(none), "");
  EXPECT_EQ(profile(standard), "refused: apparmor is not supported");
  EXPECT_EQ(profile(own), "refused: apparmor is not supported");

  node_.app_armor = {true, "standard", ""};
  const struct {
    std::string container, pod, annotation;
    bool privileged;
    const char* profile;
  } rows[] = {
      {"", "", "", false, "standard"},
      {"", "", "", true, ""},
      {standard, none, "", false, "standard"},
      {standard, "", "", true, ""},
      {none, standard, "", false, ""},
      {own, standard, "", false, "mine"},
      {own, "", "", true, "mine"},
      {"", own, "", false, "mine"},
      {"", own, "unconfined", false, ""},
      {"", none, "runtime/default", false, "standard"},
      {"", none, "localhost/old", false, "old"},
      {"", own, "no such thing", false, "mine"},
      {none, "", "localhost/old", false, ""},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(profile(row.container, row.pod, row.annotation, row.privileged), row.profile)
        << row.container << ", " << row.pod << ", " << row.annotation;
  }

  node_.app_armor = {true, "", "no parser"};
  EXPECT_EQ(profile(""), "");
  EXPECT_EQ(profile(own), "mine");
  EXPECT_EQ(profile(standard),
            "refused: apparmor has no profile of type RuntimeDefault: no parser");
}

TEST_F(SpecTest, PodLimitsOnlyWhenEveryContainerHasOne) {
  Build(R"(containers { name: "a" resources { limits { key: "memory" value { string: "1Mi" } } } }
           containers { name: "b" })");
  EXPECT_FALSE(BuildSandboxSpec(pod_, node_).resources.memory_limit_bytes);
  Build(R"(containers { name: "a" resources { limits { key: "memory" value { string: "1Mi" } } } }
           containers { name: "b" resources { limits { key: "memory" value { string: "2Mi" } } } })");
  EXPECT_EQ(BuildSandboxSpec(pod_, node_).resources.memory_limit_bytes, 3 << 20);
}

TEST_F(SpecTest, AMemoryLimitOfZeroIsNone) {
  const auto spec = Build(R"(containers { name: "a" image: "i"
      resources { limits { key: "memory" value { string: "0" } }
                  limits { key: "cpu" value { string: "0" } } } })");
  ASSERT_TRUE(spec);
  EXPECT_FALSE(spec->resources.memory_limit_bytes);
  EXPECT_FALSE(spec->resources.cpu_milli_limit);
  EXPECT_FALSE(BuildSandboxSpec(pod_, node_).resources.memory_limit_bytes);
}

TEST_F(SpecTest, AContainerWithoutLimitsHasThoseOfItsPod) {
  const auto spec = Build(R"(
      resources { limits { key: "memory" value { string: "8Mi" } }
                  limits { key: "cpu" value { string: "500m" } }
                  limits { key: "hugepages-2Mi" value { string: "4Mi" } }
                  requests { key: "memory" value { string: "6Mi" } }
                  requests { key: "cpu" value { string: "200m" } } }
      containers { name: "c" image: "i" env { name: "M" valueFrom { resourceFieldRef {
          resource: "limits.memory" } } } env { name: "C" valueFrom { resourceFieldRef {
          resource: "limits.cpu" divisor { string: "1m" } } } } }
      containers { name: "own" resources { limits { key: "memory" value { string: "2Mi" } }
                                           limits { key: "hugepages-2Mi" value { string: "2Mi" } } } })");
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->resources.memory_limit_bytes, 8 << 20);
  EXPECT_EQ(spec->resources.cpu_milli_limit, 500);
  EXPECT_EQ(spec->resources.cpu_milli_request, 500) << "it asks for nothing itself";
  EXPECT_EQ(spec->resources.huge_pages, (std::vector<model::HugePageLimit>{{2 << 20, 4 << 20}}));
  EXPECT_NE(std::ranges::find(spec->env, "M=8388608"), spec->env.end());
  EXPECT_NE(std::ranges::find(spec->env, "C=500"), spec->env.end());
  const model::ResourceSpec own = ContainerResources(pod_, pod_.spec().containers(1), node_);
  EXPECT_EQ(own.memory_limit_bytes, 2 << 20);
  EXPECT_EQ(own.cpu_milli_limit, 500);
  EXPECT_EQ(own.huge_pages, (std::vector<model::HugePageLimit>{{2 << 20, 2 << 20}}));
  const model::ResourceSpec of_pod = BuildSandboxSpec(pod_, node_).resources;
  EXPECT_EQ(of_pod.memory_limit_bytes, 8 << 20);
  EXPECT_EQ(of_pod.cpu_milli_limit, 500);
  EXPECT_EQ(of_pod.cpu_milli_request, 200);
  EXPECT_EQ(of_pod.huge_pages, (std::vector<model::HugePageLimit>{{2 << 20, 4 << 20}}));
}

TEST_F(SpecTest, AVolumeThatMayOnlyBeReadIsReadOnlyEverywhere) {
  volumes_["v"].read_only = true;
  const auto spec = Build(R"(
      volumes { name: "v" volumeSource { emptyDir {} } }
      volumes { name: "etc" volumeSource { emptyDir {} } }
      containers { name: "a" image: "i" volumeMounts { name: "v" mountPath: "/v" }
                   volumeMounts { name: "etc" mountPath: "/e" } })");
  ASSERT_TRUE(spec);
  for (const auto& mount : spec->mounts) {
    if (mount.destination == "/v") {
      EXPECT_TRUE(mount.read_only);
    }
    if (mount.destination == "/e") {
      EXPECT_FALSE(mount.read_only);
    }
  }
}

TEST_F(SpecTest, VolumesOfTheImageGiveWayToThePods) {
  SetPod(R"(volumes { name: "v" volumeSource { emptyDir {} } }
            containers { name: "a" image: "i" volumeMounts { name: "v" mountPath: "/data" } })");
  const PodPaths paths(instance_, PodUid("u1"), "default", "web-n1");
  const auto spec = BuildContainerSpec({pod_,
                                        pod_.spec().containers(0),
                                        image_,
                                        node_,
                                        paths,
                                        {},
                                        {{"v", {"/volumes/v"}}},
                                        ContainerId("id"),
                                        2,
                                        {{"/data", "/img/0"}, {"/data/sub", "/img/1"}}});
  ASSERT_TRUE(spec);
  std::vector<std::string> sources;
  for (const auto& mount : spec->mounts) {
    if (mount.destination.starts_with("/data")) sources.push_back(mount.source);
  }
  EXPECT_EQ(sources, (std::vector<std::string>{"/volumes/v", "/img/1"}));
}

}  // namespace
}  // namespace holdfast::agent
