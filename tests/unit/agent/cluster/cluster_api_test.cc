// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/cluster_api.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "k8s/meta/v1/status.pb.h"
#include "tests/fakes/scripted_http_server.h"
#include "tests/unit/agent/cluster/watch_event_bytes.h"

namespace holdfast::agent {
namespace {

using test_support::ScriptedHttpServer;
using Asked = ScriptedHttpServer::Asked;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kProtobuf[] = "application/vnd.kubernetes.protobuf";
const ScriptedHttpServer::Headers kWatchHeaders = {
    {"content-type", "application/vnd.kubernetes.protobuf;stream=watch"}};

// What happened on the API thread, waited for by the test.
class Book {
 public:
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // False after half a minute.
  bool Has(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(30), [&] { return lines_.size() >= count; });
  }
  bool HasOnly(const std::vector<std::string>& lines) {
    Has(lines.size());
    return this->lines() == lines;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

class ClusterApiTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    keys_.emplace(directory_, "IP:127.0.0.1,DNS:localhost");
    options_.version = "1.2";
    options_.first_back_off = milliseconds(5);
    options_.longest_back_off = milliseconds(50);
    options_.rotate_every = milliseconds(20);
  }
  void TearDown() override {
    tickets_.clear();
    api_.reset();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }

  void Serve(ScriptedHttpServer::Script script,
             ScriptedHttpServer::Protocol protocol = ScriptedHttpServer::Protocol::kHttp2) {
    server_.emplace(*keys_, std::move(script), protocol);
    config_.server = StrCat("https://127.0.0.1:", server_->port());
    config_.host = "127.0.0.1";
    config_.port = server_->port();
    config_.tls_server_name = "127.0.0.1";
    config_.authority.file = keys_->Path("ca.crt");
    config_.certificate.file = keys_->Path("client.crt");
    config_.key.file = keys_->Path("client.key");
  }
  void Start() {
    options_.config = config_;
    StartAsItIs();
  }
  void StartAsItIs() {
    auto made = ClusterApi::Start(options_);
    ASSERT_TRUE(made) << made.error().message();
    api_ = std::move(*made);
  }

