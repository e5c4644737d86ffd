// SPDX-License-Identifier: Apache-2.0
// The fuzz targets without the engine: good inputs, then damaged ones from a fixed sequence.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/kube/codec.h"
#include "tests/fuzz/agent/kube/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::agent::kube::fuzz {
namespace {

constexpr char kYaml[] = R"(# comment
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {a: "1"}, creationTimestamp: null, managedFields: [{fieldsV1: {"f:a": 1.5}}]}
spec:
  hostNetwork: true
  containers:
  - name: c
    image: nginx
    args: ["-g", 'daemon off;', |
      two
      lines]
    resources: {limits: {cpu: 0.5, memory: 64Mi}}
    livenessProbe: {httpGet: {port: web}}
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a']"}}}]
  volumes:
  - {name: v, projected: {defaultMode: 0644, sources: [{secret: {name: s}}]}}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: ConfigMap, data: {8080: x, "é": "\u2028"}, binaryData: {b: AQ==}}]
)";

constexpr char kJson[] =
    R"({"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d\u00e9"},"spec":)"
    R"({"replicas":-3,"template":{"spec":{"containers":[{"name":"c","ports":[{"containerPort":1e3}]}]}}}})";

void Replay(holdfast::fuzz::Target target, const std::vector<std::string>& seeds) {
  constexpr std::string_view kMarks = "{}[]:,-?&*#|>!%@`\"'\n\t \\\x7F\xC2\x85\xEF\xBB\xBF~<0e.";
  holdfast::fuzz::Replay(target, seeds, kMarks, 300);
}

TEST(FuzzSmokeTest, Manifest) { Replay(FuzzManifest, {kYaml, kJson}); }

TEST(FuzzSmokeTest, Envelope) {
  const auto pod = DecodeJson(
      R"({"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"b"}},"spec":{"priority":-1,)"
      R"("containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}})");
  ASSERT_TRUE(pod.has_value());
  Replay(FuzzEnvelope, {EncodeEnvelope(**pod).substr(4)});
}

TEST(FuzzSmokeTest, Quantity) {
  Replay(FuzzQuantity, {"1.5Gi", "-250m", "12e-3", "1h2m3.5s", "2026-11-21T07:20:09.5+01:00",
                        "Zm9vYg==", "9223372036854775807"});
}

}  // namespace
}  // namespace holdfast::agent::kube::fuzz
