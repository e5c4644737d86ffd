// SPDX-License-Identifier: Apache-2.0
// A follower without an API: what it hands out, when, and how it ends.
#include "agent/log/log_follower.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/fake_pod_view.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using test_support::Eventually;

// Keeps what it is told until the test asks for more.
class Reader : public LogSink {
 public:
  void Take(std::vector<ShownLine> lines, bool last) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(waiting_ || ended_) << "a batch that nobody asked for";
    for (const ShownLine& line : lines) text_ += line.text + (line.partial ? "" : "|");
    waiting_ = true;
    ended_ = last;
  }
  void End(const Result<void>& result) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(ended_) << "a second end";
    ended_ = true;
    error_ = result ? "" : result.error().message();
  }

  // True when a batch waits that is not the last.
  bool TakeBatch() {
    const std::lock_guard lock(mutex_);
    return std::exchange(waiting_, false) && !ended_;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  std::string error() const {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::string error_;
  bool waiting_ = false;
  bool ended_ = false;
};

class LogFollowerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(root_.data()), nullptr);
    instance_.pod_log_dir = root_;
    ASSERT_TRUE(readers_.Start());
    ASSERT_TRUE(closers_.Start());
    std::filesystem::create_directories(directory());
    Show("Running", 0);
  }
  void TearDown() override {
    readers_.Finish();
    closers_.Finish();
    std::filesystem::remove_all(root_);
  }

  std::string directory() const { return root_ + "/default_web_uid-web/app"; }
  void Write(const std::string& text, int attempt = 0) const {
    std::ofstream(directory() + "/" + std::to_string(attempt) + ".log", std::ios::app)
        << "2026-11-21T07:19:31Z stdout F " << text << "\n";
  }

  void Show(const std::string& phase, int restarts) {
    k8s::io::api::core::v1::Pod pod;
    pod.mutable_metadata()->set_namespace_("default");
    pod.mutable_metadata()->set_name("web");
    pod.mutable_metadata()->set_uid("uid-web");
    pod.mutable_spec()->set_restartpolicy("Always");
    pod.mutable_spec()->add_containers()->set_name("app");
    pod.mutable_status()->set_phase(phase);
    auto* status = pod.mutable_status()->add_containerstatuses();
    status->set_name("app");
    status->set_restartcount(restarts);
    status->mutable_state()->mutable_running();
    pods_.SetPod(pod);
  }

  std::shared_ptr<LogFollower> Ask(Reader& reader, LogQuestion question) {
    question.pod_namespace = "default";
    question.pod = "web";
    auto follower = LogFollower::New({.pods = pods_,
                                      .instance = instance_,
                                      .unpacked = unpacked_,
                                      .waker = waker_,
                                      .readers = readers_,
                                      .closers = closers_},
                                     std::move(question), reader);
    follower->Start();
    return follower;
  }
  // Reads on until it has seen `text`.
  static bool Shows(LogFollower& follower, Reader& reader, const std::string& text) {
    return Eventually([&] {
      if (reader.TakeBatch()) follower.Passed();
      return reader.text() == text;
    });
  }
  // Reads on until the end.
  std::string Whole(const LogQuestion& question, std::string* error = nullptr) {
    Reader reader;
    const auto follower = Ask(reader, question);
    EXPECT_TRUE(Eventually([&] {
      if (reader.TakeBatch()) follower->Passed();
      return reader.ended();
    }));
    follower->Release();
    if (error != nullptr) *error = reader.error();
    return reader.text();
  }

  std::string root_ = testing::TempDir() + "log-follower-XXXXXX";
  model::Instance instance_;
  FakePodView pods_;
  UnpackedLogs unpacked_{1 << 20};
  WorkerPool readers_{{.name = "readers", .threads = 2, .queued = 1024}};
  WorkerPool closers_{{.name = "closers", .threads = 1, .queued = 16}};
  LogWaker waker_;
};

