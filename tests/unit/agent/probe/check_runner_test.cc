// SPDX-License-Identifier: Apache-2.0
// Checks against real peers: programs, TCP and HTTP servers on loopback.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "holdfast/base/strings.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/probe/check_runner_fixture.h"

namespace holdfast::agent {
namespace {

TEST_F(CheckRunnerTest, AProgramsExitCodeIsTheResultAndItsOutputTheText) {
  EXPECT_EQ(Exec({"echo", "fine"}), (CheckOutcome{kSuccess, "fine\n"}));
  const CheckOutcome failed = Exec({"sh", "-c", "echo bad >&2; exit 3"});
  EXPECT_EQ(failed.how, kFailure);
  EXPECT_EQ(failed.text, "bad\n");
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_EQ(Run(ExecCheck{ContainerId("other"), {"true"}}).how, kError);
}

TEST_F(CheckRunnerTest, AProgramWhoseExitCodeIsLostSaysNothingOfItsContainer) {
  runtime_.exits_to_lose = 1;
  const CheckOutcome lost = Exec({"true"});
  EXPECT_EQ(lost.how, kError);
  EXPECT_TRUE(lost.end_lost);
  EXPECT_EQ(Exec({"true"}).how, kSuccess);
}

TEST_F(CheckRunnerTest, OfManyBytesTheFirstAreKeptAndTheProgramGoesOn) {
  const CheckOutcome out =
      Exec({"sh", "-c", "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"});
  EXPECT_EQ(out.how, kSuccess);
  EXPECT_EQ(out.text.size(), kCheckOutput);
}

TEST_F(CheckRunnerTest, AProgramThatTakesTooLongIsKilled) {
  const auto pid_file = std::filesystem::path(testing::TempDir()) / StrCat("probe-", ::getpid());
  const CheckOutcome out =
      Exec({"sh", "-c", StrCat("echo $$ > ", pid_file.string(), "; exec sleep 1000")}, seconds(1));
  EXPECT_EQ(out.how, kFailure);
  EXPECT_TRUE(out.text.starts_with("command timed out: \"sh -c")) << out.text;
  EXPECT_TRUE(out.text.ends_with("sleep 1000\" timed out after 1s")) << out.text;
  std::ifstream file(pid_file);
  pid_t pid = 0;
  ASSERT_TRUE(file >> pid);
  EXPECT_TRUE(test_support::Eventually([pid] { return ::kill(pid, 0) != 0; }));
  std::filesystem::remove(pid_file);
}

TEST_F(CheckRunnerTest, AChildThatKeepsTheOutputOpenHoldsNothingUp) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Exec({"sh", "-c", "echo x; sleep 15 &"}), (CheckOutcome{kSuccess, "x\n"}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(10));
}

TEST_F(CheckRunnerTest, Tcp) {
  const PlainServer server({""});
  EXPECT_EQ(Run(TcpCheck{"127.0.0.1", server.port()}).how, kSuccess);
  EXPECT_EQ(Run(TcpCheck{"localhost", server.port()}).how, kSuccess);
  const uint16_t dead = DeadPort();
  EXPECT_EQ(Run(TcpCheck{"127.0.0.1", dead}),
            (CheckOutcome{kFailure,
                          StrCat("dial tcp 127.0.0.1:", dead, ": connect: connection refused")}));
  EXPECT_EQ(Run(TcpCheck{"name.invalid", 80}).how, kFailure);
}

TEST_F(CheckRunnerTest, WhatThisProcessLacksIsNoFailureOfAContainer) {
  const PlainServer server({"HTTP/1.1 200 OK\r\n\r\n"});
  // UBSan looks at each class of objects once, by a pipe: which it would not get below.
  EXPECT_EQ(Run(TcpCheck{"127.0.0.1", server.port()}).how, kSuccess);
  EXPECT_EQ(Run(Get(server)).how, kSuccess);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const CheckOutcome tcp = Run(TcpCheck{"127.0.0.1", server.port()});
  const CheckOutcome http = Run(Get(server));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(tcp, (CheckOutcome{kError, "dial tcp: socket: too many open files"}));
  EXPECT_EQ(http.how, kError) << http.text;
}

TEST_F(CheckRunnerTest, HttpAsksAsAKubeletDoes) {
  const PlainServer server({"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"});
  HttpCheck check = Get(server, "/x?y=z");
  check.headers.emplace_back("X-Two", "a");
  check.headers.emplace_back("X-Two", "b");
  EXPECT_EQ(Run(check), (CheckOutcome{kSuccess, "fine"}));
  EXPECT_EQ(server.asked().at(0), StrCat("GET /x?y=z HTTP/1.1\r\nHost: 127.0.0.1:", server.port(),
                                         "\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\n"
                                         "X-Two: a\r\nX-Two: b\r\nConnection: close\r\n\r\n"));
}

std::string Repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST_F(CheckRunnerTest, HttpAnswers) {
  const struct {
    std::string answer;
    CheckOutcome::How how;
    std::string text;  // at its end
  } cases[] = {
      {"HTTP/1.0 200 OK\r\n\r\nto the end", kSuccess, "to the end"},
      {"HTTP/1.1 204 No Content\r\n\r\n", kSuccess, ""},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 "
       "OK\r\n\r\nb",
       kSuccess, "b"},
      {StrCat(Repeated("HTTP/1.1 102 Wait\r\n\r\n", 5'000), "HTTP/1.1 200 OK\r\n\r\nb"), kFailure,
       "net/http: server response headers exceeded 65536 bytes; aborted"},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", kFailure,
       "HTTP probe failed with statuscode: 101"},
      {"HTTP/1.1 099 Odd\r\n\r\n", kFailure, "HTTP probe failed with statuscode: 99"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", kSuccess,
       "abc"},
      {"HTTP/1.1 399 Odd\r\n\r\nb", kWarning, "Probe terminated redirects, Response body: b"},
      {"HTTP/1.1 304 Not Modified\r\n\r\n", kWarning,
       "Probe terminated redirects, Response body: "},
      {"HTTP/1.1 400 Bad\r\n\r\n", kFailure, "HTTP probe failed with statuscode: 400"},
      {"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno", kFailure,
       "HTTP probe failed with statuscode: 503"},
      {"SSH-2.0-x\r\n\r\n", kFailure, "malformed HTTP response"},
      {StrCat("HTTP/1.1 200 OK\r\nX: ", std::string(200'000, 'x'), "\r\n\r\n"), kFailure, ""},
      {StrCat("HTTP/1.1 200 OK\r\n\r\n", std::string(3'000'000, 'x')), kSuccess, "xxxx"},
  };
  for (const auto& c : cases) {
    const PlainServer server({c.answer});
    const CheckOutcome out = Run(Get(server));
    EXPECT_EQ(out.how, c.how) << c.answer.substr(0, 60) << ": " << out.text;
    EXPECT_TRUE(out.text.ends_with(c.text)) << out.text;
    EXPECT_LE(out.text.size(), kCheckOutput + 100);
  }
}

TEST_F(CheckRunnerTest, HttpThatFails) {
  const PlainServer silent({""});
  EXPECT_EQ(Run(Get(silent), milliseconds(200)).text,
            StrCat("Get \"http://127.0.0.1:", silent.port(), "/\": context deadline exceeded ",
                   "(Client.Timeout exceeded while awaiting headers)"));
  HttpCheck dead = Get(silent);
  dead.port = DeadPort();
  EXPECT_EQ(Run(dead).text, StrCat("Get \"http://127.0.0.1:", dead.port, "/\": dial tcp 127.0.0.1:",
                                   dead.port, ": connect: connection refused"));
  const PlainServer endless({StrCat("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", "some")});
  HttpCheck injected = Get(endless);
  injected.headers.emplace_back("X", "a\r\nEvil: b");
  EXPECT_EQ(Run(injected).how, kFailure);
  EXPECT_TRUE(endless.asked().empty()) << "nothing of it was sent";
}

TEST_F(CheckRunnerTest, RedirectsAreFollowedOnTheSameHostOnly) {
  const PlainServer same({"HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n",
                          "HTTP/1.1 200 OK\r\n\r\nfound"});
  EXPECT_EQ(Run(Get(same, "/old")), (CheckOutcome{kSuccess, "found"}));
  EXPECT_TRUE(same.asked().at(1).starts_with("GET /new HTTP/1.1\r\n"));
  const PlainServer other({"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.9/\r\n\r\nthere"});
  EXPECT_EQ(Run(Get(other)),
            (CheckOutcome{kWarning, "Probe terminated redirects, Response body: there"}));
  const PlainServer loop({"HTTP/1.1 307 Again\r\nLocation: /\r\n\r\n"});
  EXPECT_TRUE(Run(Get(loop)).text.ends_with("stopped after 10 redirects"));
  EXPECT_EQ(loop.asked().size(), 10u);
}

TEST_F(CheckRunnerTest, HttpsDoesNotAskWhoThePeerIs) {
  const std::string dir = StrCat(testing::TempDir(), "probe-keys-", ::getpid());
  std::filesystem::create_directory(dir);
  const test_support::TlsKeys keys(dir, "DNS:somebody.else");
  const PlainServer server({"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"}, &keys);
  HttpCheck check = Get(server);
  check.tls = true;
  EXPECT_EQ(Run(check), (CheckOutcome{kSuccess, "x"}));
  const PlainServer plain({"HTTP/1.1 400 Bad Request\r\n\r\n"});
  check.port = plain.port();
  const CheckOutcome out = Run(check, seconds(5));
  EXPECT_TRUE(out.plain_peer) << out.text;
  EXPECT_TRUE(out.text.ends_with("http: server gave HTTP response to HTTPS client")) << out.text;
  std::filesystem::remove_all(dir);
}

TEST_F(CheckRunnerTest, ASleepEndsInItsTime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Run(SleepCheck{milliseconds(300)}).how, kSuccess);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(300));
  EXPECT_EQ(Run(SleepCheck{milliseconds(0)}).how, kSuccess);
}

// A peer that never answers costs a socket and a timer, nobody's time.
TEST_F(CheckRunnerTest, ManyThatHangHoldUpNothing) {
  const PlainServer silent({""});
  std::vector<std::unique_ptr<RunningCheck>> running;
  OnRunner([&] {
    for (int i = 0; i < 200; ++i) {
      running.push_back(runner_->Begin(Get(silent), seconds(60), [](const CheckOutcome&) {}));
      running.push_back(runner_->Begin(ExecCheck{runtime_.container, {"sleep", "60"}}, seconds(60),
                                       [](const CheckOutcome&) {}));
    }
  });
  // With a length: its end of the connection is inherited by programs that are started just now.
  const PlainServer fast({"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"});
  const CheckOutcome out = Run(Get(fast), seconds(5));
  EXPECT_EQ(out.how, kSuccess) << out.text;
  EXPECT_EQ(Exec({"true"}).how, kSuccess);
  OnRunner([&] { running.clear(); });
}

TEST_F(CheckRunnerTest, WhatIsGivenUpIsNotTold) {
  std::atomic<bool> told = false;
  std::unique_ptr<RunningCheck> running;
  OnRunner([&] {
    running = runner_->Begin(SleepCheck{milliseconds(1)}, std::nullopt,
                             [&](const CheckOutcome&) { told = true; });
    running.reset();
  });
  EXPECT_EQ(Run(SleepCheck{milliseconds(50)}).how, kSuccess);
  EXPECT_FALSE(told);
}

TEST_F(CheckRunnerTest, EndsWithWhateverIsUnderWay) {
  const PlainServer silent({""});
  std::vector<std::unique_ptr<RunningCheck>> running;
  OnRunner([&] {
    running.push_back(runner_->Begin(Get(silent), std::nullopt, [](const CheckOutcome&) {}));
    running.push_back(runner_->Begin(ExecCheck{runtime_.container, {"sleep", "60"}}, std::nullopt,
                                     [](const CheckOutcome&) {}));
  });
  runner_->Stop();
  running.clear();
  runner_.reset();
}

}  // namespace
}  // namespace holdfast::agent
