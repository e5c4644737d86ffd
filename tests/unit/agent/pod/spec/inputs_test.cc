// SPDX-License-Identifier: Apache-2.0
// What volumes and environments show of ConfigMaps, Secrets, tokens and the downward API.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "agent/pod/spec/container_spec_builder.h"
#include "agent/pod/spec/downward.h"
#include "agent/pod/spec/environment.h"
#include "agent/pod/spec/input_values.h"
#include "agent/pod/spec/volume_files.h"
#include "holdfast/base/strings.h"
#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class PodInputsTest : public testing::Test {
 protected:
  void SetUp() override {
    node_.node_name = "n1";
    node_.cpu_milli_capacity = 4000;
    node_.memory_capacity_bytes = 2ll << 30;
    node_.memory_allocatable_bytes = 1ll << 30;
    inputs_.Put(Map("m"), {{"a.txt", "A"}, {"b.txt", "B"}, {"raw", "\xff"}}, {"raw"});
    inputs_.Put(Secret("s"), {{"user", "root"}, {"pass", "secret"}});
    inputs_.PutAbsent(Map("none"));
    inputs_.PutAbsent(Secret("none"));
    inputs_.PutToken({"", std::chrono::seconds(3607)}, "jwt");
  }

  static ObjectRef Map(const std::string& name) { return {ObjectKind::kConfigMap, "ns", name}; }
  static ObjectRef Secret(const std::string& name) { return {ObjectKind::kSecret, "ns", name}; }

  static corev1::Pod Pod(const std::string& spec) {
    corev1::Pod pod;
    auto& meta = *pod.mutable_metadata();
    meta.set_namespace_("ns");
    meta.set_name("web");
    meta.set_uid("u1");
    (*meta.mutable_labels())["zone"] = "z1";
    (*meta.mutable_labels())["app"] = "web";
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, pod.mutable_spec()));
    return pod;
  }

  // "path mode=bytes", with ":owner" after the mode where it is not root.
  static std::vector<std::string> Lines(const VolumeContent& content) {
    std::vector<std::string> lines;
    for (const auto& [path, file] : content.files) {
      std::string mode(6, '\0');
      mode.resize(static_cast<size_t>(
          std::snprintf(mode.data(), mode.size(), "%04o", static_cast<unsigned>(file.mode))));
      if (file.owner) mode += StrCat(":", *file.owner);
      lines.push_back(StrCat(path, " ", mode, "=", *file.bytes));
    }
    return lines;
  }
  std::vector<std::string> Files(const std::string& source, const std::string& more = "") {
    const auto built = BuildVolumeContents(
        Pod(StrCat("volumes { name: 'v' volumeSource { ", source, " } } ", more)), inputs_, node_);
    if (!built.errors.empty()) return {built.errors.front().message()};
    return Lines(built.contents.at("v"));
  }
  std::string Failure(const std::string& source) {
    const auto files = Files(source);
    const std::string prefix = "MountVolume.SetUp failed for volume \"v\" : ";
    if (files.size() != 1 || !files[0].starts_with(prefix)) return "none";
    return files[0].substr(prefix.size());
  }
  std::vector<std::string> Environment(const std::string& container) {
    const auto pod = Pod(StrCat("containers { name: 'c' ", container, " }"));
    const auto made = BuildEnvironment(pod, pod.spec().containers(0), {"PATH=/bin"}, node_, {},
                                       inputs_, {VolumePlaces(), VolumeTextReader()});
    return made ? made->list : std::vector<std::string>{made.error().message()};
  }

  fakes::FakePodInputs inputs_;
  NodeEnvironment node_;
};

TEST_F(PodInputsTest, AllKeysOrItemsWithTheirModes) {
  EXPECT_THAT(Files("configMap { localObjectReference { name: 'm' } }"),
              ElementsAre("a.txt 0644=A", "b.txt 0644=B", "raw 0644=\xff"));
  EXPECT_THAT(Files("secret { secretName: 's' defaultMode: 256 }"),
              ElementsAre("pass 0400=secret", "user 0400=root"));
  EXPECT_THAT(Files(R"(configMap { localObjectReference { name: 'm' } defaultMode: 288
                items { key: 'b.txt' path: 'dir/b' mode: 511 } items { key: 'a.txt' path: 'a' } })"),
              ElementsAre("a 0440=A", "dir/b 0777=B"));
  EXPECT_THAT(Files("secret { secretName: 's' items { key: 'user' path: 'name' } }"),
              ElementsAre("name 0644=root"));
}