TEST_F(LogFollowerTest, ReadsToTheEndAndStops) {
  Write("one");
  Write("two");
  EXPECT_EQ(Whole({}), "one|two|");
  LogQuestion question;
  question.filter.tail_lines = 1;
  EXPECT_EQ(Whole(question), "two|");
  std::string error;
  question.filter.tail_lines = -1;
  EXPECT_EQ(Whole(question, &error), "");
  EXPECT_EQ(error, "tail_lines: must not be negative");
}

TEST_F(LogFollowerTest, LimitsTheBytesOfTextAndLineEnds) {
  Write("abc");
  Write("def");
  for (const auto& [limit, text] : std::vector<std::pair<int64_t, std::string>>{{0, ""},
                                                                                {2, "ab"},
                                                                                {3, "abc"},
                                                                                {4, "abc|"},
                                                                                {6, "abc|de"},
                                                                                {8, "abc|def|"},
                                                                                {9, "abc|def|"}}) {
    LogQuestion question;
    question.limit_bytes = limit;
    EXPECT_EQ(Whole(question), text) << limit;
  }
}

TEST_F(LogFollowerTest, FollowsIntoTheNextRunAndEndsWithThePod) {
  Write("one");
  Reader reader;
  LogQuestion question;
  question.follow = true;
  const auto follower = Ask(reader, question);
  EXPECT_TRUE(Shows(*follower, reader, "one|"));
  Write("two");
  EXPECT_TRUE(Shows(*follower, reader, "one|two|"));
  Write("three", 1);
  Show("Running", 1);
  EXPECT_TRUE(Shows(*follower, reader, "one|two|three|"));
  EXPECT_FALSE(reader.ended());
  pods_.RemovePod("uid-web");
  EXPECT_TRUE(Eventually([&] {
    if (reader.TakeBatch()) follower->Passed();
    return reader.ended();
  }));
  EXPECT_EQ(reader.error(), "");
  EXPECT_EQ(pods_.watchers(), 1u);
  follower->Release();
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(LogFollowerTest, HandsOutNothingUntilTheFormerBatchWasPassedOn) {
  Write("one");
  Reader reader;
  LogQuestion question;
  question.follow = true;
  const auto follower = Ask(reader, question);
  EXPECT_TRUE(Eventually([&] { return reader.text() == "one|"; }));
  Write("two");
  std::this_thread::sleep_for(milliseconds(100));  // the sink would complain
  EXPECT_EQ(reader.text(), "one|");
  EXPECT_TRUE(Shows(*follower, reader, "one|two|"));
  EXPECT_TRUE(follower->Cancel());
  EXPECT_FALSE(follower->Cancel()) << "once";
  follower->Release();
}

TEST_F(LogFollowerTest, NothingIsHeardAfterACancel) {
  Write("one");
  LogQuestion question;
  question.follow = true;
  for (int i = 0; i < 50; ++i) {
    Reader reader;
    const auto follower = Ask(reader, question);
    if (i % 2 == 0) std::this_thread::yield();
    EXPECT_TRUE(follower->Cancel());
    const std::string text = reader.text();
    Write("more");
    follower->Release();
    EXPECT_EQ(reader.text(), text);
    EXPECT_FALSE(reader.ended());
  }
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(LogFollowerTest, SaysWhyThereIsNoLog) {
  std::string error;
  LogQuestion question;
  question.container = "nope";
  EXPECT_EQ(Whole(question, &error), "");
  EXPECT_EQ(error, "container nope is not valid for pod web, choose one of: [app]");
  pods_.RemovePod("uid-web");
  EXPECT_EQ(Whole({}, &error), "");
  EXPECT_EQ(error, "pods \"web\" not found");
}

TEST_F(LogFollowerTest, OneThatFindsNoRoomIsTold) {
  readers_.Finish();
  std::string error;
  EXPECT_EQ(Whole({}, &error), "");
  EXPECT_FALSE(error.empty());
}

}  // namespace
}  // namespace holdfast::agent
