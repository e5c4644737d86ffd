// SPDX-License-Identifier: Apache-2.0
// Who is asked for what, and what he is told otherwise, to the byte.
#include "agent/api/kubelet/authentication.h"
#include "agent/api/kubelet/node_attributes.h"
#include "tests/unit/agent/api/kubelet/kubelet_fixture.h"

namespace holdfast::agent::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(NodeAttributesTest, PathsHaveSubresourcesOnTheBordersOfTheirParts) {
  EXPECT_THAT(SubresourcesOf("/pods"), ElementsAre("pods", "proxy"));
  EXPECT_THAT(SubresourcesOf("/runningpods/"), ElementsAre("pods", "proxy"));
  EXPECT_THAT(SubresourcesOf("/podsx"), ElementsAre("proxy"));
  EXPECT_THAT(SubresourcesOf("/healthz/ping"), ElementsAre("healthz", "proxy"));
  EXPECT_THAT(SubresourcesOf("/configz"), ElementsAre("configz", "proxy"));
  EXPECT_THAT(SubresourcesOf("/metrics/cadvisor"), ElementsAre("metrics"));
  EXPECT_THAT(SubresourcesOf("/stats/summary"), ElementsAre("stats"));
  EXPECT_THAT(SubresourcesOf("/logs/syslog"), ElementsAre("log"));
  EXPECT_THAT(SubresourcesOf("/checkpoint/a/b/c"), ElementsAre("checkpoint"));
  EXPECT_THAT(SubresourcesOf("/containerLogs/a/b/c"), ElementsAre("proxy"));
  EXPECT_THAT(SubresourcesOf("/"), ElementsAre("proxy"));
}

TEST(NodeAttributesTest, ProgramsAndPortsNeedCreateWhateverTheMethod) {
  EXPECT_EQ(VerbOf("GET", "/pods"), "get");
  EXPECT_EQ(VerbOf("POST", "/stats/summary"), "create");
  EXPECT_EQ(VerbOf("GET", "/exec/a/b/c"), "create");
  EXPECT_EQ(VerbOf("GET", "/portForward/a/b"), "create");
  EXPECT_EQ(VerbOf("GET", "/execx"), "get");
  EXPECT_EQ(VerbOf("HEAD", "/pods"), "");
}

TEST(BearerTokenTest, IsTakenFromTheHeader) {
  EXPECT_EQ(BearerToken("Bearer abc"), "abc");
  EXPECT_EQ(BearerToken("  bearer   abc def"), "abc");
  EXPECT_EQ(BearerToken("Basic abc"), "");
  EXPECT_EQ(BearerToken("Bearer"), "");
  EXPECT_EQ(BearerToken(""), "");
}

TEST_F(KubeletApiTest, NobodyIsAnswered401) {
  Start();
  EXPECT_EQ(Ask("/healthz", "", false), "401 Unauthorized");
  EXPECT_EQ(Ask("/nowhere", "", false), "401 Unauthorized");
  EXPECT_EQ(Ask("/healthz", "Authorization: Bearer wrong\r\n", false), "401 Unauthorized");
  EXPECT_THAT(reviews_.asked, ElementsAre("token wrong"));
}

TEST_F(KubeletApiTest, ACertificateOfAnotherAuthorityProvesNothing) {
  config_.server.client_ca_file = keys_->Path("other.crt");
  Start();
  EXPECT_EQ(Ask("/healthz"), "401 Unauthorized");
  reviews_.tokens["t"] = "alice";
  reviews_.rights.insert("alice get healthz");
  EXPECT_EQ(Ask("/healthz", "Authorization: Bearer t\r\n"), "200 ok");
}

TEST_F(KubeletApiTest, WhoMayNotIsTold) {
  reviews_.rights.clear();
  Start();
  EXPECT_EQ(Ask("/pods"),
            "403 Forbidden (user=client, verb=get, resource=nodes, subresource(s)=[pods proxy])\n");
  EXPECT_THAT(reviews_.asked, ElementsAre("client get pods", "client get proxy"));
  EXPECT_EQ(Ask("/metrics/resource"),
            "403 Forbidden (user=client, verb=get, resource=nodes, subresource(s)=[metrics])\n");
}

TEST_F(KubeletApiTest, AnswersHoldForAWhile) {
  reviews_.tokens["t"] = "alice";
  reviews_.rights.insert("alice get healthz");
  config_.server.denied_cache = std::chrono::seconds(0);
  Start();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(Ask("/healthz", "Authorization: Bearer t\r\n", false), "200 ok");
  EXPECT_THAT(reviews_.asked, ElementsAre("token t", "alice get healthz"));
  reviews_.asked.clear();
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Ask("/configz", "Authorization: Bearer t\r\n", false), StartsWith("403 "));
  }
  EXPECT_EQ(reviews_.asked.size(), 4u);  // a refusal held no time
}

