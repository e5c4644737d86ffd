// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/keeper_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace holdfast::runtime {
namespace {

// A process that ends when it is killed, or with this object.
class Holder {
 public:
  Holder() : pid_(::fork()) {
    if (pid_ == 0) {
      ::pause();
      ::_exit(0);
    }
  }
  ~Holder() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  PidFd Open() const { return PidFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0))); }
  void Kill() const { ::kill(pid_, SIGKILL); }

 private:
  const pid_t pid_;
};

class KeeperWatchTest : public ::testing::Test {
 protected:
  void Start(PidFd holder) {
    auto watch = KeeperWatch::Start(std::move(holder), [this] {
      const std::lock_guard lock(mutex_);
      ++revivals_;
      changed_.notify_all();
      return revivals_ < from_ ? PidFd() : next_.Open();
    });
    ASSERT_TRUE(watch) << watch.error().message();
    watch_ = std::move(*watch);
  }
  bool WaitForRevivals(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return revivals_ >= count; });
  }

  const Holder first_, next_;  // before any thread
  std::mutex mutex_;           // guards what follows
  std::condition_variable changed_;
  int revivals_ = 0;
  int from_ = 1;  // the revival that brings it back
  std::unique_ptr<KeeperWatch> watch_;
};

TEST_F(KeeperWatchTest, RevivesTheKeeperWheneverItsHolderEnds) {
  Start(first_.Open());
  {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(revivals_, 0) << "it lives";
  }
  first_.Kill();
  EXPECT_TRUE(WaitForRevivals(1));
  next_.Kill();
  EXPECT_TRUE(WaitForRevivals(2));
}

TEST_F(KeeperWatchTest, TriesAgainUntilThereIsAHolder) {
  from_ = 3;
  Start(PidFd());
  EXPECT_TRUE(WaitForRevivals(3));
}

}  // namespace
}  // namespace holdfast::runtime
