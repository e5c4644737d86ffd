// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "holdfast/model/launch_plan.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/plan/wire.h"
#include "runtime/state/records.h"
#include "runtime/sys/journal_form.h"
#include "tests/fuzz/runtime/records/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

namespace kp = runtime::keeper;

TEST(FuzzSmokeTest, KeeperMessage) {
  kp::StartRecord start;
  start.id = "c1";
  start.tag = "tag";
  kp::LaunchedPayload launched;
  launched.warnings = {"a", "b"};
  const auto kind = [](int number, const std::string& payload) {
    return std::string(1, static_cast<char>(number)) + payload;
  };
  Replay(FuzzKeeperMessage,
         {kind(0, kp::EncodeLaunch(start)), kind(1, kp::Encode(launched)),
          kind(2, kp::Encode(kp::LaunchFailure{"mounts", 2, "no such file", true})),
          kind(3, kp::EncodeNames({"net", "ipc"})),
          kind(4, kp::Encode(kp::LogRegistration{"c1", {"/log/0.log", 1, 2}, true})),
          kind(5, kp::Encode(kp::LogStatus{true, 1, 2, 3})), kind(6, "ns.uid-1.3.net"),
          kind(6, "log.c1.tty"), kind(7, "xxxx")});
}

TEST(FuzzSmokeTest, LaunchPlan) {
  model::LaunchPlan plan;
  plan.process.argv = {"/bin/true"};
  plan.process.env = {"A=b"};
  Replay(FuzzLaunchPlan,
         {runtime::SerializePlan(plan), runtime::SerializePlan(model::SandboxPlan()),
          runtime::SerializePlan(model::ExecPlan())});
}

TEST(FuzzSmokeTest, RuntimeRecord) {
  constexpr size_t kHeader = 12;
  runtime::ContainerRecord container;
  container.spec.id = ContainerId("c1");
  container.spec.mounts.resize(2);
  container.spec.env = {"A=b"};
  runtime::SandboxRecord sandbox;
  sandbox.spec.uid = PodUid("u");
  Replay(FuzzRuntimeRecord, {runtime::EncodeRecord(container).substr(kHeader),
                             runtime::EncodeRecord(sandbox).substr(kHeader)});
}

TEST(FuzzSmokeTest, Journal) {
  const auto entry = [](std::string_view key, std::string_view value) {
    return "!!" + sys::JournalEntryBytes("12345678", key, value).substr(sys::kJournalMark);
  };
  Replay(FuzzJournal,
         {entry("a", "1") + entry("b", "2") + entry("a", "3"),
          entry("a", std::string(300, 'x')) + "!!R", sys::JournalHeader("12345678")},
         "!\x01PFR");
}

}  // namespace
}  // namespace holdfast::fuzz