  static std::string Text(const Result<ApiReply>& reply) {
    if (!reply) return "error: " + reply.error().message();
    return StrCat(reply->code, " ", reply->ok() ? reply->body : reply->message);
  }
  // Its ticket lasts to the end of the test.
  void Send(ApiCall call) {
    tickets_.push_back(
        api_->Send(std::move(call), [this](Result<ApiReply> reply) { book_.Add(Text(reply)); }));
  }
  TicketPtr Watching(ApiCall call) {
    return api_->Watch(
        std::move(call),
        [this](std::string_view type, std::string_view object) {
          book_.Add(StrCat(type, " ", object.substr(0, 20)));
        },
        [this](Result<void> ended) {
          book_.Add(ended ? "ended" : "broken: " + ended.error().message());
        },
        [this](ApiReply reply) { book_.Add(StrCat("refused: ", reply.code, " ", reply.message)); });
  }
  void Watch(ApiCall call) { tickets_.push_back(Watching(std::move(call))); }
  static ApiCall Get(const std::string& path, ApiLane lane = ApiLane::kObjects) {
    ApiCall call;
    call.path = path;
    call.lane = lane;
    return call;
  }
  static ApiCall Repeatable(const std::string& path) {
    ApiCall call = Get(path);
    call.repeatable = true;
    return call;
  }
  // The request, once it came.
  Asked Request(size_t index) {
    for (int i = 0; i < 1000 && server_->asked().size() <= index; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return server_->asked().at(index);
  }

  std::string directory_ = std::filesystem::temp_directory_path() / "cluster-api-XXXXXX";
  std::optional<test_support::TlsKeys> keys_;
  std::optional<ScriptedHttpServer> server_;
  KubeConfig config_;
  ClusterApiOptions options_;
  Book book_;
  std::unique_ptr<ClusterApi> api_;
  std::vector<TicketPtr> tickets_;
};

void Echo(ScriptedHttpServer& server, const Asked& asked) {
  server.Answer(asked, 200, {{"content-type", kProtobuf}}, asked.path);
}

// Watches stay open, everything else is answered with its path.
void OpenWatches(ScriptedHttpServer& server, const Asked& asked) {
  if (!asked.path.starts_with("/watch")) return Echo(server, asked);
  server.Begin(asked, 200, kWatchHeaders);
}

TEST_F(ClusterApiTest, SaysWhoItIsAndWhatItWants) {
  Serve(Echo);
  std::ofstream(directory_ + "/token") << "secret\n";
  config_.token_file = directory_ + "/token";
  config_.path = "/prefix";
  Start();
  ApiCall call = Get("/a?b=c");
  call.verb = ApiVerb::kPatch;
  call.content_type = "application/merge-patch+json";
  call.body = "{}";
  Send(call);
  ASSERT_TRUE(book_.HasOnly({"200 /prefix/a?b=c"}));
  const Asked asked = Request(0);
  EXPECT_EQ(asked.method, "PATCH");
  EXPECT_EQ(asked.body, "{}");
  EXPECT_EQ(asked.headers.at("content-type"), "application/merge-patch+json");
  EXPECT_EQ(asked.headers.at("user-agent"), "holdfast/1.2");
  EXPECT_EQ(asked.headers.at("authorization"), "Bearer secret");
  EXPECT_EQ(asked.headers.at("accept"), "application/vnd.kubernetes.protobuf,application/json");
  EXPECT_EQ(asked.headers.at(":authority"), StrCat("127.0.0.1:", server_->port()));
  Watch(Get("/w"));
  EXPECT_TRUE(Request(1).headers.at("accept").starts_with(
      "application/vnd.kubernetes.protobuf;stream=watch,"));
}

TEST_F(ClusterApiTest, LanesHaveConnectionsOfTheirOwn) {
  Serve(Echo);
  Start();
  for (const ApiLane lane : {ApiLane::kHeartbeat, ApiLane::kPods, ApiLane::kBulk, ApiLane::kObjects,
                             ApiLane::kEvents, ApiLane::kPods}) {
    const size_t before = book_.lines().size();
    Send(Get("/", lane));
    ASSERT_TRUE(book_.Has(before + 1));
  }
  std::vector<size_t> used;
  for (const Asked& asked : server_->asked()) used.push_back(asked.connection);
  EXPECT_EQ(used, (std::vector<size_t>{0, 1, 2, 3, 2, 1}));
}

TEST_F(ClusterApiTest, ObjectsGetAnotherConnectionAboveEightyStreams) {
  Serve(OpenWatches);
  Start();
  for (int i = 0; i < 100; ++i) Watch(Get("/watch"));
  Request(99);
  EXPECT_EQ(server_->connections(), 2u);
  Send(Get("/x"));
  ASSERT_TRUE(book_.HasOnly({"200 /x"}));
}

TEST_F(ClusterApiTest, AWatchShowsItsFramesAndItsEnd) {
  Serve(OpenWatches);
  Start();
  Watch(Get("/watch"));
  const Asked asked = Request(0);
  const std::string frames = Framed("ADDED", "one") + Framed("BOOKMARK", "two");
  server_->Write(asked, frames.substr(0, 9));
  server_->Write(asked, frames.substr(9));
  ASSERT_TRUE(book_.Has(2));
  server_->Write(asked, Framed("DELETED", "three"));
  server_->End(asked);
  ASSERT_TRUE(book_.HasOnly({"ADDED one", "BOOKMARK two", "DELETED three", "ended"}));
}

TEST_F(ClusterApiTest, AWatchInJson) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Answer(asked, 200, {{"content-type", "application/json"}},
                  "{\"type\":\"ADDED\",\"object\":{\"a\":1}}\n");
  });
  Start();
  Watch(Get("/w"));
  ASSERT_TRUE(book_.HasOnly({"ADDED {\"a\":1}", "ended"}));
}

