// SPDX-License-Identifier: Apache-2.0
// exec and attach over WebSocket; what is refused; what is left when a client goes.
#include <algorithm>

#include "tests/support/text_file.h"
#include "tests/unit/agent/api/kubelet/streams/streams_fixture.h"

namespace holdfast::agent::streams {
namespace {

using namespace std::string_literals;

class CommandTest : public StreamsFixture {
 protected:
  static std::string Sh(const std::string& script, const std::string& rest) {
    std::string escaped;
    for (const char c : script) {
      char text[4];
      (void)std::snprintf(text, sizeof text, "%%%02x", static_cast<unsigned char>(c));
      escaped += text;
    }
    return "/exec/default/web/app?command=sh&command=-c&command=" + escaped + "&" + rest;
  }
};

TEST_F(CommandTest, OutputThenStatusThenClose) {
  const auto client = Open(Sh("echo out; echo err >&2; exit 7", "output=1&error=1"));
  EXPECT_EQ(client->answer[http::field::sec_websocket_protocol], "v5.channel.k8s.io");
  EXPECT_EQ(client->Receive(), "\x01"s);  // it has begun
  const auto all = client->ReceiveAll();
  EXPECT_EQ(all.at(1), "out\n");
  EXPECT_EQ(all.at(2), "err\n");
  EXPECT_NE(all.at(3).find(R"("reason":"ExitCode","message":"7")"), std::string::npos);
  EXPECT_TRUE(client->closed);
  EXPECT_EQ(client->code, 1000u);
}

TEST_F(CommandTest, InputEndsWithItsChannel) {
  const auto client = Open(Sh("cat; echo end", "input=1&output=1"));
  client->Send("\0one "s);
  client->Send("\0"s);  // empty is no end
  client->Send("\0two\n"s);
  client->Send("\xff\0"s);
  EXPECT_EQ(client->ReceiveAll().at(1), "one two\nend\n");
}

TEST_F(CommandTest, WhatComesBeforeTheProgramIsItsInput) {
  const auto client = Open(Sh("head -c 3", "input=1&output=1"), "v4.channel.k8s.io");
  client->Send("\0abc"s);
  EXPECT_EQ(client->ReceiveAll().at(1), "abc");
}

TEST_F(CommandTest, TerminalKnowsItsFirstSizeAndTheNext) {
  const auto client = Open(Sh("stty size; read x; stty size", "input=1&output=1&tty=1&error=1"));
  client->Send("\4{\"Width\":0,\"Height\":0}\n"s);
  client->Send("\4{\"Width\":123,\"Height\":45}\n"s);
  std::string seen;
  while (seen.find("45 123") == std::string::npos) seen += client->Receive().substr(1);
  client->Send("\4{\"Width\":80,\"Height\":25}\n"s);
  client->Send("\0\n"s);
  const auto all = client->ReceiveAll();
  EXPECT_NE(all.at(1).find("25 80"), std::string::npos);
  EXPECT_FALSE(all.contains(2));
  EXPECT_EQ(all.at(3), R"({"metadata":{},"status":"Success"})");
}

TEST_F(CommandTest, Base64AndOlderProtocols) {
  const auto client = Open(Sh("cat", "input=1&output=1"), "base64.channel.k8s.io");
  EXPECT_EQ(client->Receive(), "1");
  client->Send("0aGVsbG8=");
  EXPECT_EQ(client->Receive(), "1aGVsbG8=");
  const auto none = Open(Sh("exit 3", "output=1"), "");
  EXPECT_EQ(none->answer.count(http::field::sec_websocket_protocol), 0u);
  EXPECT_EQ(none->ReceiveAll().at(3), "command terminated with non-zero exit code: exit status 3");
}

TEST_F(CommandTest, MuchBothWaysIsComplete) {
  const auto client = Open(Sh("cat", "input=1&output=1"));
  constexpr size_t kBytes = 24 << 20;
  std::string sent(kBytes, '\0');
  for (size_t i = 0; i < kBytes; ++i) sent[i] = static_cast<char>(i * 2654435761u >> 13);
  std::vector<std::string> messages;
  for (size_t at = 0; at < kBytes; at += 100'000) {
    messages.push_back("\0"s + sent.substr(at, 100'000));
  }
  messages.push_back("\xff\0"s);
  const auto all = client->SendAndReceive(client_io_, messages);
  EXPECT_TRUE(all.at(1) == sent);
}

TEST_F(CommandTest, ProgramThatCannotBeStartedIsAStatus) {
  pods_.RemovePod("uid-web");
  auto pod = WebPod();
  pod.mutable_status()->mutable_containerstatuses(0)->set_containerid("holdfast://other");
  pods_.SetPod(pod);
  const auto client = Open("/exec/default/web/app?command=true&output=1");
  EXPECT_NE(client->ReceiveAll().at(3).find("error executing command in container: "),
            std::string::npos);
  EXPECT_TRUE(client->closed);
}

TEST_F(CommandTest, RefusalsAreAKubelets) {
  const std::vector<std::pair<std::string, std::string>> upgrade{
      {"Connection", "Upgrade"},
      {"Upgrade", "SPDY/3.1"},
      {"X-Stream-Protocol-Version", "v4.channel.k8s.io"}};
  const auto expect = [&](const std::string& target, unsigned status, const std::string& text) {
    const auto answer = Ask(target, upgrade);
    EXPECT_EQ(answer.result_int(), status) << target;
    EXPECT_EQ(answer.body(), text) << target;
  };
  expect("/exec/default/nope/app?output=1", 404, "pod does not exist");
  expect("/exec/default/web/nope?output=1", 500, "container not found (\"nope\")");
  expect("/exec/default/web/waiting?output=1", 500, "container not found (\"waiting\")");
  expect("/exec/default/web/other-uid/app?output=1", 500, "container not found (\"app\")");
  expect("/attach/default/web/app", 400, "you must specify at least 1 of stdin, stdout, stderr");
  expect("/portForward/default/web/other", 404, "pod not found");
  EXPECT_EQ(Ask("/exec/default/web/app?command=true&output=1").result_int(), 400u);
  const auto old = Ask("/exec/default/web/app?command=true&output=1",
                       {{"Connection", "Upgrade"},
                        {"Upgrade", "SPDY/3.1"},
                        {"X-Stream-Protocol-Version", "v9.channel.k8s.io"}});
  EXPECT_EQ(old.result_int(), 403u);
  EXPECT_EQ(old["X-Accepted-Stream-Protocol-Versions"], "v4.channel.k8s.io");
  EXPECT_EQ(Ask("/exec/default/web/app?output=1", {}, http::verb::delete_).result_int(), 405u);
}

TEST_F(CommandTest, RunAnswersWithTheOutput) {
  const auto good = Ask("/run/default/web/app?cmd=echo+one+two");
  EXPECT_EQ(good.result_int(), 200u);
  EXPECT_EQ(good.body(), "one two\n");
  const auto bad = Ask("/run/default/web/app?cmd=false");
  EXPECT_EQ(bad.result_int(), 500u);
  EXPECT_EQ(bad.body(), "command terminated with exit code 1");
}

TEST_F(CommandTest, EachSessionIsInTheAuditLog) {
  (void)Open(Sh("exit 7", "output=1"))->ReceiveAll();
  (void)Open("/exec/default/web/app?command=nosuch&output=1")->ReceiveAll();
  std::string log;
  EXPECT_TRUE(Eventually([&] {
    log = test_support::ReadText(AuditPath());
    return std::count(log.begin(), log.end(), '\n') == 4;
  })) << log;
  const std::string who = R"("user":"jane","from":"192.0.2.1:4711","method":"Exec",)"
                          R"("target":"default/web/app","targetUID":"uid-web","detail":")";
  EXPECT_NE(log.find(R"("stage":"begin","id":1,)" + who + R"(sh","decision":"allow"})"),
            std::string::npos)
      << log;
  EXPECT_NE(log.find(R"("stage":"end","id":1,)" + who + R"(sh","decision":"allow","outcome":"OK")"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("exit 7"), std::string::npos) << "arguments are nobody's business";
}

TEST_F(CommandTest, BrokenMessagesEndTheConnection) {
  const auto client = Open(Sh("sleep 1000", "input=1&output=1"));
  client->Send("\xff\x09"s);
  client->ReceiveAll();
  EXPECT_TRUE(client->closed);
  EXPECT_EQ(client->code, 1002u);
  EXPECT_TRUE(Eventually([] { return Children() == 0; }));
}

TEST_F(CommandTest, NothingIsLeftASecondAfterAClientWent) {
  Open(Sh("true", "output=1"))->ReceiveAll();  // what is made once is made
  ASSERT_TRUE(Eventually([this] { return Connections() == 0; }));
  const size_t before = OpenDescriptors();
  std::vector<std::unique_ptr<WebClient>> clients;
  clients.push_back(Open(Sh("sleep 1000", "output=1")));
  clients.push_back(Open(Sh("cat", "input=1&output=1&tty=1")));
  clients.push_back(Open(Sh("yes", "output=1")));                 // it is not read
  clients.push_back(Open(Sh("sleep 1000", "input=1&output=1")));  // it does not read
  for (int i = 0; i < 40; ++i) clients.back()->Send(std::string(64 * 1024, '\0'));
  ASSERT_TRUE(Eventually([] { return Children() == 4; }));
  // Pipes and buffers fill up, so that each waits for what it never gets.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto cut = std::chrono::steady_clock::now();
  for (auto& client : clients) client->Cut();
  EXPECT_TRUE(Eventually([&] { return Children() == 0 && Connections() == 0; }));
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before; }));
  EXPECT_LT(std::chrono::steady_clock::now() - cut, std::chrono::seconds(1));
}

