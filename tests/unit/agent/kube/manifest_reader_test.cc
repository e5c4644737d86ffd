// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/manifest_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Errors(std::string_view text) {
  std::vector<std::string> lines;
  for (const Diagnostic& diagnostic : ReadManifest("a.yaml", text).diagnostics) {
    lines.push_back(diagnostic.ToString());
  }
  return lines;
}

// The spec of a Pod, whose first line is line 4 of the text.
std::string PodWith(std::string_view spec) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n" + std::string(spec);
}

TEST(ManifestReaderTest, ReadsAPodFromYaml) {
  Manifest manifest = ReadManifest("a.yaml", PodWith(R"(spec:
  containers:
  - name: nginx
    image: nginx:1.25
    args: ["-g", "daemon off;"]
    resources: {limits: {cpu: 0.5, memory: 65536Ki}}
    livenessProbe: {httpGet: {port: web}}
  volumes:
  - {name: cfg, configMap: {name: c, defaultMode: 0644}}
)"));
  ASSERT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  ASSERT_EQ(manifest.objects.size(), 1u);
  const auto* pod = manifest.objects[0].As<corev1::Pod>();
  ASSERT_NE(pod, nullptr);
  const corev1::Container& container = pod->spec().containers(0);
  EXPECT_EQ(container.image(), "nginx:1.25");
  EXPECT_THAT(container.args(), ElementsAre("-g", "daemon off;"));
  EXPECT_EQ(container.resources().limits().at("cpu").string(), "500m");
  EXPECT_EQ(container.resources().limits().at("memory").string(), "64Mi");
  EXPECT_EQ(container.livenessprobe().handler().httpget().port().strval(), "web");
  EXPECT_EQ(pod->spec().volumes(0).volumesource().configmap().defaultmode(), 0644);
  EXPECT_FALSE(pod->spec().has_priority());
}

TEST(ManifestReaderTest, ReadsAPodFromJson) {
  Manifest manifest =
      ReadManifest("a.json", R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},
                    "spec":{"hostNetwork":true,"terminationGracePeriodSeconds":0}})");
  ASSERT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  const auto pod = manifest.objects[0].Take<corev1::Pod>();
  ASSERT_NE(pod, nullptr);
  EXPECT_TRUE(pod->spec().hostnetwork());
  EXPECT_TRUE(pod->spec().has_terminationgraceperiodseconds());
  EXPECT_EQ(manifest.objects[0].object, nullptr);
}

TEST(ManifestReaderTest, NamesEveryFaultWithItsPlace) {
  EXPECT_THAT(
      Errors(PodWith(R"(spec:
  hostNetwork: "true"
  containers:
  - name: nginx
    imagee: nginx
    resources: {limits: {memory: 64Mx}}
    ports:
    - containerPort: 80
      containerPort: 81
    env:
    - {name: A, value: 1}
    - {name: B, value: yes}
  priority: 99999999999
)")),
      ElementsAre(
          "a.yaml:5:16: spec.hostNetwork: expected a boolean, got a string",
          "a.yaml:8:5: spec.containers[0].imagee: unknown field (did you mean \"image\"?)",
          AllOf(HasSubstr("a.yaml:9:34: spec.containers[0].resources.limits[memory]: quantity"),
                HasSubstr("unknown suffix \"Mx\"")),
          "a.yaml:12:7: spec.containers[0].ports[0].containerPort: duplicate key, first set in "
          "line 11",
          "a.yaml:14:24: spec.containers[0].env[0].value: expected a string, got a number (put it "
          "in quotes)",
          "a.yaml:15:24: spec.containers[0].env[1].value: expected a string, got a boolean (put it "
          "in quotes)",
          "a.yaml:16:13: spec.priority: 99999999999 does not fit 32 bits"));
}

TEST(ManifestReaderTest, GivesLineAndColumnInJsonToo) {
  EXPECT_THAT(Errors("{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\",\n \"metadata\": {\"nam\": 1}}"),
              ElementsAre("a.yaml:3:15: metadata.nam: unknown field (did you mean \"name\"?)"));
  EXPECT_THAT(Errors("{\"kind\": \"Pod\",\n  oops}"),
              ElementsAre("a.yaml:2:3: not valid JSON: expected a key in double quotes"));
}

TEST(ManifestReaderTest, ReadsSeveralDocumentsAndLists) {
  Manifest manifest = ReadManifest("a.yaml", R"(# nothing but a comment
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1"}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: s}
- apiVersion: v1
  kind: Pod
  metadata: {name: p}
---
apiVersion: v1
kind: PodList
items:
- metadata: {name: q}
)");
  ASSERT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  ASSERT_EQ(manifest.objects.size(), 4u);
  EXPECT_NE(manifest.objects[0].As<corev1::ConfigMap>(), nullptr);
  EXPECT_NE(manifest.objects[1].As<corev1::Service>(), nullptr);
  EXPECT_EQ(manifest.objects[2].As<corev1::Pod>()->metadata().name(), "p");
  EXPECT_EQ(manifest.objects[3].As<corev1::Pod>()->metadata().name(), "q");
  EXPECT_EQ(manifest.objects[2].path, "items[1]");
}

TEST(ManifestReaderTest, OneBadDocumentLeavesTheOthersReadable) {
  Manifest manifest = ReadManifest(
      "a.yaml",
      "apiVersion: v1\nkind: Podd\n---\napiVersion: v1\nkind: Pod\n---\nkind: Pod\n---\n- 1\n");
  EXPECT_EQ(manifest.objects.size(), 1u);
  EXPECT_THAT(Errors("apiVersion: v1\nkind: Podd\n---\nkind: Pod\n---\n- 1\n"),
              ElementsAre("a.yaml:2:7: kind: no such kind: \"Podd\" of \"v1\" (did you mean "
                          "\"Pod\"?)",
                          "a.yaml:4:1: apiVersion: Required value",
                          "a.yaml:6:1: expected an object, got a list"));
  EXPECT_THAT(Errors("apiVersion: v1\nkind: Deployment\n"),
              ElementsAre("a.yaml:1:13: apiVersion: no kind \"Deployment\" in \"v1\", it is in "
                          "\"apps/v1\""));
}

TEST(ManifestReaderTest, LocatesFieldsForLaterChecks) {
  Manifest manifest = ReadManifest("a.yaml", PodWith("spec:\n  containers:\n  - name: X\n"));
  ASSERT_EQ(manifest.objects.size(), 1u);
  const ManifestObject& object = manifest.objects[0];
  EXPECT_EQ(object.At("spec.containers[0].name", "no").ToString(),
            "a.yaml:6:11: spec.containers[0].name: no");
  // What is not there is shown where it would have to be.
  EXPECT_EQ(object.At("spec.containers[0].image", "no").at, (Position{6, 5}));
}

}  // namespace
}  // namespace holdfast::agent::kube
