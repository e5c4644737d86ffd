// SPDX-License-Identifier: Apache-2.0
// /containerLogs as kubectl sees it: lines, options, and the texts when there is no log.
#include "agent/api/kubelet/container_logs.h"

#include <thread>

#include "tests/unit/agent/api/kubelet/kubelet_fixture.h"

namespace holdfast::agent::api {
namespace {

using ::testing::HasSubstr;

constexpr char kLines[] =
    "2026-11-22T10:00:00.000000001Z stdout F one\n"
    "2026-11-22T10:00:01.000000001Z stderr F two\n"
    "2026-11-22T10:00:02.000000001Z stdout P thr\n"
    "2026-11-22T10:00:02.000000002Z stdout F ee\n";
constexpr char kPath[] = "/containerLogs/default/p/c";

TEST(LogQueryTest, ReadsPathsAndQueries) {
  EXPECT_EQ(PathParts("/a/b%2Fc//d"), (std::vector<std::string>{"a", "b/c", "", "d"}));
  const Query query = ParseQuery("a=1&a=%32&b&c=x+y&=&d=%zz%4");
  EXPECT_EQ(query.at("a"), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(query.at("b"), std::vector<std::string>{""});
  EXPECT_EQ(query.at("c"), std::vector<std::string>{"x y"});
  EXPECT_EQ(query.at("d"), std::vector<std::string>{"%zz%4"});
  std::string flood;
  for (int i = 0; i < 5000; ++i) flood += std::to_string(i) + "&";
  EXPECT_LE(ParseQuery(flood).size(), 1000u);
}

TEST(LogQueryTest, ReadsOptionsAsAKubeletDoes) {
  const WallTime now{std::chrono::seconds(1000)};
  const auto read = [&](const char* text) { return ReadLogOptions(ParseQuery(text), now); };
  const auto options =
      read("follow=true&previous=1&timestamps&tailLines=5&limitBytes=10&sinceSeconds=100");
  ASSERT_TRUE(options.has_value());
  EXPECT_TRUE(options->follow && options->previous && options->timestamps);
  EXPECT_EQ(options->filter.tail_lines, 5);
  EXPECT_EQ(options->limit_bytes, 10);
  EXPECT_EQ(options->filter.since.since_epoch, std::chrono::seconds(900));
  EXPECT_FALSE(read("follow=false&previous=0")->follow);
  EXPECT_EQ(read("tail=7")->filter.tail_lines, 7);
  EXPECT_EQ(read("tail=all&tailLines=3")->filter.tail_lines, std::nullopt);
  EXPECT_EQ(read("stream=Stderr")->filter.stream, LogStreamKind::kStderr);
  EXPECT_EQ(read("sinceTime=1970-01-01T00:00:05Z")->filter.since.since_epoch,
            std::chrono::seconds(5));
  EXPECT_TRUE(read("sinceTime=9999-01-01T00:00:00Z").has_value());
  EXPECT_EQ(read("sinceSeconds=9223372036854775807")->filter.since, WallTime{});
  for (const char* text : {"tailLines=x", "tailLines=", "limitBytes=1e3", "sinceTime=now"}) {
    EXPECT_EQ(read(text).error().status, 400u) << text;
  }
  for (const char* text :
       {"tailLines=-1", "limitBytes=0", "sinceSeconds=0", "stream=both",
        "sinceSeconds=1&sinceTime=1970-01-01T00:00:05Z", "stream=Stdout&tailLines=1"}) {
    EXPECT_EQ(read(text).error().status, 422u) << text;
  }
}

TEST_F(KubeletApiTest, LogsAreTheLinesAndNothingElse) {
  pods_.SetPod(MakePod("p"));
  WriteLog("p", "0.log", kLines);
  Start();
  const std::string path = kPath;
  EXPECT_EQ(Ask(path), "200 one\ntwo\nthree\n");
  EXPECT_EQ(Ask(path + "?tailLines=1"), "200 three\n");
  EXPECT_EQ(Ask(path + "?tailLines=0"), "200 ");
  EXPECT_EQ(Ask(path + "?stream=Stderr"), "200 two\n");
  EXPECT_EQ(Ask(path + "?limitBytes=5"), "200 one\nt");
  EXPECT_EQ(Ask(path + "?sinceTime=2026-11-22T10:00:01Z"), "200 two\nthree\n");
  EXPECT_EQ(Ask(path + "?timestamps=true&tailLines=2"),
            "200 2026-11-22T10:00:01.000000001Z two\n2026-11-22T10:00:02.000000001Z three\n");
  EXPECT_EQ(Ask(path + "?timestamps=true&limitBytes=25"), "200 2026-11-22T10:00:00.00000");
}

TEST_F(KubeletApiTest, TheTextsAreWhatKubectlShows) {
  auto pod = MakePod("p");
  pods_.SetPod(pod);
  Start();
  EXPECT_EQ(Ask("/containerLogs/default/nobody/c"), "404 pod \"nobody\" does not exist\n");
  EXPECT_EQ(Ask("/containerLogs/default/p/x"), "404 container \"x\" not found in pod \"p\"\n");
  EXPECT_EQ(Ask("/containerLogs/default/p/"), "400 {\"message\": \"Missing container name.\"}");
  EXPECT_EQ(Ask("/containerLogs//p/c"), "400 {\"message\": \"Missing podNamespace.\"}");
  EXPECT_EQ(Ask("/containerLogs/default/p"), "404 404 page not found\n");
  EXPECT_EQ(Ask(std::string(kPath) + "?previous=true"),
            "400 previous terminated container \"c\" in pod \"p\" not found");
  EXPECT_EQ(Ask(std::string(kPath) + "?tailLines=-1"), "422 {\"message\": \"Invalid request.\"}");
  EXPECT_EQ(Ask(std::string(kPath) + "?tailLines=x"),
            "400 {\"message\": \"Unable to decode query.\"}");
  auto& state = *pod.mutable_status()->mutable_containerstatuses(0)->mutable_state();
  const auto waiting = [&](const char* reason) {
    state.Clear();
    state.mutable_waiting()->set_reason(reason);
    pods_.SetPod(pod);
    return Ask(kPath);
  };
  const std::string head = "400 container \"c\" in pod \"p\" is waiting to start: ";
  EXPECT_EQ(waiting("ContainerCreating"), head + "ContainerCreating");
  EXPECT_EQ(waiting("ErrImagePull"), head + "image can't be pulled");
  EXPECT_EQ(waiting("ImagePullBackOff"), head + "trying and failing to pull image");
  pod.mutable_status()->clear_containerstatuses();
  pods_.SetPod(pod);
  EXPECT_EQ(Ask(kPath), "400 container \"c\" in pod \"p\" is not available");
}

TEST_F(KubeletApiTest, TheRunBeforeCanBeRead) {
  auto pod = MakePod("p");
  auto& status = *pod.mutable_status()->mutable_containerstatuses(0);
  status.set_restartcount(1);
  status.mutable_laststate()->mutable_terminated()->set_containerid("containerd://x");
  pods_.SetPod(pod);
  WriteLog("p", "0.log", kLines);
  WriteLog("p", "1.log", "2026-11-22T11:00:00Z stdout F again\n");
  Start();
  EXPECT_EQ(Ask(std::string(kPath) + "?previous=true&follow=true"), "200 one\ntwo\nthree\n");
  EXPECT_EQ(Ask(kPath), "200 again\n");
}

// The head comes at once, lines as they are written also across rotation, and the end with the run's end.
TEST_F(KubeletApiTest, FollowingEndsWithTheRun) {
  auto pod = MakePod("p");
  pods_.SetPod(pod);
  WriteLog("p", "0.log", "");
  Start();
  const auto client = Connect();
  client->Send(std::string("GET ") + kPath + "?follow=true HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client->ReadUntil("\r\n\r\n"), HasSubstr("200 OK"));
  WriteLog("p", "0.log", "2026-11-22T10:00:00Z stdout F first\n", true);
  EXPECT_EQ(client->ReadUntil("first\n\r\n"), "6\r\nfirst\n\r\n");
  const std::string folder = directory_ + "/logs/default_p_uid-p/c/";
  std::filesystem::rename(folder + "0.log", folder + "0.log.20261122-100001");
  WriteLog("p", "0.log", "2026-11-22T10:00:02Z stdout F second\n");
  EXPECT_EQ(client->ReadUntil("second\n\r\n"), "7\r\nsecond\n\r\n");
  auto& status = *pod.mutable_status()->mutable_containerstatuses(0);
  status.set_restartcount(1);
  status.mutable_laststate()->mutable_terminated()->set_containerid("containerd://x");
  WriteLog("p", "1.log", "2026-11-22T11:00:00Z stdout F of the next run\n");
  pods_.SetPod(pod);
  EXPECT_EQ(client->ReadAll(), "0\r\n\r\n");
}

TEST_F(KubeletApiTest, ReadersThatLeaveAreForgottenWithinASecond) {
  pods_.SetPod(MakePod("p"));
  WriteLog("p", "0.log", kLines);
  Start();
  const size_t before = pods_.watchers();
  {
    const auto client = Connect();
    client->Send(std::string("GET ") + kPath + "?follow=true HTTP/1.1\r\n\r\n");
    client->ReadUntil("three\n\r\n");
    EXPECT_EQ(pods_.watchers(), before + 1);
    client->Close();
  }
  for (int i = 0; i < 100 && pods_.watchers() > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(pods_.watchers(), before);
}

TEST_F(KubeletApiTest, ItEndsWhileLogsAreFollowed) {
  pods_.SetPod(MakePod("p"));
  WriteLog("p", "0.log", kLines);
  Start();
  const auto client = Connect();
  client->Send(std::string("GET ") + kPath + "?follow=true HTTP/1.1\r\n\r\n");
  client->ReadUntil("three\n\r\n");
  api_.reset();
  EXPECT_EQ(pods_.watchers(), 0u);
  EXPECT_EQ(client->ReadAll(), "");
}

}  // namespace
}  // namespace holdfast::agent::api
