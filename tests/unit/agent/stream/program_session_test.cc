// SPDX-License-Identifier: Apache-2.0
// A session between a real program and a peer without a transport.
#include "agent/stream/program_session.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/fake_exec_runtime.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kPatience{20};

// Keeps what it is told; takes output at once unless it is told to be slow.
class Listener : public ProgramPeer {
 public:
  explicit Listener(ProgramSession& session) : session_(session) {}

  bool Write(std::string data, bool is_stderr) override {
    {
      const std::lock_guard lock(mutex_);
      (is_stderr ? err_ : out_) += data;
      ++writes_;
      if (slow_) return true;
    }
    session_.OutputTaken();
    changed_.notify_all();
    return true;
  }
  void ReadOn() override { Note(read_on_); }
  void Detached() override { Note(detached_); }

  void BeSlow() { slow_ = true; }  // before the session runs
  bool AwaitReadOn() {
    return Await([this] { return read_on_; });
  }
  bool AwaitDetached() {
    return Await([this] { return detached_; });
  }
  bool AwaitOutput(const std::string& text) {
    return Await([&] { return out_.find(text) != std::string::npos; });
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

 private:
  void Note(bool& what) {
    {
      const std::lock_guard lock(mutex_);
      what = true;
    }
    changed_.notify_all();
  }
  template <class Condition>
  bool Await(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, condition);
  }

  ProgramSession& session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string out_;
  std::string err_;
  int writes_ = 0;
  bool slow_ = false;
  bool read_on_ = false;
  bool detached_ = false;
};

class ProgramSessionTest : public ::testing::Test {
 protected:
  ProgramSessionTest()
      : stopping_(std::move(*sys::Wakeup::Make())),
        session_(std::move(*ProgramSession::Make(stopping_))),
        listener_(*session_) {}
  ~ProgramSessionTest() override {
    if (!thread_.joinable()) return;
    session_->Cancel();
    thread_.join();
  }

  void Run(const std::string& script) {
    ExecSpec spec;
    spec.argv = {"sh", "-c", script};
    spec.stdin_open = true;
    auto program = runtime_.Exec(ContainerId("c0ffee"), spec);
    ASSERT_TRUE(program) << program.error().message();
    thread_ = std::thread([this, spec, running = std::move(*program)] {
      outcome_ = session_->Run(*running, spec, listener_);
    });
  }
  Result<ProgramSession::Outcome> Join() {
    thread_.join();
    return outcome_;
  }

  sys::Wakeup stopping_;
  FakeExecRuntime runtime_;
  std::unique_ptr<ProgramSession> session_;
  Listener listener_;
  Result<ProgramSession::Outcome> outcome_ = Internal("it did not run");
  std::thread thread_;
};

TEST_F(ProgramSessionTest, MovesInputOutputAndTheExitCode) {
  EXPECT_TRUE(session_->Input("hello "));  // before it runs
  Run("cat; echo oh >&2; exit 7");
  EXPECT_TRUE(session_->Input("world"));
  session_->CloseInput();
  const auto outcome = Join();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->end, ProgramSession::End::kExited);
  EXPECT_EQ(outcome->exit.exit_code, 7);
  EXPECT_EQ(listener_.out(), "hello world");
  EXPECT_EQ(listener_.err(), "oh\n");
}

TEST_F(ProgramSessionTest, HoldsNoMoreInputThanItsBoundAndSaysWhenThereIsRoom) {
  const std::string much(ProgramSession::kMaxInput, 'x');
  EXPECT_FALSE(session_->Input(much));
  Run("wc -c");
  EXPECT_TRUE(listener_.AwaitReadOn());
  session_->CloseInput();
  ASSERT_TRUE(Join());
  EXPECT_NE(listener_.out().find(std::to_string(much.size())), std::string::npos);
}

TEST_F(ProgramSessionTest, OnePieceOfOutputIsUnderWay) {
  listener_.BeSlow();
  Run("exec yes");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(listener_.writes(), 1);
  session_->Cancel();
  const auto outcome = Join();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->end, ProgramSession::End::kCancelled);
}

TEST_F(ProgramSessionTest, ADetachedPeerIsLetGoAndTheProgramRunsOn) {
  Run("read line; exit 3");
  session_->Detach();
  EXPECT_TRUE(listener_.AwaitDetached());
  session_->Cancel();  // who was let go may go
  EXPECT_TRUE(session_->Input("now\n"));
  const auto outcome = Join();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->end, ProgramSession::End::kExited);
  EXPECT_EQ(outcome->exit.exit_code, 3);
}

TEST_F(ProgramSessionTest, EndsWhenTheAgentStops) {
  Run("echo up; exec sleep 60");
  EXPECT_TRUE(listener_.AwaitOutput("up"));
  stopping_.Set();
  const auto outcome = Join();
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->end, ProgramSession::End::kStopping);
}

TEST_F(ProgramSessionTest, ANumberThatIsNoSignalIsRefused) {
  Run("exec sleep 60");
  session_->Signal(4711);
  const auto outcome = Join();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast::agent