TEST_F(ClusterApiTest, WatchesThatAreNone) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path == "/html")
      return server.Answer(asked, 200, {{"content-type", "text/html"}}, "<p>");
    if (asked.path == "/gone") {
      return server.Answer(asked, 410, {{"content-type", "application/json"}},
                           R"({"kind":"Status","reason":"Expired","message":"too old"})");
    }
    server.Begin(asked, 200, kWatchHeaders);
    if (asked.path == "/cut-frame") server.Write(asked, Framed("ADDED", "one").substr(0, 8));
    if (asked.path == "/huge") server.Write(asked, "\x7f\xff\xff\xff");
    if (asked.path == "/junk") server.Write(asked, std::string("\0\0\0\1x", 5));
    if (asked.path == "/reset") return server.Reset(asked, NGHTTP2_INTERNAL_ERROR);
    server.End(asked);
  });
  Start();
  const std::pair<const char*, const char*> expected[] = {
      {"/html", "broken: GET /html: the answer is no watch but text/html"},
      {"/gone", "refused: 410 too old"},
      {"/cut-frame", "broken: GET /cut-frame: the watch was cut within an event"},
      {"/huge", "broken: GET /huge: a watch event of 2147483647 bytes, at most 16777216 are taken"},
      {"/junk", "broken: GET /junk: no watch event: it does not parse"},
      {"/reset", "broken: GET /reset: 127.0.0.1:"}};
  size_t count = 0;
  for (const auto& [path, line] : expected) {
    Watch(Get(path));
    ASSERT_TRUE(book_.Has(++count)) << path;
    EXPECT_TRUE(book_.lines().back().starts_with(line)) << book_.lines().back();
  }
  EXPECT_EQ(server_->connections(), 1u);
}

TEST_F(ClusterApiTest, AFloodOfFramesHoldsUpNobody) {
  std::string flood;
  for (int i = 0; i < 100'000; ++i) flood += Framed("ADDED", "x");
  Serve([&](ScriptedHttpServer& server, const Asked& asked) {
    OpenWatches(server, asked);
    if (asked.path == "/watch/flood") server.Write(asked, flood);
  });
  Start();
  std::atomic<int> frames = 0;
  std::atomic<bool> stop = false;
  tickets_.push_back(api_->Watch(
      Get("/watch/flood"),
      [&](std::string_view, std::string_view) {
        ++frames;
        if (!stop) std::this_thread::sleep_for(milliseconds(1));  // a slow consumer
      },
      [](const Result<void>&) {}, [](const ApiReply&) {}));
  while (frames == 0) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    Send(Get("/x"));
    ASSERT_TRUE(book_.Has(static_cast<size_t>(i) + 1));
    // Some turns of 2 ms; all frames take 100 s.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(2));
  }
  EXPECT_LT(frames, 50'000);
  EXPECT_LT(server_->sent(), flood.size());  // the rest waits at the server
  stop = true;
  for (int i = 0; i < 1000 && frames < 100'000; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(frames, 100'000);
}

TEST_F(ClusterApiTest, AFrameLargerThanTheWindowArrives) {
  const std::string large(3'000'000, 'l');
  Serve([&](ScriptedHttpServer& server, const Asked& asked) {
    server.Answer(asked, 200, kWatchHeaders, Framed("ADDED", large));
  });
  Start();
  Watch(Get("/w"));
  ASSERT_TRUE(book_.HasOnly({"ADDED " + large.substr(0, 20), "ended"}));
}

TEST_F(ClusterApiTest, GoAwayEndsWatchesInOrderAndRepeatsWhatWasNotProcessed) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.connection > 0) return Echo(server, asked);
    if (asked.path == "/watch") return server.Begin(asked, 200, kWatchHeaders);
    server.GoAway(asked.connection, asked.stream - 2);
  });
  Start();
  Watch(Get("/watch"));
  server_->Write(Request(0), Framed("ADDED", "one"));
  ASSERT_TRUE(book_.Has(1));
  ApiCall call = Get("/x");
  call.verb = ApiVerb::kPost;  // not repeatable, and yet: the server did nothing with it
  Send(call);
  ASSERT_TRUE(book_.Has(2));
  server_->Write(Request(0), Framed("MODIFIED", "two"));  // the old stream goes on
  ASSERT_TRUE(book_.Has(3));
  server_->Cut(0);
  ASSERT_TRUE(book_.HasOnly({"ADDED one", "200 /x", "MODIFIED two", "ended"}));
  EXPECT_EQ(server_->connections(), 2u);
}

TEST_F(ClusterApiTest, OnlyWhatIsRepeatableIsSentAgain) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.connection % 2 == 0) return server.Cut(asked.connection);
    Echo(server, asked);
  });
  Start();
  Send(Repeatable("/again"));
  ASSERT_TRUE(book_.HasOnly({"200 /again"}));
  EXPECT_EQ(server_->asked().size(), 2u);
  server_->Cut(1);
  std::this_thread::sleep_for(milliseconds(500));  // the client sees it
  Send(Get("/once"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_TRUE(book_.lines()[1].starts_with("error: GET /once: read from 127.0.0.1:"))
      << book_.lines()[1];
  EXPECT_EQ(server_->asked().size(), 3u);
}

TEST_F(ClusterApiTest, AServerThatAlwaysCutsIsNotAskedForEver) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Cut(asked.connection); });
  Start();
  Send(Repeatable("/x"));
  ASSERT_TRUE(book_.Has(1));
  EXPECT_TRUE(book_.lines()[0].starts_with("error: GET /x: read from ")) << book_.lines()[0];
  EXPECT_EQ(server_->asked().size(), 3u);
}

