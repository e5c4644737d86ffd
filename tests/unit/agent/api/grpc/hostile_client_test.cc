// SPDX-License-Identifier: Apache-2.0
// Clients with a role that speak HTTP/2 against the server: each attack is sent as raw frames; the
// agent's memory stays, and others are served meanwhile (catalogue row AP-07).
#include <string>
#include <vector>

#include "tests/support/raw_http2.h"
#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::RawHttp2;

constexpr size_t kMiB = 1 << 20;
// What may stay after an attack: arenas of gRPC's and our threads, not what was sent.
constexpr size_t kAllowedGrowth = 48 * kMiB;

class HostileClientTest : public ServerFixture {
 protected:
  void SetUp() override {
    options_.handshake_time = std::chrono::seconds(5);
    ServerFixture::SetUp();
    pods_.SetPod(RunningPod("web-node1", "uid-web"));
    ASSERT_TRUE(IsServed());
    before_ = ResidentBytes();
  }

  // A client of its own gets an answer.
  bool IsServed() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::VersionResponse version;
    return NewStub()->Version(&context, v1::VersionRequest(), &version).ok();
  }
  void ExpectSmall() {
    const size_t now = ResidentBytes();
    EXPECT_LT(now, before_ + kAllowedGrowth)
        << "grew by " << (now - std::min(now, before_)) / kMiB << " MiB";
    RecordProperty("grown_mib", static_cast<int>((now - std::min(now, before_)) / kMiB));
  }

  size_t before_ = 0;
};

TEST_F(HostileClientTest, AHeaderBlockWithoutEndIsCutOff) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet());
  // One field whose value would be 256 MiB long: gRPC 1.51 keeps all that has come of it.
  std::string field("\0\x01x\x7f", 4);
  for (uint32_t length = (256 << 20) - 127; length > 0; length >>= 7) {
    field += static_cast<char>((length & 0x7f) | (length >> 7 != 0 ? 0x80 : 0));
  }
  ASSERT_TRUE(client.Send(RawHttp2::kHeaders, 0, 1, field));
  const std::string piece =
      RawHttp2::Encode(RawHttp2::kContinuation, 0, 1, std::string(16384, 'a'));
  size_t sent = 0;
  size_t largest = 0;
  while (sent < 2048 && client.Send(piece)) {
    if (++sent % 64 == 0) largest = std::max(largest, ResidentBytes());
  }
  EXPECT_LT(largest, before_ + kAllowedGrowth);
  EXPECT_NE(client.AwaitGoaway().find("a header block of more than 65536 bytes"),
            std::string::npos);
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_TRUE(IsServed());
  ExpectSmall();
}

TEST_F(HostileClientTest, AHeaderBlockOfEmptyFramesIsCutOff) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet());
  ASSERT_TRUE(client.Send(RawHttp2::kHeaders, 0, 1, RawHttp2::CallHeaders("Version")));
  const std::string empty = RawHttp2::Encode(RawHttp2::kContinuation, 0, 1);
  for (int i = 0; i < 100'000 && client.Send(empty); ++i) {
  }
  EXPECT_NE(client.AwaitGoaway().find("or 16 frames"), std::string::npos);
  EXPECT_TRUE(client.AwaitEnd());
}

// What HPACK makes of a small block: one field of 3900 bytes, and then its number 60,000 times.
TEST_F(HostileClientTest, AHeaderBlockThatUnpacksToMuchIsRefused) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet());
  for (uint32_t stream = 1; stream < 200; stream += 2) {
    // 0x40: with a place in the table, which is then number 62.
    std::string field = RawHttp2::Literal("x", std::string(3900, 'a'));
    field[0] = '\x40';
    const std::string block =
        RawHttp2::CallHeaders("Version") + field + std::string(12'000, '\xbe');
    if (!client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders | RawHttp2::kEndStream, stream,
                     block)) {
      break;
    }
    (void)client.Await([&](const RawHttp2::Frame& f) { return f.stream == stream; },
                       std::chrono::seconds(2));
  }
  EXPECT_TRUE(IsServed());
  ExpectSmall();
}

TEST_F(HostileClientTest, RapidResetsEndTheConnection) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet());
  const std::string headers = RawHttp2::CallHeaders("ListPods");
  const std::string cancel = RawHttp2::Number(8);
  uint32_t sent = 0;
  for (; sent < 100'000; ++sent) {
    const uint32_t stream = 2 * sent + 1;
    if (!client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream, headers) ||
        !client.Send(RawHttp2::kRstStream, 0, stream, cancel)) {
      break;
    }
  }
  EXPECT_LT(sent, 100'000u);
  EXPECT_NE(client.AwaitGoaway().find("too many frames that carry nothing"), std::string::npos);
  EXPECT_TRUE(IsServed());
  ExpectSmall();
}

