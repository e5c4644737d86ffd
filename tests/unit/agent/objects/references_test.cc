// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/references.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

PodReferences Of(const std::string& spec) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_namespace_("ns");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, pod.mutable_spec()));
  return ReferencesOf(pod, [](const ObjectRef&) { return nullptr; });
}

ObjectRef Map(const std::string& name) { return {ObjectKind::kConfigMap, "ns", name}; }
ObjectRef Secret(const std::string& name) { return {ObjectKind::kSecret, "ns", name}; }

TEST(References, EnvironmentsOfAllContainers) {
  const auto refs = Of(R"(
    initContainers { name: "i" env { name: "A" valueFrom { secretKeyRef {
      localObjectReference { name: "s" } key: "k" } } } }
    containers { name: "c"
      envFrom { configMapRef { localObjectReference { name: "m" } optional: true } }
      env { name: "A" valueFrom { configMapKeyRef { localObjectReference { name: "n" } key: "k" } } }
      env { name: "B" value: "plain" } }
    ephemeralContainers { ephemeralContainerCommon { name: "e"
      envFrom { secretRef { localObjectReference { name: "s" } optional: true } } } })");
  EXPECT_THAT(refs.objects, ElementsAre(Pair(Map("m"), ObjectUse{false, true, false}),
                                        Pair(Map("n"), ObjectUse{false, true, true}),
                                        Pair(Secret("s"), ObjectUse{false, true, true})));
  EXPECT_THAT(refs.tokens, IsEmpty());
}

TEST(References, TheClassOfRuntimeIsTheClusters) {
  const auto refs = Of(R"(runtimeClassName: "fast" containers { name: "c" })");
  EXPECT_THAT(refs.objects, ElementsAre(Pair(ObjectRef{ObjectKind::kRuntimeClass, "", "fast"},
                                             ObjectUse{false, false, false, true})));
  EXPECT_THAT(Of(R"(runtimeClassName: "")").objects, IsEmpty());
}

TEST(References, VolumesWithTheirTokens) {
  const auto refs = Of(R"(
    volumes { name: "a" volumeSource { configMap { localObjectReference { name: "m" } } } }
    volumes { name: "b" volumeSource { secret { secretName: "s" optional: true } } }
    volumes { name: "c" volumeSource { emptyDir {} } }
    volumes { name: "d" volumeSource { projected {
      sources { serviceAccountToken { expirationSeconds: 3607 path: "token" } }
      sources { serviceAccountToken { audience: "vault" path: "vault" } }
      sources { configMap { localObjectReference { name: "kube-root-ca.crt" } } }
      sources { secret { localObjectReference { name: "p" } } }
      sources { downwardAPI { items { path: "ns" } } } } } }
    containers { name: "c" envFrom { configMapRef { localObjectReference { name: "m" } } } })");
  EXPECT_THAT(refs.objects,
              ElementsAre(Pair(Map("kube-root-ca.crt"), ObjectUse{true, false, false}),
                          Pair(Map("m"), ObjectUse{true, true, true}),
                          Pair(Secret("p"), ObjectUse{true, false, false}),
                          Pair(Secret("s"), ObjectUse{true, false, false})));
  EXPECT_THAT(refs.tokens, ElementsAre(TokenRef{"", std::chrono::seconds(3607)},
                                       TokenRef{"vault", std::chrono::seconds(3600)}));
}

TEST(References, ANameThatIsMissingIsNone) {
  EXPECT_THAT(Of(R"(containers { name: "c" envFrom { configMapRef {} } })").objects, IsEmpty());
}

}  // namespace
}  // namespace holdfast::agent
