// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/log/attachments.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace holdfast::runtime::keeper {
namespace {

struct Pipe {
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  std::string Take(size_t most) const {
    std::string bytes(most, '\0');
    const ssize_t count = ::read(read.get(), bytes.data(), most);
    bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return bytes;
  }
  void Give(const std::string& bytes) const {
    ASSERT_EQ(::write(write.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  UniqueFd read;
  UniqueFd write;
};

class AttachmentsTest : public ::testing::Test {
 protected:
  // As the logger: copies, then takes what may be taken.
  std::string Turn() {
    const auto allowed = attached_.Copy(container_.read.get());
    waits_for_ = allowed.wait_for;
    ended_ = allowed.ended;
    const std::string taken = allowed.bytes == 0 ? "" : container_.Take(allowed.bytes);
    attached_.Taken(taken.size());
    return taken;
  }
  Pipe container_;
  Attachments attached_;
  int waits_for_ = -1;
  bool ended_ = false;
};

TEST_F(AttachmentsTest, EverybodyGetsWhatTheLogGets) {
  Pipe first;
  Pipe second;
  attached_.Add(std::move(first.write));
  attached_.Add(std::move(second.write));
  container_.Give("prompt> ");
  EXPECT_EQ(Turn(), "prompt> ");
  EXPECT_EQ(first.Take(100), "prompt> ");
  EXPECT_EQ(second.Take(100), "prompt> ");
  EXPECT_EQ(Turn(), "");
  EXPECT_EQ(waits_for_, -1);  // there is nothing
  container_.write.Reset();
  EXPECT_EQ(Turn(), "");
  EXPECT_TRUE(ended_);
}

TEST_F(AttachmentsTest, NothingIsTakenThatSomebodyDidNotGet) {
  Pipe quick;
  Pipe slow;
  (void)::fcntl(slow.write.get(), F_SETPIPE_SZ, 4096);
  const int slow_end = slow.write.get();
  attached_.Add(std::move(quick.write));
  attached_.Add(std::move(slow.write));
  std::string sent;
  std::string logged;
  std::string seen_quick;
  std::string seen_slow;
  for (int round = 0; round < 50; ++round) {
    const std::string piece = std::to_string(round) + std::string(3000, 'x');
    if (waits_for_ < 0) {
      container_.Give(piece);
      sent += piece;
    }
    logged += Turn();
    if (waits_for_ >= 0) {
      EXPECT_EQ(waits_for_, slow_end);
      seen_slow += slow.Take(100'000);
    }
    seen_quick += quick.Take(100'000);
  }
  for (int i = 0; i < 10; ++i) {
    logged += Turn();
    seen_slow += slow.Take(100'000);
    seen_quick += quick.Take(100'000);
  }
  EXPECT_TRUE(logged == sent);
  EXPECT_TRUE(seen_quick == sent);
  EXPECT_TRUE(seen_slow == sent);
}

TEST_F(AttachmentsTest, WhoHasGoneHoldsNobodyUpAndIsDropped) {
  (void)std::signal(SIGPIPE, SIG_IGN);  // as the logger does
  Pipe gone;
  Pipe stays;
  const int to_gone = gone.write.get();
  attached_.Add(std::move(gone.write));
  attached_.Add(std::move(stays.write));
  gone.read.Reset();
  container_.Give("x");
  EXPECT_EQ(Turn(), "x");
  EXPECT_EQ(stays.Take(100), "x");
  attached_.Drop(to_gone);
  EXPECT_EQ(::fcntl(to_gone, F_GETFD), -1) << "closed";
  EXPECT_FALSE(attached_.empty());
}

}  // namespace
}  // namespace holdfast::runtime::keeper