TEST_F(KubeletApiTest, ProgramsAreNotForWhoMayOnlyGet) {
  reviews_.rights = {"client get proxy"};
  Start();
  EXPECT_EQ(Ask("/exec/default/p/c?command=id"),
            "403 Forbidden (user=client, verb=create, resource=nodes, subresource(s)=[proxy])\n");
}

TEST_F(KubeletApiTest, WithoutTheApiServerNothingIsAllowed) {
  reviews_.fails = ApiReply{.code = 500, .message = "no"};
  Start();
  EXPECT_EQ(Ask("/pods"),
            "500 Authorization error (user=client, verb=get, resource=nodes, "
            "subresource(s)=[pods proxy])");
  EXPECT_EQ(Ask("/pods", "Authorization: Bearer t\r\n", false), "401 Unauthorized");
}

TEST_F(KubeletApiTest, AloneWhoHasACertificateMayEverything) {
  config_.server.authorization_mode = "AlwaysAllow";
  Start(false);
  EXPECT_EQ(Ask("/healthz"), "200 ok");
  EXPECT_EQ(Ask("/healthz", "Authorization: Bearer t\r\n", false), "401 Unauthorized");
}

TEST_F(KubeletApiTest, AnonymousIsNobodyWithWrongCredentials) {
  config_.server.anonymous = true;
  reviews_.rights.insert("system:anonymous get healthz");
  Start();
  EXPECT_EQ(Ask("/healthz", "", false), "200 ok");
  EXPECT_EQ(Ask("/healthz", "Authorization: Bearer wrong\r\n", false), "401 Unauthorized");
}

TEST_F(KubeletApiTest, SessionsGetTheConnectionOnceTheyArePermitted) {
  std::string seen;
  sessions_ = [&](UpgradedConnection taken) {
    seen = std::string(taken.request.target());
    boost::system::error_code error;
    boost::asio::write(taken.stream, boost::asio::buffer(std::string("HTTP/1.1 101 X\r\n\r\n")),
                       error);
  };
  Start();
  EXPECT_EQ(Ask("/exec/default/p/c?command=id&output=1"), "101 ");
  EXPECT_EQ(seen, "/exec/default/p/c?command=id&output=1");
  EXPECT_EQ(Ask("/portForward/default/p", "", false), "401 Unauthorized");
}

TEST_F(KubeletApiTest, DebuggingCanBeSwitchedOff) {
  config_.server.debugging_handlers = false;
  Start();
  for (const char* path : {"/exec/a/b/c", "/containerLogs/a/b/c", "/runningpods/"}) {
    EXPECT_EQ(Ask(path), "405 Debug endpoints are disabled.\n");
  }
  EXPECT_EQ(Ask("/healthz"), "200 ok");
}

TEST_F(KubeletApiTest, HealthzSaysHowItIs) {
  Start();
  EXPECT_EQ(Ask("/healthz?verbose"),
            "200 [+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n");
  EXPECT_EQ(Ask("/healthz/ping"), "200 ok");
  EXPECT_EQ(Ask("/nowhere"), "404 404 page not found\n");
  trouble_ = "it hangs";
  EXPECT_EQ(
      Ask("/healthz"),
      "500 [+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n");
  EXPECT_EQ(Ask("/healthz/syncloop"), "500 internal server error: it hangs\n");
}

TEST_F(KubeletApiTest, PodsAreListed) {
  pods_.SetPod(MakePod("a"));
  auto waiting = MakePod("b");
  waiting.mutable_status()->mutable_containerstatuses(0)->mutable_state()->Clear();
  pods_.SetPod(waiting);
  Start();
  const std::string pods = Ask("/pods");
  EXPECT_THAT(
      pods,
      StartsWith(
          R"(200 {"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a")"));
  EXPECT_THAT(pods, HasSubstr(R"("uid":"uid-b")"));
  EXPECT_THAT(Ask("/runningpods/"),
              testing::AllOf(HasSubstr(R"("uid":"uid-a")"), HasSubstr("busybox:latest"),
                             testing::Not(HasSubstr("uid-b"))));
  EXPECT_EQ(Ask("/pods", "", true, "DELETE").substr(0, 3), "403");
}

}  // namespace
}  // namespace holdfast::agent::api