TEST_F(PodInputsTest, BytesAreSharedWithTheObject) {
  const auto built = BuildVolumeContents(
      Pod("volumes { name: 'v' volumeSource { secret { secretName: 's' } } }"), inputs_, node_);
  ASSERT_TRUE(built.errors.empty());
  EXPECT_EQ(built.contents.at("v").files.at("user").bytes.get(),
            &inputs_.objects.at(Secret("s")).data->values.at("user"));
}

TEST_F(PodInputsTest, WhatIsMissingIsToldAsAKubeletDoes) {
  EXPECT_EQ(Failure("configMap { localObjectReference { name: 'none' } }"),
            "configmap \"none\" not found");
  EXPECT_EQ(Failure("secret { secretName: 'none' }"), "secret \"none\" not found");
  EXPECT_EQ(
      Failure("configMap { localObjectReference { name: 'm' } items { key: 'x' path: 'x' } }"),
      "configmap references non-existent config key: x");
  EXPECT_EQ(Failure("secret { secretName: 's' items { key: 'x' path: 'x' } }"),
            "references non-existent secret key: x");
  EXPECT_EQ(Failure("configMap { localObjectReference { name: 'late' } optional: true }"),
            "configmap \"late\" has not been read yet")
      << "it may be there";
  inputs_.objects[Map("late")] = {InputState::kUnavailable, nullptr, "connection refused"};
  EXPECT_EQ(Failure("configMap { localObjectReference { name: 'late' } optional: true }"),
            "connection refused");
}

TEST_F(PodInputsTest, WhatIsOptionalMayBeMissing) {
  EXPECT_THAT(Files("configMap { localObjectReference { name: 'none' } optional: true "
                    "items { key: 'a' path: 'a' } }"),
              IsEmpty());
  EXPECT_THAT(Files("secret { secretName: 's' optional: true items { key: 'x' path: 'x' } "
                    "items { key: 'user' path: 'u' } }"),
              ElementsAre("u 0644=root"));
}

constexpr char kAutomatic[] = R"(projected { defaultMode: 420
  sources { serviceAccountToken { expirationSeconds: 3607 path: 'token' } }
  sources { configMap { localObjectReference { name: 'm' } items { key: 'a.txt' path: 'ca.crt' } } }
  sources { downwardAPI { items { path: 'namespace' fieldRef { fieldPath: 'metadata.namespace' } } } } })";

TEST_F(PodInputsTest, TheAutomaticVolume) {
  EXPECT_THAT(Files(kAutomatic),
              ElementsAre("ca.crt 0644=A", "namespace 0644=ns", "token 0644=jwt"));
}

TEST_F(PodInputsTest, ATokenBelongsToTheOnlyUserOrTheGroup) {
  EXPECT_EQ(Files(kAutomatic, "containers { name: 'c' securityContext { runAsUser: 1000 } }")[2],
            "token 0600:1000=jwt");
  EXPECT_EQ(
      Files(
          kAutomatic,
          "securityContext { runAsUser: 7 } containers { name: 'c' } containers { name: 'd' }")[2],
      "token 0600:7=jwt");
  EXPECT_EQ(Files(kAutomatic,
                  "securityContext { runAsUser: 7 } containers { name: 'c' } "
                  "containers { name: 'd' securityContext { runAsUser: 8 } }")[2],
            "token 0644=jwt");
  EXPECT_EQ(
      Files(
          kAutomatic,
          "containers { name: 'c' securityContext { runAsUser: 7 } } containers { name: 'd' }")[2],
      "token 0644=jwt");
  EXPECT_EQ(Files(kAutomatic, "securityContext { fsGroup: 5 } containers { name: 'c' }")[2],
            "token 0600=jwt");
}

TEST_F(PodInputsTest, AVolumeKnowsTheFsGroup) {
  const auto built =
      BuildVolumeContents(Pod("securityContext { fsGroup: 5 } "
                              "volumes { name: 'e' volumeSource { emptyDir {} } } "
                              "volumes { name: 'v' volumeSource { secret { secretName: 's' } } }"),
                          inputs_, node_);
  ASSERT_TRUE(built.errors.empty());
  EXPECT_EQ(built.contents.size(), 1u) << "only what the agent writes";
  EXPECT_EQ(built.contents.at("v").group, std::optional<gid_t>(5));
}