// Read by nobody: each of them asks for an answer.
TEST_F(HostileClientTest, FloodsOfControlFramesEndTheConnection) {
  const std::string setting = RawHttp2::Number(4, 2) + RawHttp2::Number(65535);
  const std::vector<std::string> floods = {
      RawHttp2::Encode(RawHttp2::kSettings, 0, 0, setting),
      RawHttp2::Encode(RawHttp2::kPing, 0, 0, "12345678"),
      RawHttp2::Encode(RawHttp2::kPriority, 0, 1, RawHttp2::Number(3) + "a"),
      RawHttp2::Encode(RawHttp2::kWindowUpdate, 0, 0, RawHttp2::Number(1)),
  };
  for (const std::string& frame : floods) {
    RawHttp2 client(options_.socket_path);
    ASSERT_TRUE(client.Greet());
    int sent = 0;
    while (sent < 200'000 && client.Send(frame, true)) ++sent;
    EXPECT_LT(sent, 200'000) << "frame type " << int{frame[3]};
    EXPECT_TRUE(client.AwaitEnd()) << "frame type " << int{frame[3]};
  }
  EXPECT_TRUE(IsServed());
  ExpectSmall();
}

// gRPC 1.51 counts streams against its limit only once its SETTINGS are acknowledged.
TEST_F(HostileClientTest, CallsAtOnceAreCountedBeforeSettingsAreAcknowledged) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet(false));
  const std::string headers = RawHttp2::CallHeaders("Apply");
  uint32_t sent = 0;
  while (sent < 5000 &&
         client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, 2 * sent + 1, headers)) {
    ++sent;
  }
  EXPECT_NE(client.AwaitGoaway().find("more than 128 calls at once"), std::string::npos);
  EXPECT_TRUE(client.AwaitEnd());
  EXPECT_TRUE(IsServed());
  ExpectSmall();
}

TEST_F(HostileClientTest, AsManyCallsAsAreAllowedAreServed) {
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet());
  constexpr uint32_t kCalls = 1280;  // ten times what may be open: each ends before another begins
  uint32_t answered = 0;
  for (uint32_t i = 0; i < kCalls; ++i) {
    const uint32_t stream = 2 * i + 1;
    ASSERT_TRUE(client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream,
                            RawHttp2::CallHeaders("Version")));
    ASSERT_TRUE(client.Send(RawHttp2::kData, RawHttp2::kEndStream, stream, RawHttp2::Message("")));
    if (i < 127) continue;
    const auto ended = client.Await([](const RawHttp2::Frame& f) {
      return f.type == RawHttp2::kHeaders && (f.flags & RawHttp2::kEndStream) != 0;
    });
    ASSERT_TRUE(ended.has_value()) << "after " << answered << " answers";
    ++answered;
  }
  EXPECT_EQ(answered, kCalls - 127);
}

// A message of 4 MiB begun on each of 128 streams, and never ended.
TEST_F(HostileClientTest, MessagesThatNeverEndAreBounded) {
  std::vector<std::unique_ptr<RawHttp2>> clients;
  for (int c = 0; c < 4; ++c) {
    auto client = std::make_unique<RawHttp2>(options_.socket_path);
    ASSERT_TRUE(client->Greet());
    for (uint32_t i = 0; i < 127; ++i) {
      const uint32_t stream = 2 * i + 1;
      std::string call = RawHttp2::Encode(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream,
                                          RawHttp2::CallHeaders("Apply"));
      call += RawHttp2::Encode(RawHttp2::kData, 0, stream,
                               std::string(1, '\0') + RawHttp2::Number(4 << 20));
      const std::string piece =
          RawHttp2::Encode(RawHttp2::kData, 0, stream, std::string(16000, 'a'));
      for (int p = 0; p < 200; ++p) call += piece;
      if (!client->Send(call)) break;
    }
    clients.push_back(std::move(client));
  }
  EXPECT_TRUE(IsServed());
  // gRPC's quota is 128 MiB; what its allocator rounds up comes on top.
  EXPECT_LT(ResidentBytes(), before_ + 256 * kMiB);
  clients.clear();
  EXPECT_TRUE(Eventually([&] { return ResidentBytes() < before_ + kAllowedGrowth; }));
  ExpectSmall();
}

