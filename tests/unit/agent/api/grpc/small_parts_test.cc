// SPDX-License-Identifier: Apache-2.0
// Status map, selectors, watch queue, workers, audit lines.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "agent/api/grpc/audit.h"
#include "agent/api/grpc/change_queue.h"
#include "agent/api/grpc/find_container.h"
#include "agent/api/grpc/status_map.h"
#include "agent/kube/label_selector.h"
#include "tests/support/api_fixture.h"

namespace holdfast::agent::api {
namespace {

TEST(StatusMapTest, EveryCodeHasItsStatus) {
  const std::vector<std::pair<Code, grpc::StatusCode>> table = {
      {Code::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
      {Code::kNotFound, grpc::StatusCode::NOT_FOUND},
      {Code::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
      {Code::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
      {Code::kUnsupported, grpc::StatusCode::UNIMPLEMENTED},
      {Code::kUnavailable, grpc::StatusCode::UNAVAILABLE},
      {Code::kConflict, grpc::StatusCode::ABORTED},
      {Code::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
      {Code::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
      {Code::kInternal, grpc::StatusCode::INTERNAL}};
  for (const auto& [code, status] : table) {
    EXPECT_EQ(ToStatus(Error(code, "why")).error_code(), status);
    EXPECT_EQ(ToStatus(Error(code, "why")).error_message(), "why");
  }
}

TEST(StatusMapTest, CutsALongMessageBetweenCharacters) {
  std::string text;
  while (text.size() < 20'000) text += "ä";
  const std::string cut = ToStatus(Internal(text)).error_message();
  EXPECT_LT(cut.size(), 7000u);
  EXPECT_TRUE(cut.ends_with("ä … (cut)"));
}

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

TEST(LabelSelectorTest, Matches) {
  const std::map<std::string, std::string> labels = {{"app", "web"}, {"tier", "front"}, {"e", ""}};
  for (const char* yes : {"", "app=web", "app==web", "app!=db", "app", "!gone", "gone!=x",
                          "e=", "tier in (front, back)", "tier notin (back)",
                          "app = web , tier=front", "gone notin (a)"}) {
    const auto selector = kube::LabelSelector::Parse(yes);
    ASSERT_TRUE(selector.has_value()) << yes;
    EXPECT_TRUE(selector->Matches(labels)) << yes;
  }
  for (const char* no : {"app=db", "!app", "gone", "app!=web", "tier in (back)", "app=web,gone",
                         "tier notin (front,back)", "gone in (a)"}) {
    const auto selector = kube::LabelSelector::Parse(no);
    ASSERT_TRUE(selector.has_value()) << no;
    EXPECT_FALSE(selector->Matches(labels)) << no;
  }
}

TEST(LabelSelectorTest, RefusesWhatIsNoSelector) {
  for (const char* bad : {"=x", "app=web,", "app in", "app in (a", "app like b", "!", "a b", ","}) {
    EXPECT_FALSE(kube::LabelSelector::Parse(bad).has_value()) << bad;
  }
}

using Queue = ChangeQueue<std::shared_ptr<int>>;
std::shared_ptr<int> Value(int value) { return std::make_shared<int>(value); }

std::string Drain(Queue& queue) {
  std::string text;
  while (const auto item = queue.Take()) {
    text += "AMDB"[static_cast<size_t>(item->change)];
    if (item->object) text += item->key + std::to_string(*item->object);
    text += " ";
  }
  return text;
}

TEST(ChangeQueueTest, MergesWhatWasNotTaken) {
  Queue queue(10);
  EXPECT_TRUE(queue.Set("a", Value(1)));
  EXPECT_TRUE(queue.Set("b", Value(1)));
  EXPECT_TRUE(queue.Set("a", Value(2)));
  EXPECT_EQ(Drain(queue), "Aa2 Ab1 ");
  EXPECT_TRUE(queue.Set("a", Value(3)));
  EXPECT_TRUE(queue.Set("a", Value(4)));
  EXPECT_TRUE(queue.Remove("b", Value(9)));
  EXPECT_EQ(Drain(queue), "Ma4 Db9 ");
}

TEST(ChangeQueueTest, NeverTellsWhatCameAndWent) {
  Queue queue(10);
  EXPECT_TRUE(queue.Set("a", Value(1)));
  EXPECT_TRUE(queue.Remove("a", Value(1)));
  EXPECT_TRUE(queue.Remove("x", Value(1)));
  EXPECT_EQ(Drain(queue), "");
  EXPECT_TRUE(queue.Set("a", Value(1)));
  EXPECT_EQ(Drain(queue), "Aa1 ");
  EXPECT_TRUE(queue.Remove("a", Value(1)));
  EXPECT_TRUE(queue.Set("a", Value(2)));  // back before its end was told
  EXPECT_EQ(Drain(queue), "Ma2 ");
}

TEST(ChangeQueueTest, IsBoundedByObjectsNotByChanges) {
  Queue queue(2);
  EXPECT_TRUE(queue.Set("a", Value(1)));
  EXPECT_TRUE(queue.Set("b", Value(1)));
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(queue.Set("a", Value(i)));
  EXPECT_FALSE(queue.Set("c", Value(1)));
}

TEST(AuditTest, LineIsJsonWhateverACallerSends) {
  AuditEntry entry{.stage = "begin", .id = 7, .uid = 1000, .pid = 12, .method = "Exec"};
  entry.target = "default/we\"b\n/app";
  entry.detail = "\x1b[31m\xff";
  EXPECT_EQ(FormatAuditLine(entry, WallTime{std::chrono::seconds(1)}, 0),
            "{\"time\":\"1970-01-01T00:00:01.000000000Z\",\"stage\":\"begin\",\"id\":7,"
            "\"uid\":1000,\"pid\":12,\"method\":\"Exec\",\"target\":\"default/we\\\"b\\u000a/app\","
            "\"detail\":\"\\u001b[31m\\u00ff\",\"decision\":\"allow\"}");
  entry.stage = "end";
  entry.duration = std::chrono::milliseconds(3);
  const std::string line = FormatAuditLine(entry, {}, 4);
  EXPECT_NE(line.find("\"durationMicros\":3000,\"dropped\":4}"), std::string::npos) << line;
}

TEST(AuditTest, RotatesAndCountsWhatItDropped) {
  std::string root = std::filesystem::temp_directory_path() / "holdfast-audit-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const SystemClock clock;
  const std::string directory = root + "/audit";
  AuditLog log(directory + "/audit.log", 1000, 3, clock);
  // A file where the directory should be: nothing can be written.
  std::ofstream(directory) << "x";
  log.Write({.stage = "begin"});
  EXPECT_EQ(log.dropped(), 1u);
  std::filesystem::remove(directory);
  log.Write({.stage = "begin"});
  EXPECT_NE(ReadText(directory + "/audit.log").find("\"dropped\":1"), std::string::npos);
  for (int i = 0; i < 100; ++i) log.Write({.stage = "begin", .id = 1});
  EXPECT_TRUE(std::filesystem::exists(directory + "/audit.log.2"));
  EXPECT_FALSE(std::filesystem::exists(directory + "/audit.log.3"));
  EXPECT_LE(std::filesystem::file_size(directory + "/audit.log"), 1000u);
  EXPECT_EQ(log.dropped(), 1u);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace holdfast::agent::api