TEST_F(ClusterApiTest, ErrorsAreReadAsTheyAre) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path == "/html") {
      return server.Answer(asked, 500, {{"content-type", "text/html"}}, "<html>bad gateway");
    }
    server.Answer(asked, 429, {{"content-type", "text/plain"}, {"retry-after", "2"}}, "slow down");
  });
  Start();
  std::atomic<int64_t> wait = 0;
  tickets_.push_back(api_->Send(Get("/many"), [&](Result<ApiReply> reply) {
    wait = reply->retry_after.value_or(seconds(0)).count();
    book_.Add(Text(reply));
  }));
  ASSERT_TRUE(book_.Has(1));
  EXPECT_EQ(wait, 2);
  Send(Get("/html"));
  ASSERT_TRUE(book_.HasOnly({"429 slow down", "500 <html>bad gateway"}));
}

TEST_F(ClusterApiTest, TheLimitHoldsWhateverHangs) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    if (asked.path == "/freeze") server.Freeze(asked.connection);
  });
  Start();
  ApiCall call = Get("/silent");
  call.limit = milliseconds(50);
  Send(call);
  ASSERT_TRUE(book_.HasOnly({"error: GET /silent: no answer within 50 ms"}));
  call.path = "/silent-watch";
  Watch(call);
  ASSERT_TRUE(book_.Has(2));
  EXPECT_EQ(book_.lines()[1], "broken: GET /silent-watch: no answer within 50 ms");
}

