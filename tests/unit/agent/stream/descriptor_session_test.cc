// SPDX-License-Identifier: Apache-2.0
// A session between real programs and sockets and a peer without a transport. Everything of it is on the
// executor's thread; what blocks has threads of its own.
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/stream/descriptor_session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/stream/dial.h"
#include "tests/fakes/fake_exec_runtime.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kPatience{20};

// Keeps what it is told; takes output at once unless it is told to be slow.
class Listener : public StreamPeer {
 public:
  void Write(StreamOutput output, std::string bytes) override {
    const std::lock_guard lock(mutex_);
    (output == StreamOutput::kStderr ? err_ : out_) += bytes;
    ++writes_;
    changed_.notify_all();
    if (!slow) session->Taken(output);
  }
  void ReadOn() override {
    Note([this] { read_on_ = true; });
  }
  void Finish(const StreamEnd& end) override {
    Note([&] { end_ = end; });
  }

  bool AwaitReadOn() {
    return Await([this] { return read_on_; });
  }
  bool AwaitOutput(const std::string& text) {
    return Await([&] { return out_.find(text) != std::string::npos; });
  }
  // Nothing when it does not come.
  std::optional<StreamEnd> AwaitEnd() {
    (void)Await([this] { return end_.has_value(); });
    const std::lock_guard lock(mutex_);
    return end_;
  }
  int writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  std::string out() {
    const std::lock_guard lock(mutex_);
    return out_;
  }
  std::string err() {
    const std::lock_guard lock(mutex_);
    return err_;
  }

  bool slow = false;  // before the session runs
  std::shared_ptr<DescriptorSession> session;

 private:
  template <class Change>
  void Note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <class Condition>
  bool Await(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string out_;
  std::string err_;
  int writes_ = 0;
  bool read_on_ = false;
  std::optional<StreamEnd> end_;
};

class DescriptorSessionTest : public ::testing::Test {
 protected:
  DescriptorSessionTest() {
    (void)std::signal(SIGPIPE, SIG_IGN);
    listener_.session = DescriptorSession::Make(
        io_.get_executor(),
        [this](std::function<void()> job) {
          const std::lock_guard lock(mutex_);
          blocking_.emplace_back(std::move(job));
        },
        listener_);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~DescriptorSessionTest() override {
    On([this] { listener_.session->Close(); });
    for (bool more = true; more;) {
      std::vector<std::thread> jobs;
      {
        const std::lock_guard lock(mutex_);
        jobs.swap(blocking_);
      }
      more = !jobs.empty();
      for (std::thread& job : jobs) job.join();
      On([] {});  // what they posted
    }
    work_.reset();
    io_.stop();
    thread_.join();
  }

  // On the executor; when it returns it was done.
  template <class Work>
  void On(Work work) {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    asio::post(io_, [&] {
      work();
      const std::lock_guard lock(mutex);
      done = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  bool Feed(const std::string& bytes) {
    bool more = false;
    On([&] { more = session().Feed(bytes); });
    return more;
  }
  void Run(const std::string& script, std::shared_ptr<void> kept = nullptr) {
    On([&] {
      session().Open([this, script, kept]() -> Result<SessionEnds> {
        ExecSpec spec;
        spec.argv = {"sh", "-c", script};
        spec.stdin_open = true;
        ASSIGN_OR_RETURN(auto program, runtime_.Exec(ContainerId("c0ffee"), spec));
        ASSIGN_OR_RETURN(SessionEnds ends, EndsOfProgram(std::move(program), spec));
        ends.kept = kept;
        return ends;
      });
    });
  }
  DescriptorSession& session() { return *listener_.session; }

  FakeExecRuntime runtime_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  Listener listener_;
  std::mutex mutex_;
  std::vector<std::thread> blocking_;
  std::thread thread_;
};

TEST_F(DescriptorSessionTest, MovesInputOutputAndTheExitCode) {
  EXPECT_TRUE(Feed("hello "));  // before it is open
  Run("cat; echo oh >&2; exit 7");
  EXPECT_TRUE(Feed("world"));
  On([this] { session().EndInput(); });
  const auto end = listener_.AwaitEnd();
  ASSERT_TRUE(end && end->exit);
  EXPECT_EQ(end->exit->exit_code, 7);
  EXPECT_EQ(listener_.out(), "hello world");
  EXPECT_EQ(listener_.err(), "oh\n");
}

TEST_F(DescriptorSessionTest, HoldsNoMoreInputThanItsBoundAndSaysWhenThereIsRoom) {
  const std::string much(StreamSession::kMaxInput, 'x');
  EXPECT_FALSE(Feed(much));
  Run("wc -c");
  EXPECT_TRUE(listener_.AwaitReadOn());
  On([this] { session().EndInput(); });
  ASSERT_TRUE(listener_.AwaitEnd());
  EXPECT_NE(listener_.out().find(std::to_string(much.size())), std::string::npos);
}

TEST_F(DescriptorSessionTest, OnePieceOfOutputIsUnderWay) {
  listener_.slow = true;
  Run("exec yes");
  EXPECT_TRUE(listener_.AwaitOutput("y\n"));
  std::this_thread::sleep_for(
      std::chrono::milliseconds(100));  // for a second one, if there were any
  EXPECT_EQ(listener_.writes(), 1);
}

TEST_F(DescriptorSessionTest, ASignalReachesTheProgramThatStartsLater) {
  On([this] { session().Signal(SIGTERM); });
  Run("exec sleep 60");
  const auto end = listener_.AwaitEnd();
  ASSERT_TRUE(end && end->exit);
  EXPECT_EQ(end->exit->exit_code, 128 + SIGTERM);
}

TEST_F(DescriptorSessionTest, WhatIsKeptIsLetGoOfAfterTheSessionAndNotBefore) {
  const auto kept = std::make_shared<int>(0);
  Run("read line", kept);
  EXPECT_TRUE(Feed("\n"));
  ASSERT_TRUE(listener_.AwaitEnd());
  On([] {});
  for (int i = 0; i < 2000 && kept.use_count() > 1; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // it goes on another thread
  }
  EXPECT_EQ(kept.use_count(), 1);
}

TEST_F(DescriptorSessionTest, ClosingKillsTheProgram) {
  Run("echo $$; exec sleep 60");
  EXPECT_TRUE(listener_.AwaitOutput("\n"));
  const pid_t pid = std::stoi(listener_.out());
  On([this] { session().Close(); });
  for (int i = 0; i < 2000 && ::kill(pid, 0) == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));  // killed on another thread
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_F(DescriptorSessionTest, TheEndOfInputIsTheEndOfOneDirectionOfASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd other(ends[1]);
  On([&] { session().Open([&] { return EndsOfSocket(UniqueFd(ends[0])); }); });
  EXPECT_TRUE(Feed("ping"));
  On([this] { session().EndInput(); });
  char bytes[8] = {};
  ASSERT_EQ(::recv(other.get(), bytes, 4, MSG_WAITALL), 4);
  EXPECT_EQ(::recv(other.get(), bytes, sizeof bytes, 0), 0);
  ASSERT_EQ(::send(other.get(), "pong", 4, MSG_NOSIGNAL), 4);
  EXPECT_TRUE(listener_.AwaitOutput("pong"));
  ASSERT_EQ(::shutdown(other.get(), SHUT_WR), 0);
  const auto end = listener_.AwaitEnd();
  ASSERT_TRUE(end);
  EXPECT_FALSE(end->error);
}

}  // namespace
}  // namespace holdfast::agent