TEST_F(CommandTest, StuckReadersDoNotSlowAnother) {
  std::vector<std::unique_ptr<WebClient>> stuck;
  for (int i = 0; i < 64; ++i) stuck.push_back(Open(Sh("yes", "output=1")));
  ASSERT_TRUE(Eventually([] { return Children() == 64; }));
  const auto begun = std::chrono::steady_clock::now();
  const auto client = Open(Sh("head -c 4000000 /dev/zero", "output=1"));
  EXPECT_EQ(client->ReceiveAll().at(1).size(), 4'000'000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  EXPECT_LT(Threads(), 30u);
}

class IdleTest : public CommandTest {
 protected:
  IdleTest() { idle_limit_ = std::chrono::milliseconds(500); }
};

TEST_F(IdleTest, IdleConnectionsEnd) {
  const auto client = Open(Sh("sleep 1000", "output=1"));
  EXPECT_EQ(client->Receive(), "\x01"s);
  EXPECT_EQ(client->Receive(), "");
  EXPECT_TRUE(Eventually([] { return Children() == 0; }));
}

// ---- attach ----------------------------------------------------------------------------------

TEST_F(CommandTest, AttachIsConnectedToTheContainersOwnStreams) {
  int out[2];
  int in[2];
  ASSERT_EQ(::pipe2(out, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(in, O_CLOEXEC), 0);
  UniqueFd writes(out[1]);
  const UniqueFd reads(in[0]);
  runtime_.attach = [&](const AttachSpec& spec) -> Result<AttachedStreams> {
    EXPECT_TRUE(spec.input && spec.output);
    AttachedStreams streams;
    streams.output.Reset(out[0]);
    streams.input.Reset(in[1]);
    streams.input_once = true;
    return streams;
  };
  const auto client = Open("/attach/default/web/app?input=1&output=1");
  ASSERT_EQ(::write(writes.get(), "prompt> ", 8), 8);
  EXPECT_EQ(client->Receive(), "\x01"s);
  EXPECT_EQ(client->Receive(), "\x01prompt> ");
  client->Send("\0hello"s);
  char got[6] = {};
  ASSERT_EQ(::read(reads.get(), got, 5), 5);
  EXPECT_STREQ(got, "hello");
  client->Send("\xff\0"s);
  EXPECT_TRUE(Eventually([&] { return runtime_.stdin_closed == 1; }));
  EXPECT_EQ(::read(reads.get(), got, 5), 0);
  writes.Reset();  // the container ends
  EXPECT_EQ(client->ReceiveAll().at(3), R"({"metadata":{},"status":"Success"})");
}

TEST_F(CommandTest, AttachTakesTheTerminalFromTheContainer) {
  auto pod = WebPod();
  pod.mutable_spec()->mutable_containers(0)->set_tty(true);
  pods_.SetPod(pod);
  EXPECT_EQ(Ask("/attach/default/web/app?output=1&error=1").body(),
            "tty and stderr cannot both be true");
}

}  // namespace
}  // namespace holdfast::agent::streams