TEST_F(ClusterApiTest, ADeadConnectionIsFoundAndReplaced) {
  options_.connection = {.ping_after = milliseconds(50), .ping_limit = milliseconds(300)};
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    OpenWatches(server, asked);
    if (asked.path == "/watch/freeze") server.Freeze(asked.connection);
  });
  Start();
  Watch(Get("/watch/freeze"));
  Send(Repeatable("/x"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_NE(book_.lines()[0].find("no answer to a ping within 300 ms"), std::string::npos)
      << book_.lines()[0];
  EXPECT_EQ(book_.lines()[1], "200 /x");
  EXPECT_EQ(server_->connections(), 2u);
}

TEST_F(ClusterApiTest, NobodyListens) {
  Serve(Echo);
  config_.port = 1;
  Start();
  Send(Repeatable("/x"));
  ASSERT_TRUE(book_.HasOnly({"error: GET /x: connect 127.0.0.1:1: Connection refused"}));
  config_.port = server_->port();
  api_->SetConfig(config_);
  Send(Get("/y"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_EQ(book_.lines()[1], "200 /y");
}

TEST_F(ClusterApiTest, WithoutCredentialsCallsSayWhatIsAwaited) {
  Serve(Echo);
  options_.config = Unavailable("CSR node-csr-1 waits for approval");
  StartAsItIs();
  Send(Repeatable("/x"));
  ASSERT_TRUE(book_.HasOnly({"error: GET /x: CSR node-csr-1 waits for approval"}));
  api_->SetConfig(config_);
  Send(Get("/y"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_EQ(book_.lines()[1], "200 /y");
  EXPECT_EQ(server_->connections(), 1u);
}

// A program makes a new one every few minutes: nothing is connected anew for that.
TEST_F(ClusterApiTest, AnotherTokenNeedsNoOtherConnection) {
  Serve(OpenWatches);
  const auto inlined = [&](Pem& pem) { pem = {*pem.Read(), ""}; };
  for (Pem* pem : {&config_.authority, &config_.certificate, &config_.key}) inlined(*pem);
  config_.token = "old";
  Start();
  Watch(Get("/watch/1"));
  Send(Get("/x"));
  ASSERT_TRUE(book_.HasOnly({"200 /x"}));
  config_.token = "new";
  api_->SetConfig(config_);
  Send(Get("/y"));
  ASSERT_TRUE(book_.HasOnly({"200 /x", "200 /y"})) << "and the watch goes on";
  EXPECT_EQ(Request(2).headers.at("authorization"), "Bearer new");
  EXPECT_EQ(server_->connections(), 1u);
}

TEST_F(ClusterApiTest, ARefusalIsToldToWhoMakesCredentials) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Answer(asked, 401, {{"content-type", kProtobuf}}, "");
  });
  std::atomic<int> told{0};
  options_.unauthorized = [&told] { ++told; };
  Start();
  Send(Get("/x"));
  ASSERT_TRUE(book_.Has(1));
  EXPECT_EQ(told, 1);
}

TEST_F(ClusterApiTest, WhoInsistsWaitsLongerEachTime) {
  Serve(Echo);
  config_.port = 1;
  options_.first_back_off = milliseconds(40);
  options_.longest_back_off = seconds(10);
  Start();
  TicketPtr ticket;  // of the API thread
  ClusterApi& api = *api_;
  std::function<void()> insist = [&] {
    ticket = api.Send(Get("/x"), [&](const Result<ApiReply>& reply) {
      book_.Add(Text(reply));
      api.Post(insist);
    });
  };
  api.Post(insist);
  std::this_thread::sleep_for(
      milliseconds(500));  // tries at 0, 40, 120, 280 and 600, or a little later
  EXPECT_GE(book_.lines().size(), 2u);
  EXPECT_LE(book_.lines().size(), 4u);
  api_.reset();
}

TEST_F(ClusterApiTest, ADestroyedTicketIsSilent) {
  Serve(OpenWatches);
  Start();
  auto watch = Watching(Get("/watch"));
  const Asked asked = Request(0);
  server_->Write(asked, Framed("ADDED", "one"));
  ASSERT_TRUE(book_.Has(1));
  watch.reset();
  auto never =
      api_->Send(Get("/watch/never"), [&](const Result<ApiReply>&) { book_.Add("never"); });
  auto late = api_->After(milliseconds(200), [&] { book_.Add("late"); });
  never.reset();
  late.reset();
  server_->Write(asked, Framed("ADDED", "two"));
  Send(Get("/x"));
  std::this_thread::sleep_for(milliseconds(300));
  ASSERT_TRUE(book_.HasOnly({"ADDED one", "200 /x"}));
}

TEST_F(ClusterApiTest, AWatchMayEndItselfWithinAFrame) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    server.Begin(asked, 200, kWatchHeaders);
    server.Write(asked, Framed("ADDED", "1") + Framed("ADDED", "2"));
  });
  Start();
  TicketPtr ticket;
  api_->Post([&] {
    ticket = api_->Watch(
        Get("/w"),
        [&](std::string_view, std::string_view object) {
          book_.Add(std::string(object));
          ticket.reset();
          api_->Post([&] { book_.Add("posted"); });
        },
        [&](const Result<void>&) { book_.Add("ended"); }, [](const ApiReply&) {});
  });
  ASSERT_TRUE(book_.Has(2));
  std::this_thread::sleep_for(milliseconds(30));
  EXPECT_TRUE(book_.HasOnly({"1", "posted"}));
}

