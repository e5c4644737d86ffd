// SPDX-License-Identifier: Apache-2.0
#include "agent/log/log_place.h"

#include <gtest/gtest.h>

#include <string>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// A pod of which container "c" (of init with `init`) has ended with `exit_code`.
k8s::io::api::core::v1::Pod EndedIn(const std::string& pod_policy, int32_t exit_code,
                                    const std::string& own_policy = "", bool init = false) {
  k8s::io::api::core::v1::Pod pod;
  pod.mutable_spec()->set_restartpolicy(pod_policy);
  pod.mutable_status()->set_phase("Running");
  auto* container =
      init ? pod.mutable_spec()->add_initcontainers() : pod.mutable_spec()->add_containers();
  container->set_name("c");
  if (!own_policy.empty()) container->set_restartpolicy(own_policy);
  auto* status = init ? pod.mutable_status()->add_initcontainerstatuses()
                      : pod.mutable_status()->add_containerstatuses();
  status->set_name("c");
  status->mutable_state()->mutable_terminated()->set_exitcode(exit_code);
  return pod;
}

TEST(RunsNoMoreTest, AsTheRestartPoliciesSay) {
  EXPECT_FALSE(RunsNoMore(EndedIn("Always", 0), "c"));
  EXPECT_TRUE(RunsNoMore(EndedIn("Never", 1), "c"));
  EXPECT_TRUE(RunsNoMore(EndedIn("OnFailure", 0), "c"));
  EXPECT_FALSE(RunsNoMore(EndedIn("OnFailure", 1), "c"));
  // A container's own policy goes before the pod's.
  EXPECT_TRUE(RunsNoMore(EndedIn("Always", 1, "Never"), "c"));
  EXPECT_TRUE(RunsNoMore(EndedIn("Always", 0, "OnFailure"), "c"));
  EXPECT_FALSE(RunsNoMore(EndedIn("Never", 0, "Always"), "c"));
  // Of init: Always in the pod is OnFailure there, its own Always makes it a sidecar.
  EXPECT_TRUE(RunsNoMore(EndedIn("Always", 0, "", true), "c"));
  EXPECT_FALSE(RunsNoMore(EndedIn("Always", 1, "", true), "c"));
  EXPECT_FALSE(RunsNoMore(EndedIn("Never", 1, "Always", true), "c"));
  EXPECT_FALSE(RunsNoMore(EndedIn("Never", 1, "OnFailure", true), "c"));
}

TEST(RunsNoMoreTest, RulesForExitCodesGoBeforeAll) {
  auto pod = EndedIn("Never", 42, "Never");
  auto* rule = pod.mutable_spec()->mutable_containers(0)->add_restartpolicyrules();
  rule->set_action("Restart");
  rule->mutable_exitcodes()->set_operator_("In");
  rule->mutable_exitcodes()->add_values(42);
  EXPECT_FALSE(RunsNoMore(pod, "c"));
  auto* ended = pod.mutable_status()->mutable_containerstatuses(0)->mutable_state();
  ended->mutable_terminated()->set_exitcode(1);
  EXPECT_TRUE(RunsNoMore(pod, "c"));
  // While another container could take all of them back, none is over.
  auto* other = pod.mutable_spec()->add_containers();
  other->set_name("other");
  other->add_restartpolicyrules()->set_action("RestartAllContainers");
  EXPECT_FALSE(RunsNoMore(pod, "c"));
  pod.mutable_status()->set_phase("Failed");
  EXPECT_TRUE(RunsNoMore(pod, "c"));
}

TEST(RunsNoMoreTest, WhateverThePoliciesSay) {
  auto pod = EndedIn("Always", 0);
  pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  EXPECT_TRUE(RunsNoMore(pod, "c"));
  auto running = EndedIn("Never", 0);
  auto* now = running.mutable_status()->mutable_containerstatuses(0)->mutable_state();
  now->clear_terminated();
  now->mutable_running();
  EXPECT_FALSE(RunsNoMore(running, "c"));
  EXPECT_FALSE(RunsNoMore(running, "unknown"));
  auto debug = EndedIn("Always", 0);
  debug.mutable_spec()->add_ephemeralcontainers()->mutable_ephemeralcontainercommon()->set_name(
      "d");
  auto* status = debug.mutable_status()->add_ephemeralcontainerstatuses();
  status->set_name("d");
  status->mutable_state()->mutable_terminated()->set_exitcode(1);
  EXPECT_TRUE(RunsNoMore(debug, "d"));
}

}  // namespace
}  // namespace holdfast::agent
