// SPDX-License-Identifier: Apache-2.0
// Status map and watch queue.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/api/grpc/change_queue.h"
#include "agent/api/grpc/status_map.h"

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

}  // namespace
}  // namespace holdfast::agent::api
