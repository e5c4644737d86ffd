// SPDX-License-Identifier: Apache-2.0
#include "agent/events/event_log.h"

#include <gtest/gtest.h>

#include <memory_resource>

#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

class EventLogTest : public ::testing::Test {
 protected:
  std::vector<EventChange> Record(const std::string& reason, const std::string& message,
                                  const std::string& container = "") {
    return log_.Record(pod_, {true, reason, message, container, false}, now_,
                       [this] { return ++version_; });
  }
  void SetUp() override {
    pod_.mutable_metadata()->set_name("web");
    pod_.mutable_metadata()->set_namespace_("default");
    pod_.mutable_metadata()->set_uid("u1");
  }

  corev1::Pod pod_;
  uint64_t version_ = 0;
  WallTime now_{std::chrono::seconds(1'800'000'000)};
  EventLog log_{"n1", 20};
};

TEST_F(EventLogTest, HasTheShapeOfAKubeletsEvent) {
  const auto changes = Record("Failed", "Error: no", "app");
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].type, ChangeType::kAdded);
  const corev1::Event& event = *changes[0].event;
  EXPECT_TRUE(event.metadata().name().starts_with("web."));
  EXPECT_EQ(event.involvedobject().fieldpath(), "spec.containers{app}");
  EXPECT_EQ(event.source().component(), "kubelet");
  EXPECT_EQ(event.source().host(), "n1");
  EXPECT_EQ(event.type(), "Warning");
  EXPECT_EQ(event.count(), 1);
}

TEST_F(EventLogTest, TheSameEventAgainRaisesItsCount) {
  Record("BackOff", "again", "app");
  now_ = now_ + std::chrono::seconds(5);
  const auto changes = Record("BackOff", "again", "app");
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].type, ChangeType::kModified);
  EXPECT_EQ(changes[0].event->count(), 2);
  EXPECT_EQ(
      changes[0].event->lasttimestamp().seconds() - changes[0].event->firsttimestamp().seconds(),
      5);
  EXPECT_EQ(log_.List().size(), 1u);
}

TEST_F(EventLogTest, ObjectsWithoutUidsAreKeptApart) {
  const EventNote note{true, "FailedValidation", "both.yaml: broken", "", false};
  for (const char* name : {"a", "b"}) {
    log_.Record({"Service", "default", name, "", "kubelet"}, note, now_,
                [this] { return ++version_; });
  }
  EXPECT_EQ(log_.List().size(), 2u);
}

TEST_F(EventLogTest, ANodesEventsLieInTheDefaultNamespace) {
  log_.Record({"Node", "", "n1", "n1", "kubelet"}, {true, "X", "y", "", false}, now_,
              [this] { return ++version_; });
  const EventPtr kept = log_.List().at(0);
  const corev1::Event& event = *kept;
  EXPECT_EQ(event.metadata().namespace_(), "default");
  EXPECT_EQ(event.involvedobject().namespace_(), "");
}

TEST_F(EventLogTest, ManyDifferentMessagesBecomeOneCombinedEvent) {
  for (int i = 0; i < 15; ++i) Record("Failed", StrCat("message ", i));
  const auto list = log_.List();
  EXPECT_EQ(list.size(), 11u);
  EXPECT_EQ(list.back()->message(), "(combined from similar events): message 14");
  EXPECT_EQ(list.back()->count(), 5);
}

TEST_F(EventLogTest, AFloodIsHeldToABurstOf25AndOnePerFiveMinutes) {
  int recorded = 0;
  for (int i = 0; i < 100; ++i) recorded += Record("Failed", "flood").empty() ? 0 : 1;
  EXPECT_EQ(recorded, 25);
  now_ = now_ + std::chrono::minutes(5);
  EXPECT_FALSE(Record("Failed", "flood").empty());
  EXPECT_TRUE(Record("Failed", "flood").empty());
}

TEST_F(EventLogTest, WhatWasLongestQuietIsForgottenWhenThereAreTooMany) {
  const auto flood = [this](const std::string& uid) {
    pod_.mutable_metadata()->set_uid(uid);
    for (int i = 0; i < 30; ++i) Record("Failed", "flood");
    return Record("Failed", "flood").empty();
  };
  ASSERT_TRUE(flood("first"));
  for (int i = 0; i < 5000; ++i) {
    now_ = now_ + std::chrono::milliseconds(1);
    if (i == 4500) {
      ASSERT_TRUE(flood("late"));
    }
    pod_.mutable_metadata()->set_uid(StrCat("u", i));
    Record("Started", "m");
  }
  pod_.mutable_metadata()->set_uid("late");
  EXPECT_TRUE(Record("Failed", "flood").empty());
  pod_.mutable_metadata()->set_uid("first");
  EXPECT_FALSE(Record("Failed", "flood").empty());
}

TEST_F(EventLogTest, OldOnesGoWhenThereAreTooManyOrAfterAnHour) {
  for (int i = 0; i < 30; ++i) {
    pod_.mutable_metadata()->set_uid(StrCat("u", i));
    Record("Failed", "m");
  }
  EXPECT_EQ(log_.List().size(), 20u);
  now_ = now_ + std::chrono::minutes(61);
  const auto changes = Record("Failed", "m");
  EXPECT_EQ(log_.List().size(), 1u);
  EXPECT_EQ(changes.back().type, ChangeType::kDeleted);
}

// Lists and maps that were made without the log's memory would take theirs from what is refused here.
TEST_F(EventLogTest, AllThatIsKeptLiesInItsOwnMemory) {
  std::pmr::memory_resource* const before =
      std::pmr::set_default_resource(std::pmr::null_memory_resource());
  for (int i = 0; i < 30; ++i) {
    pod_.mutable_metadata()->set_uid(StrCat("the-uid-of-a-pod-", i));
    EXPECT_NO_THROW(
        Record("Failed", StrCat("a message that is longer than a string's own room ", i)));
    EXPECT_NO_THROW(
        Record("Failed", StrCat("a message that is longer than a string's own room ", i)));
  }
  std::pmr::set_default_resource(before);
  EXPECT_EQ(log_.List().size(), 20u);
}

TEST_F(EventLogTest, AMessageIsUtf8WhateverAFileIsCalled) {
  EXPECT_EQ(Record("Failed", "\xff\xfe.yaml: bad")[0].event->message(),
            "\xef\xbf\xbd\xef\xbf\xbd.yaml: bad");
  const std::string cut = Record("Long", std::string(1023, 'x') + "\xc3\xa4")[0].event->message();
  EXPECT_EQ(cut, std::string(1023, 'x'));
}

}  // namespace
}  // namespace holdfast::agent
