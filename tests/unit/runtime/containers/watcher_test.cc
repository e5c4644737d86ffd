// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/watcher.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <condition_variable>
#include <map>

#include "tests/unit/runtime/containers/sleeping_process.h"

namespace holdfast::runtime {
namespace {

// Counts what the watcher asks and answers as told. Thread-safe.
class Answers {
 public:
  bool Resolve(const std::string& id) {
    const std::lock_guard lock(mutex_);
    ++asked_[id];
    changed_.notify_all();
    return asked_[id] >= true_after_[id];
  }
  void TrueAfter(const std::string& id, int questions) {
    const std::lock_guard lock(mutex_);
    true_after_[id] = questions;
  }
  bool WaitForQuestions(const std::string& id, int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return asked_[id] >= count; });
  }
  int Asked(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return asked_[id];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> asked_;
  std::map<std::string, int> true_after_;
};

class WatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    exits_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ExitWatcher::Callbacks callbacks;
    callbacks.resolve = [this](const std::string& id) {
      // As when a container is adopted that is found to have ended.
      if (id == "adopted" && answers_.Asked(id) == 0) watcher_->Ask(id);
      return answers_.Resolve(id);
    };
    callbacks.read_hints = [](int watch) {
      uint64_t count = 0;
      return ::read(watch, &count, sizeof count) > 0 ? std::vector<std::string>{"hinted"}
                                                     : std::vector<std::string>{};
    };
    auto watcher = ExitWatcher::Start(UniqueFd(exits_), std::move(callbacks));
    ASSERT_TRUE(watcher) << watcher.error().message();
    watcher_ = std::move(*watcher);
  }

  Answers answers_;
  const SleepingProcess first_, second_;
  int exits_ = -1;
  std::unique_ptr<ExitWatcher> watcher_;
};

TEST_F(WatcherTest, AsksOnlyAboutTheProcessThatEnded) {
  ASSERT_TRUE(watcher_->Watch("first", std::make_shared<const PidFd>(first_.Open())));
  ASSERT_TRUE(watcher_->Watch("second", std::make_shared<const PidFd>(second_.Open())));
  second_.Kill();
  EXPECT_TRUE(answers_.WaitForQuestions("second", 1));
  EXPECT_EQ(answers_.Asked("first"), 0);
}

TEST_F(WatcherTest, KeepsAskingUntilTheEndIsKnown) {
  answers_.TrueAfter("first", 4);
  ASSERT_TRUE(watcher_->Watch("first", std::make_shared<const PidFd>(first_.Open())));
  first_.Kill();
  EXPECT_TRUE(answers_.WaitForQuestions("first", 4));
  watcher_->Ask("later");
  EXPECT_TRUE(answers_.WaitForQuestions("later", 1));
  EXPECT_EQ(answers_.Asked("first"), 4);
}

// The new question was once dropped with the old one.
TEST_F(WatcherTest, AQuestionThatIsAskedAnewWhileItIsAnsweredIsAsked) {
  watcher_->Ask("adopted");
  EXPECT_TRUE(answers_.WaitForQuestions("adopted", 2));
}

TEST_F(WatcherTest, PassesOnWhatTheKeeperRecorded) {
  const uint64_t one = 1;
  ASSERT_EQ(::write(exits_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  EXPECT_TRUE(answers_.WaitForQuestions("hinted", 1));
}

}  // namespace
}  // namespace holdfast::runtime
