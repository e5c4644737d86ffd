// SPDX-License-Identifier: Apache-2.0
// How many connections a user may have, and who has to go when there is one more.
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "tests/support/raw_http2.h"
#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::RawHttp2;

class ConnectionsTest : public ServerFixture {
 protected:
  using Clients = std::vector<std::unique_ptr<RawHttp2>>;

  void SetUp() override {
    options_.connection_reserve = reserve_;
    ServerFixture::SetUp();
    stub_.reset();  // its connection would count too
    pods_.SetPod(RunningPod("web-node1", "uid-web"));
  }
  Clients Connect(size_t count) {
    Clients clients;
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<RawHttp2>(options_.socket_path));
      EXPECT_TRUE(clients.back()->connected());
    }
    return clients;
  }
  // One call on stream 1, by hand.
  static bool Begin(RawHttp2& client, const char* method) {
    return client.Greet() &&
           client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, 1,
                       RawHttp2::CallHeaders(method)) &&
           client.Send(RawHttp2::kData, RawHttp2::kEndStream, 1, RawHttp2::Message("")) &&
           client.Await([](const RawHttp2::Frame& f) { return f.type == RawHttp2::kData; });
  }
  static bool AwaitEndOfCall(RawHttp2& client) {
    return client
        .Await([](const RawHttp2::Frame& f) {
          return f.type == RawHttp2::kHeaders && (f.flags & RawHttp2::kEndStream) != 0;
        })
        .has_value();
  }
  bool IsServed() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(2));
    v1::VersionResponse version;
    return NewStub()->Version(&context, v1::VersionRequest(), &version).ok();
  }
  uint32_t reserve_ = 0;
  std::string Full() const {
    return StrCat("too many connections of uid ", ::geteuid(), ", limit ",
                  options_.connections_per_uid);
  }
};

class ReserveTest : public ConnectionsTest {
 protected:
  ReserveTest() {
    options_.connections_per_uid = 4;
    reserve_ = 2;
  }
};

TEST_F(ConnectionsTest, SilentOnesMakeRoom) {
  const Clients silent = Connect(options_.connections_per_uid);
  EXPECT_TRUE(IsServed());
  // The first to come was the longest unused.
  EXPECT_EQ(silent.front()->AwaitGoaway(), Full() + ": the longest unused makes room");
  EXPECT_TRUE(silent.front()->AwaitEnd());
}

TEST_F(ConnectionsTest, SoDoThoseWhoseCallsAreOver) {
  const Clients idle = Connect(options_.connections_per_uid);
  for (const auto& client : idle) {
    ASSERT_TRUE(Begin(*client, "Version"));
    ASSERT_TRUE(AwaitEndOfCall(*client));
  }
  EXPECT_TRUE(IsServed());
  EXPECT_NE(idle.front()->AwaitGoaway(), "");
  // One is enough: the others are as they were.
  EXPECT_EQ(idle.back()->AwaitGoaway(std::chrono::milliseconds(100)), "");
}

TEST_F(ConnectionsTest, MoreThanTheLimitAreNeverServed) {
  Clients clients = Connect(options_.connections_per_uid + 20);
  size_t ended = 0;
  for (const auto& client : clients) {
    if (ended < 20 && !client->AwaitGoaway(std::chrono::seconds(2)).empty()) ++ended;
  }
  EXPECT_EQ(ended, 20u);
}

TEST_F(ConnectionsTest, OnesAtWorkStayAndTheNewcomerIsToldWhoTheyAre) {
  const Clients watchers = Connect(options_.connections_per_uid);
  for (const auto& client : watchers) ASSERT_TRUE(Begin(*client, "WatchPods"));
  RawHttp2 newcomer(options_.socket_path);
  EXPECT_EQ(newcomer.AwaitGoaway(),
            StrCat(Full(), "; all have calls at work, ", options_.connections_per_uid,
                   " of them are of process ", ::getpid(), ": end some"));
  EXPECT_TRUE(newcomer.AwaitEnd());
  EXPECT_TRUE(
      Eventually([&] { return AuditText().find("all have calls at work") != std::string::npos; }));
  pods_.SetPod(RunningPod("web-node1", "uid-web"));
  for (const auto& client : watchers) {
    ASSERT_TRUE(client->Await([](const RawHttp2::Frame& f) { return f.type == RawHttp2::kData; }));
  }
}

class IdleConnectionsTest : public ConnectionsTest {
 protected:
  IdleConnectionsTest() {
    EXPECT_EQ(options_.connection_idle, std::chrono::minutes(5)) << "docs/api.md";
    options_.connection_idle = std::chrono::milliseconds(500);
  }
};

TEST_F(IdleConnectionsTest, OnesWithoutACallAreClosedAfterAWhile) {
  const Clients clients = Connect(2);
  ASSERT_TRUE(Begin(*clients[0], "WatchPods"));
  ASSERT_TRUE(Begin(*clients[1], "Version"));
  ASSERT_TRUE(AwaitEndOfCall(*clients[1]));
  EXPECT_TRUE(clients[1]->AwaitEnd());
  EXPECT_FALSE(clients[0]->AwaitEnd(std::chrono::seconds(1))) << "its call goes on";
}

// 64 followed logs once locked their user out.
TEST_F(ReserveTest, WhoHasAllConnectionsAtWorkIsStillServed) {
  const Clients watchers = Connect(options_.connections_per_uid);
  for (const auto& client : watchers) ASSERT_TRUE(Begin(*client, "WatchPods"));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(IsServed()) << i;
}

TEST_F(ReserveTest, TheLongestThereOfTheReserveMakesRoomButNotAtOnce) {
  Clients all;
  for (size_t i = 0; i < options_.connections_per_uid + options_.connection_reserve; ++i) {
    all.push_back(std::move(Connect(1).front()));
    ASSERT_TRUE(Begin(*all.back(), "WatchPods")) << i;
  }
  RawHttp2 early(options_.socket_path);
  EXPECT_NE(early.AwaitGoaway().find("all have calls at work"), std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_TRUE(IsServed());
  EXPECT_NE(all[options_.connections_per_uid]->AwaitGoaway().find("makes room for the next"),
            std::string::npos);
  // Those within the limit, and the other one of the reserve, are as they were.
  EXPECT_EQ(all.front()->AwaitGoaway(std::chrono::milliseconds(100)), "");
  EXPECT_EQ(all.back()->AwaitGoaway(std::chrono::milliseconds(100)), "");
}

TEST_F(ConnectionsTest, DescriptorsThatAreSentAlongAreDropped) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  RawHttp2 client(options_.socket_path);
  std::string greeting(RawHttp2::kPreface);
  greeting += RawHttp2::Encode(RawHttp2::kSettings, 0, 0);
  iovec part{.iov_base = greeting.data(), .iov_len = greeting.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  *reinterpret_cast<int*>(CMSG_DATA(header)) = writer.get();
  ASSERT_EQ(::sendmsg(client.fd(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(greeting.size()));
  writer.Reset();
  // Nobody has the other end any more, and the connection is as good as any.
  char byte = 0;
  EXPECT_TRUE(Eventually([&] { return ::read(reader.get(), &byte, 1) == 0; }));
  EXPECT_TRUE(client.Await([](const RawHttp2::Frame& f) { return f.type == RawHttp2::kSettings; }));
}

}  // namespace
}  // namespace holdfast::agent