TEST_F(PodInputsTest, AProjectedVolumeTellsEverythingThatIsMissing) {
  EXPECT_EQ(Failure(R"(projected {
              sources { configMap { localObjectReference { name: 'none' } } }
              sources { secret { localObjectReference { name: 'none' } } }
              sources { secret { localObjectReference { name: 'none' } } }
              sources { secret { localObjectReference { name: 's' } } } })"),
            "[configmap \"none\" not found, secret \"none\" not found]");
  EXPECT_EQ(Failure("projected { sources { serviceAccountToken { path: 't' audience: 'x' } } }"),
            "the token has not been fetched yet");
  inputs_.tokens[{"x", std::chrono::seconds(3600)}] = {InputState::kUnavailable, nullptr, "no sa"};
  EXPECT_EQ(Failure("projected { sources { serviceAccountToken { path: 't' audience: 'x' } } }"),
            "no sa");
  EXPECT_EQ(Failure("projected { sources { clusterTrustBundle { path: 'x' } } }"),
            "clusterTrustBundle sources are not supported");
}

TEST_F(PodInputsTest, ALaterSourceOfAPathWins) {
  EXPECT_THAT(Files(R"(projected {
                sources { configMap { localObjectReference { name: 'm' } items { key: 'a.txt' path: 'x' } } }
                sources { secret { localObjectReference { name: 's' } items { key: 'user' path: 'x' } } } })"),
              ElementsAre("x 0644=root"));
}

TEST_F(PodInputsTest, TheDownwardVolume) {
  EXPECT_THAT(
      Files(R"(downwardAPI { defaultMode: 256
                items { path: 'labels' fieldRef { fieldPath: 'metadata.labels' } }
                items { path: 'app' mode: 292 fieldRef { fieldPath: "metadata.labels['app']" } }
                items { path: 'cpu' resourceFieldRef { containerName: 'c' resource: 'limits.cpu'
                        divisor { string: '1m' } } }
                items { path: 'memory' resourceFieldRef { containerName: 'c' resource: 'limits.memory'
                        divisor { string: '1Mi' } } }
                items { path: 'request' resourceFieldRef { containerName: 'c' resource: 'requests.cpu' } } })",
            "containers { name: 'c' resources { limits { key: 'cpu' value { string: '250m' } } "
            "requests { key: 'cpu' value { string: '250m' } } } }"),
      ElementsAre("app 0444=web", "cpu 0400=250", "labels 0400=app=\"web\"\nzone=\"z1\"",
                  "memory 0400=1024", "request 0400=1"))
      << "memory without a limit is what the node has for pods";
  EXPECT_EQ(
      Failure(
          "downwardAPI { items { path: 'x' fieldRef { fieldPath: 'spec.x' } } "
          "items { path: 'y' resourceFieldRef { containerName: 'd' resource: 'limits.cpu' } } }"),
      "[unsupported fieldPath: spec.x, container d not found]");
}

TEST_F(PodInputsTest, MapsAreWrittenAsGoQuotes) {
  EXPECT_EQ(FormatMap({}), "");
  EXPECT_EQ(FormatMap({{"b", "1"}, {"a", "x\"y\\z\n\t\x01\x7f"}}),
            "a=\"x\\\"y\\\\z\\n\\t\\x01\\x7f\"\nb=\"1\"");
  EXPECT_EQ(FormatMap({{"a", "ä€\xff\u00a0\u200b\U000F0000"}}),
            "a=\"ä€\\xff\\u00a0\\u200b\\U000f0000\"");
}

TEST_F(PodInputsTest, EnvironmentsTakeKeysAndWholeObjects) {
  EXPECT_THAT(Environment(R"(
      env { name: 'A' valueFrom { configMapKeyRef { localObjectReference { name: 'm' } key: 'a.txt' } } }
      env { name: 'P' valueFrom { secretKeyRef { localObjectReference { name: 's' } key: 'pass' } } }
      env { name: 'O' valueFrom { secretKeyRef { localObjectReference { name: 's' } key: 'x' optional: true } } }
      env { name: 'R' value: '$(A)/$(X_user)' }
      envFrom { prefix: 'X_' secretRef { localObjectReference { name: 's' } } }
      envFrom { configMapRef { localObjectReference { name: 'm' } } }
      envFrom { configMapRef { localObjectReference { name: 'none' } optional: true } })"),
              ElementsAre("PATH=/bin", "X_pass=secret", "X_user=root", "a.txt=A", "b.txt=B", "A=A",
                          "P=secret", "R=A/root"))
      << "what is binary is left out";
}

