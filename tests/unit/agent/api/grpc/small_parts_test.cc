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
#include "agent/api/grpc/label_selector.h"
#include "agent/api/grpc/status_map.h"
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

TEST(LabelSelectorTest, Matches) {
  const std::map<std::string, std::string> labels = {{"app", "web"}, {"tier", "front"}, {"e", ""}};
  for (const char* yes : {"", "app=web", "app==web", "app!=db", "app", "!gone", "gone!=x",
                          "e=", "tier in (front, back)", "tier notin (back)",
                          "app = web , tier=front", "gone notin (a)"}) {
    const auto selector = LabelSelector::Parse(yes);
    ASSERT_TRUE(selector.has_value()) << yes;
    EXPECT_TRUE(selector->Matches(labels)) << yes;
  }
  for (const char* no : {"app=db", "!app", "gone", "app!=web", "tier in (back)", "app=web,gone",
                         "tier notin (front,back)", "gone in (a)"}) {
    const auto selector = LabelSelector::Parse(no);
    ASSERT_TRUE(selector.has_value()) << no;
    EXPECT_FALSE(selector->Matches(labels)) << no;
  }
}

TEST(LabelSelectorTest, RefusesWhatIsNoSelector) {
  for (const char* bad : {"=x", "app=web,", "app in", "app in (a", "app like b", "!", "a b", ","}) {
    EXPECT_FALSE(LabelSelector::Parse(bad).has_value()) << bad;
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