TEST_F(HostileClientTest, AnswersThatAreNotReadAreBounded) {
  for (int i = 0; i < 40; ++i) {
    auto pod = RunningPod("pod-" + std::to_string(i), "uid-" + std::to_string(i));
    (*pod.mutable_metadata()->mutable_annotations())["filler"] = std::string(50'000, 'a');
    pods_.SetPod(std::move(pod));
  }
  before_ = ResidentBytes();
  // SETTINGS_INITIAL_WINDOW_SIZE 1: an answer of 2 MB goes out one byte at a time, or never.
  RawHttp2 client(options_.socket_path);
  ASSERT_TRUE(client.Greet(true, RawHttp2::Number(4, 2) + RawHttp2::Number(1)));
  for (uint32_t i = 0; i < 127; ++i) {
    const uint32_t stream = 2 * i + 1;
    ASSERT_TRUE(client.Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream,
                            RawHttp2::CallHeaders("ListPods")));
    ASSERT_TRUE(client.Send(RawHttp2::kData, RawHttp2::kEndStream, stream, RawHttp2::Message("")));
  }
  // The last has its answer, or its refusal: headers need no window.
  ASSERT_TRUE(client.Await(
      [](const RawHttp2::Frame& f) { return f.type == RawHttp2::kHeaders && f.stream == 253; }));
  // An answer is there twice: as objects, and as bytes.
  EXPECT_LT(ResidentBytes(), before_ + 128 * kMiB);
  // Others get theirs meanwhile, small ones the same user too.
  EXPECT_TRUE(IsServed());
}

TEST_F(HostileClientTest, WatchesThatAreNotReadAreBounded) {
  auto pod = RunningPod("large", "uid-large");
  (*pod.mutable_metadata()->mutable_annotations())["filler"] = std::string(400'000, 'a');
  pods_.SetPod(std::move(pod));
  before_ = ResidentBytes();
  std::vector<std::unique_ptr<RawHttp2>> clients;
  size_t refused = 0;
  for (int c = 0; c < 4; ++c) {
    auto client = std::make_unique<RawHttp2>(options_.socket_path);
    ASSERT_TRUE(client->Greet(true, RawHttp2::Number(4, 2) + RawHttp2::Number(1)));
    for (uint32_t i = 0; i < 127; ++i) {
      const uint32_t stream = 2 * i + 1;
      ASSERT_TRUE(client->Send(RawHttp2::kHeaders, RawHttp2::kEndHeaders, stream,
                               RawHttp2::CallHeaders("WatchPods")));
      ASSERT_TRUE(
          client->Send(RawHttp2::kData, RawHttp2::kEndStream, stream, RawHttp2::Message("")));
    }
    clients.push_back(std::move(client));
  }
  // 508 watches of 400 kB are 200 MB; 32 MiB of them may wait.
  for (const auto& client : clients) {
    while (client->Await(
        [](const RawHttp2::Frame& f) {
          return f.type == RawHttp2::kHeaders && (f.flags & RawHttp2::kEndStream) != 0;
        },
        std::chrono::seconds(1))) {
      ++refused;
    }
  }
  EXPECT_GE(refused, 508u - (32u << 20) / 400'000 - 1);
  EXPECT_LT(ResidentBytes(), before_ + 128 * kMiB) << (ResidentBytes() - before_) / kMiB;
  EXPECT_TRUE(IsServed());
}

TEST_F(HostileClientTest, WhoDoesNotGreetIsNotWaitedFor) {
  RawHttp2 silent(options_.socket_path);
  RawHttp2 half(options_.socket_path);
  ASSERT_TRUE(half.Send(RawHttp2::kPreface.substr(0, 10)));
  RawHttp2 garbage(options_.socket_path);
  ASSERT_TRUE(garbage.Send("GET / HTTP/1.1\r\n\r\n"));
  RawHttp2 other(options_.socket_path);
  ASSERT_TRUE(other.Send(std::string(RawHttp2::kPreface) +
                         RawHttp2::Encode(RawHttp2::kPing, 0, 0, "12345678")));
  EXPECT_TRUE(garbage.AwaitEnd());
  EXPECT_EQ(other.AwaitGoaway(), "the first frame is not SETTINGS");
  EXPECT_EQ(silent.AwaitGoaway(), "no HTTP/2 preface and SETTINGS within 5 s of connecting");
  EXPECT_TRUE(silent.AwaitEnd());
  EXPECT_TRUE(half.AwaitEnd());
}

}  // namespace
}  // namespace holdfast::agent