TEST_F(ClusterApiTest, CloseAllEndsEverythingAndTheNextCallConnectsAgain) {
  Serve(OpenWatches);
  Start();
  Watch(Repeatable("/watch"));
  Request(0);
  api_->CloseAll("two heartbeats were lost");
  ASSERT_TRUE(book_.HasOnly({"broken: GET /watch: two heartbeats were lost"}));
  Send(Get("/x"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_EQ(Request(1).connection, 1u);
}

TEST_F(ClusterApiTest, NewCredentialsReplaceConnectionsOneByOne) {
  Serve(OpenWatches);
  config_.token = "old";
  options_.rotate_every = milliseconds(500);
  Start();
  Watch(Get("/watch/pods", ApiLane::kPods));
  Request(0);
  Watch(Get("/watch/bulk", ApiLane::kBulk));
  Request(1);
  config_.token = "new";
  api_->SetConfig(config_);
  ASSERT_TRUE(book_.Has(1));
  const auto first = std::chrono::steady_clock::now();
  ASSERT_TRUE(book_.HasOnly({"ended", "ended"}));
  EXPECT_GE(std::chrono::steady_clock::now() - first, milliseconds(100));
  Send(Get("/x", ApiLane::kPods));
  ASSERT_TRUE(book_.Has(3));
  EXPECT_EQ(Request(2).headers.at("authorization"), "Bearer new");
  EXPECT_EQ(Request(2).connection, 2u);
}

TEST_F(ClusterApiTest, WhoIsNotLetInComesAgainWithTheCredentialsOfTheMoment) {
  Serve([](ScriptedHttpServer& server, const Asked& asked) {
    const bool good = asked.headers.at("authorization") == "Bearer good";
    server.Answer(asked, good ? 200 : 401, {{"content-type", "text/plain"}}, "x");
  });
  const auto write = [&](const char* token) { std::ofstream(directory_ + "/token") << token; };
  write("bad");
  config_.token_file = directory_ + "/token";
  options_.credentials_last = milliseconds(1000);
  Start();
  Send(Get("/1"));
  ASSERT_TRUE(book_.HasOnly({"401 x"}));
  std::this_thread::sleep_for(milliseconds(1100));
  Send(Get("/2"));  // on the same connection, which is old now
  ASSERT_TRUE(book_.Has(2));
  write("good");
  Send(Get("/3"));
  ASSERT_TRUE(book_.HasOnly({"401 x", "401 x", "200 x"}));
  EXPECT_EQ(Request(1).connection, 0u);
  EXPECT_EQ(Request(2).connection, 1u);
}

// The other lanes' pings take longer than this test.
TEST_F(ClusterApiTest, ALostHeartbeatIsFoundSooner) {
  options_.heartbeat = {.ping_after = milliseconds(20), .ping_limit = milliseconds(20)};
  Serve([](ScriptedHttpServer& server, const Asked& asked) { server.Freeze(asked.connection); });
  Start();
  ApiCall call = Get("/pods", ApiLane::kPods);
  call.limit = milliseconds(1000);
  Send(call);
  call.path = "/heartbeat";
  call.lane = ApiLane::kHeartbeat;
  Send(call);
  ASSERT_TRUE(book_.Has(2));
  EXPECT_NE(book_.lines()[0].find("/heartbeat: 127.0.0.1"), std::string::npos) << book_.lines()[0];
  EXPECT_EQ(book_.lines()[1], "error: GET /pods: no answer within 1000 ms");
}

TEST_F(ClusterApiTest, WithoutHttp2EachCallHasAConnection) {
  Serve(OpenWatches, ScriptedHttpServer::Protocol::kHttp1);
  Start();
  Watch(Get("/watch/1"));
  Watch(Get("/watch/2"));
  Request(1);
  server_->Write(server_->asked()[0], Framed("ADDED", "one"));
  ASSERT_TRUE(book_.HasOnly({"ADDED one"}));
  Send(Get("/x"));
  ASSERT_TRUE(book_.Has(2));
  EXPECT_EQ(book_.lines()[1], "200 /x");
  Send(Get("/y"));
  ASSERT_TRUE(book_.Has(3));
  EXPECT_EQ(server_->connections(), 3u);
  for (int i = 0; i < 18; ++i) Watch(Get("/watch"));
  Request(21);
  Watch(Get("/watch/21"));
  ASSERT_TRUE(book_.Has(4));
  EXPECT_TRUE(
      book_.lines()[3].starts_with("broken: GET /watch/21: the server speaks HTTP/1.1 only"))
      << book_.lines()[3];
}

TEST_F(ClusterApiTest, WorkIsDoneInOrderAndInTime) {
  Serve(Echo);
  Start();
  auto late = api_->After(milliseconds(50), [&] { book_.Add("late"); });
  auto soon = api_->After(milliseconds(10), [&] { book_.Add("soon"); });
  api_->Post([&] { book_.Add("now"); });
  EXPECT_TRUE(book_.HasOnly({"now", "soon", "late"}));
}

TEST_F(ClusterApiTest, TheEndTellsNobodyAndTicketsMayOutliveIt) {
  Serve(OpenWatches);
  Start();
  Watch(Get("/watch"));
  Request(0);
  ApiCall waiting = Get("/watch/unanswered");
  Send(waiting);
  api_.reset();
  tickets_.clear();
  EXPECT_EQ(book_.lines(), std::vector<std::string>());
}

TEST_F(ClusterApiTest, KeysThatCannotBeUsedAreToldAtOnce) {
  Serve(Echo);
  config_.key.file = keys_->Path("server.key");
  options_.config = config_;
  EXPECT_FALSE(ClusterApi::Start(options_));
}

}  // namespace
}  // namespace holdfast::agent
