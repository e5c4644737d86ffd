// SPDX-License-Identifier: Apache-2.0
// Hooks as operations: how they end, how they are given up, what is told.
#include "agent/pod/operate/hook.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "holdfast/base/strings.h"
#include "tests/fakes/fake_exec_runtime.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/probe/servers.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;
using test_support::PlainServer;
using How = OperationEnd::How;

class HookTest : public testing::Test {
 protected:
  void SetUp() override {
    auto pool = LanePool::Start(std::vector<size_t>(kPodLanes, 1));
    auto runner = CheckRunner::Start(runtime_);
    ASSERT_TRUE(pool && runner);
    pool_ = std::move(*pool);
    runner_ = std::move(*runner);
    operations_ = std::make_unique<PodOperations>(*pool_, clock_, [this] {
      const std::lock_guard lock(mutex_);
      ++pokes_;
      poked_.notify_all();
    });
  }
  void TearDown() override {
    runner_.reset();
    pool_->Stop();
  }

  Action Begin(const std::string& handler, std::chrono::nanoseconds slept = seconds(0)) {
    auto pod = std::make_shared<corev1::Pod>();
    pod->mutable_metadata()->set_name("web");
    pod->mutable_metadata()->set_namespace_("default");
    pod->mutable_metadata()->set_uid("u1");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat(R"(containers { name: "app" lifecycle { preStop { )", handler, " } } }"),
        pod->mutable_spec()));
    const Action action{Action::Kind::kPreStop, "app", runtime_.container, 0, 0};
    const HookInput input{pod, action, "127.0.0.1", slept, [this] { ++sleeps_given_up_; }};
    operations_->BeginElsewhere(action, [&](PodOperations::Ended ended) {
      return BeginHook(*runner_, input, std::move(ended));
    });
    return action;
  }
  OperationEnd End() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(poked_.wait_for(lock, seconds(20), [this] { return pokes_ > 0; }));
    pokes_ = 0;
    auto ended = operations_->Take().ended;
    EXPECT_EQ(ended.size(), 1u);
    return ended.empty() ? OperationEnd{} : ended[0];
  }

  SystemClock clock_;
  FakeExecRuntime runtime_;
  std::mutex mutex_;
  std::condition_variable poked_;
  int pokes_ = 0;
  std::atomic<int> sleeps_given_up_ = 0;
  std::unique_ptr<LanePool> pool_;
  std::unique_ptr<CheckRunner> runner_;
  std::unique_ptr<PodOperations> operations_;
};

TEST_F(HookTest, AProgramThatSucceeds) {
  const Action action = Begin(R"(exec { command: "true" })");
  const OperationEnd end = End();
  EXPECT_EQ(end.how, How::kDone);
  EXPECT_EQ(end.action, action);
  EXPECT_TRUE(operations_->Take().under_way.empty());
}

TEST_F(HookTest, AProgramThatFailsIsShownAsByAKubelet) {
  Begin(R"(exec { command: "sh" command: "-c" command: "echo no; exit 3" })");
  const OperationEnd end = End();
  EXPECT_EQ(end.how, How::kFailed);
  EXPECT_EQ(end.error,
            "Exec lifecycle hook ([sh -c echo no; exit 3]) for Container \"app\" in Pod "
            "\"web_default(u1)\" failed - error: command 'sh -c echo no; exit 3' exited with 3: "
            "no\n, message: \"no\n\"");
}

TEST_F(HookTest, AProgramWhoseExitCodeIsLostRunsAgain) {
  runtime_.exits_to_lose = 2;
  Begin(R"(exec { command: "true" })");
  EXPECT_EQ(End().how, How::kDone);
  EXPECT_EQ(runtime_.exits_to_lose, 0);
  runtime_.exits_to_lose = 1;
  Begin(R"(exec { command: "false" })");
  EXPECT_EQ(End().how, How::kFailed) << "how it ended at last";
}

TEST_F(HookTest, WhateverAServerAnswersIsSuccess) {
  const PlainServer server({"HTTP/1.1 500 Oh\r\n\r\n"});
  Begin(StrCat(R"(httpGet { path: "/bye" port { intVal: )", server.port(), " } }"));
  EXPECT_EQ(End().how, How::kDone);
  EXPECT_NE(server.asked().at(0).find("User-Agent: kube-lifecycle/1.36"), std::string::npos);
}

TEST_F(HookTest, HttpsFallsBackToHttpWithoutTheSecretAndTells) {
  const PlainServer server({"HTTP/1.1 400 No TLS\r\n\r\n"});
  Begin(
      StrCat(R"(httpGet { path: "/" scheme: "HTTPS" httpHeaders { name: "authorization" value: "s" }
               httpHeaders { name: "X" value: "y" } port { intVal: )",
             server.port(), " } }"));
  const OperationEnd end = End();
  EXPECT_EQ(end.how, How::kDone);
  ASSERT_EQ(end.events.size(), 1u);
  EXPECT_EQ(end.events[0].reason, "LifecycleHTTPFallback");
  EXPECT_EQ(end.events[0].message,
            StrCat("request to HTTPS lifecycle hook 127.0.0.1:", server.port(),
                   " got HTTP response, retry with HTTP succeeded"));
  EXPECT_NE(server.asked().back().find("X: y"), std::string::npos);
  EXPECT_EQ(server.asked().back().find("authorization"), std::string::npos);
}

TEST_F(HookTest, ASleepThatBeganEarlierIsShorter) {
  const auto begin = std::chrono::steady_clock::now();
  Begin("sleep { seconds: 1000 }", std::chrono::milliseconds(999'700));
  EXPECT_EQ(End().how, How::kDone);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(300));
}

TEST_F(HookTest, OneThatIsCancelledEndsAtOnce) {
  const Action action = Begin(R"(exec { command: "sleep" command: "1000" })");
  operations_->Cancel(action);
  EXPECT_EQ(End().how, How::kCancelled);
  Begin("sleep { seconds: 0 }");
  EXPECT_EQ(End().how, How::kDone) << "and the next one of that name is another";
}

TEST_F(HookTest, ASleepThatIsGivenUpIsTold) {
  operations_->Cancel(Begin(R"(exec { command: "sleep" command: "1000" })"));
  EXPECT_EQ(End().how, How::kCancelled);
  const Action action = Begin("sleep { seconds: 0 }");
  EXPECT_EQ(End().how, How::kDone);
  operations_->Cancel(action);
  EXPECT_EQ(sleeps_given_up_, 0) << "one that ended, and a program";
  operations_->Cancel(Begin("sleep { seconds: 1000 }"));
  EXPECT_EQ(End().how, How::kCancelled);
  EXPECT_TRUE(test_support::Eventually([this] { return sleeps_given_up_ == 1; }));
}

TEST_F(HookTest, ATcpSocketIsNoHook) {
  Begin("tcpSocket { port { intVal: 1 } }");
  EXPECT_EQ(End().error, "Cannot run handler: invalid handler");
}

}  // namespace
}  // namespace holdfast::agent