TEST_F(PodInputsTest, AnEnvironmentThatIsMissingSomethingIsNone) {
  const auto key = [this](const std::string& kind, const std::string& name, const std::string& k) {
    return Environment(StrCat("env { name: 'A' valueFrom { ", kind,
                              " { localObjectReference { name: '", name, "' } key: '", k,
                              "' } } }"))[0];
  };
  EXPECT_EQ(key("configMapKeyRef", "none", "k"), "configmap \"none\" not found");
  EXPECT_EQ(key("secretKeyRef", "none", "k"), "secret \"none\" not found");
  EXPECT_EQ(key("configMapKeyRef", "m", "k"), "couldn't find key k in ConfigMap ns/m");
  EXPECT_EQ(key("configMapKeyRef", "m", "raw"), "couldn't find key raw in ConfigMap ns/m");
  EXPECT_EQ(key("secretKeyRef", "s", "k"), "couldn't find key k in Secret ns/s");
  EXPECT_EQ(key("secretKeyRef", "late", "k"), "secret \"late\" has not been read yet");
  EXPECT_EQ(Environment("envFrom { secretRef { localObjectReference { name: 'none' } } }")[0],
            "secret \"none\" not found");
}

TEST_F(PodInputsTest, ServicesComeBeforeThePodsOwnAndMayBeReferredTo) {
  inputs_.all_services = {"WEB_SERVICE_HOST=10.0.0.1", "A=service", "PATH=service"};
  inputs_.api_service = {"KUBERNETES_SERVICE_HOST=10.96.0.1"};
  EXPECT_THAT(
      Environment("env { name: 'A' value: 'own' } env { name: 'B' value: '$(WEB_SERVICE_HOST)' }"),
      ElementsAre("PATH=service", "WEB_SERVICE_HOST=10.0.0.1", "A=own", "B=10.0.0.1"));
  const auto pod = Pod("enableServiceLinks: false containers { name: 'c' }");
  EXPECT_THAT(BuildEnvironment(pod, pod.spec().containers(0), {}, node_, {}, inputs_,
                               {VolumePlaces(), VolumeTextReader()})
                  ->list,
              ElementsAre("KUBERNETES_SERVICE_HOST=10.96.0.1"));
  inputs_.all_services.reset();
  EXPECT_THAT(
      Environment(""),
      ElementsAre("services have not yet been read at least once, cannot construct envvars"));
}

TEST_F(PodInputsTest, WhatIsStillToComeIsNoError) {
  const auto pod = Pod(R"(
    volumes { name: 'v' volumeSource { configMap { localObjectReference { name: 'v' } } } }
    volumes { name: 't' volumeSource { projected { sources { serviceAccountToken { path: 't' } } } } }
    containers { name: 'c' envFrom { secretRef { localObjectReference { name: 'e' } } } })");
  EXPECT_EQ(VolumeInputs(pod, ReferencesOf(pod, inputs_), inputs_).state, InputState::kPending);
  EXPECT_EQ(EnvironmentInputs(pod, ReferencesOf(pod, inputs_), inputs_).state,
            InputState::kPending);
  inputs_.PutAbsent(Map("v"));
  EXPECT_EQ(VolumeInputs(pod, ReferencesOf(pod, inputs_), inputs_).state, InputState::kPending)
      << "the token";
  inputs_.tokens[{"", std::chrono::seconds(3600)}] = {InputState::kUnavailable, nullptr, "no sa"};
  EXPECT_EQ(VolumeInputs(pod, ReferencesOf(pod, inputs_), inputs_).state, InputState::kUnavailable);
  EXPECT_EQ(VolumeInputs(pod, ReferencesOf(pod, inputs_), inputs_).why, "no sa");
  inputs_.PutToken({"", std::chrono::seconds(3600)}, "jwt");
  EXPECT_EQ(VolumeInputs(pod, ReferencesOf(pod, inputs_), inputs_).state, InputState::kPresent)
      << "a 404 is an answer";
  inputs_.Put(Secret("e"), {});
  EXPECT_EQ(EnvironmentInputs(pod, ReferencesOf(pod, inputs_), inputs_).state,
            InputState::kPresent);
  inputs_.all_services.reset();
  EXPECT_EQ(EnvironmentInputs(pod, ReferencesOf(pod, inputs_), inputs_).state,
            InputState::kPending);
}

}  // namespace
}  // namespace holdfast::agent
