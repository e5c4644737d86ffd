// SPDX-License-Identifier: Apache-2.0
// A CheckRunner, and one check at a time.
#pragma once

#include "agent/probe/check_runner.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_exec_runtime.h"
#include "tests/unit/agent/probe/servers.h"

namespace holdfast::agent {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test_support::PlainServer;
using enum CheckOutcome::How;

class CheckRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto runner = CheckRunner::Start(runtime_);
    ASSERT_TRUE(runner);
    runner_ = std::move(*runner);
  }

  CheckOutcome Run(const Check& check,
                   std::optional<std::chrono::nanoseconds> limit = seconds(20)) {
    std::promise<CheckOutcome> promise;
    auto outcome = promise.get_future();
    std::unique_ptr<RunningCheck> running;
    runner_->Post([&] {
      running = runner_->Begin(check, limit, [&](CheckOutcome out) { promise.set_value(out); });
    });
    EXPECT_EQ(outcome.wait_for(seconds(30)), std::future_status::ready);
    OnRunner([&] { running.reset(); });
    return outcome.get();
  }
  void OnRunner(const std::function<void()>& job) {
    std::promise<void> done;
    runner_->Post([&] {
      job();
      done.set_value();
    });
    done.get_future().wait();
  }
  CheckOutcome Exec(std::vector<std::string> argv, std::chrono::nanoseconds limit = seconds(20)) {
    return Run(ExecCheck{runtime_.container, std::move(argv)}, limit);
  }
  static HttpCheck Get(const PlainServer& server, std::string path = "/") {
    HttpCheck check;
    check.host = "127.0.0.1";
    check.port = server.port();
    check.path = std::move(path);
    check.headers = {{"User-Agent", "kube-probe/1.36"}, {"Accept", "*/*"}};
    return check;
  }
  // A port on which nobody listens.
  static uint16_t DeadPort() {
    boost::asio::io_context io;
    boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
    return acceptor.local_endpoint().port();
  }

  FakeExecRuntime runtime_;
  std::unique_ptr<CheckRunner> runner_;
};

}  // namespace holdfast::agent
