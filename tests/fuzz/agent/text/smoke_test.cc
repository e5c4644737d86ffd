// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/kube/codec.h"
#include "agent/pod/state/record.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fuzz/agent/text/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, CriLog) {
  Replay(FuzzCriLog,
         {"2026-11-22T05:00:00.123456789Z stdout F hello\n"
          "2026-11-22T05:00:01.000000000+01:00 stderr P part\n"
          "2026-11-22T05:00:02Z stderr F end\n"},
         " :TZPF\n");
}

TEST(FuzzSmokeTest, LabelSelector) {
  Replay(FuzzLabelSelector, {"app=web,tier!=db,env in (a, b),!gone,k8s.io/x notin (y)"},
         "=!,() in");
}

TEST(FuzzSmokeTest, KubeConfig) {
  Replay(FuzzKubeConfig,
         {"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
          "clusters: [{name: k, cluster: {server: 'https://[2001:db8::1]:6443/base', "
          "insecure-skip-tls-verify: false}}]\n"
          "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
          "users: [{name: u, user: {token: t}}]\n"},
         ":/[]{}'\n ,-");
}

TEST(FuzzSmokeTest, PodRecord) {
  agent::PodMemory memory;
  memory.pod_ips = {"10.88.0.2"};
  memory.containers["app"].attempts = 2;
  memory.containers["app"].last.emplace();
  memory.ending.emplace();
  Replay(FuzzPodRecord, {agent::EncodeRecord(memory)}, "{}[]:,\"0-e.");
}

TEST(FuzzSmokeTest, ApiAnswer) {
  const std::string lease =
      R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"a","resourceVersion":"7"},)"
      R"("spec":{"holderIdentity":"n","leaseDurationSeconds":15,"renewTime":"2026-11-22T05:00:00.000000Z"}})";
  const std::string refusal =
      R"({"apiVersion":"v1","kind":"Status","reason":"AlreadyExists","message":"no \u00e9","code":409})";
  Replay(FuzzApiAnswer, {std::string(1, '\0') + lease, std::string(1, '\3') + refusal},
         "{}[]:,\"0-e.");
}

TEST(FuzzSmokeTest, ManagedFields) {
  agent::corev1::Pod pod;
  pod.mutable_metadata()->set_name("a");
  pod.mutable_metadata()->add_managedfields()->set_manager("kubectl");
  pod.mutable_metadata()->set_resourceversion("5");
  pod.mutable_spec()->set_priority(-1);
  Replay(FuzzManagedFields, {agent::kube::EncodeEnvelope(pod).substr(4)});
}

}  // namespace
}  // namespace holdfast::fuzz
