// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/session_loop.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <thread>

namespace holdfast::agent::api {
namespace {

struct KeptSession : LoopSession {
  void AgentStops() override { has_heard = true; }
  bool has_heard = false;
};

// A session that was let go keeps itself, and its program, until then.
TEST(SessionLoopTest, EverySessionHearsOfTheEndThoughTheLoopIsBusy) {
  SessionLoop loop(1, 1);
  ASSERT_TRUE(loop.Start());
  const auto session = std::make_shared<KeptSession>();
  const auto place = loop.Enter(SessionKind::kCommand, session);
  ASSERT_TRUE(place);
  boost::asio::post(loop.executor(),
                    [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
  loop.EndAll();
  loop.Finish();
  EXPECT_TRUE(session->has_heard);
}

}  // namespace
}  // namespace holdfast::agent::api
