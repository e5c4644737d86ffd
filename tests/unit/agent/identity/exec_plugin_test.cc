// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/exec_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/identity/exec_credential.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

ExecPlugin PluginOf(const std::string& version) {
  ExecPlugin plugin;
  plugin.api_version = version;
  return plugin;
}

ProgramLimits WithTime(milliseconds time) {
  ProgramLimits limits;
  limits.time = time;
  return limits;
}

class ExecPluginTest : public testing::Test {
 protected:
  void SetUp() override {
    top_ = fs::temp_directory_path() / "plugin-XXXXXX";
    ASSERT_NE(::mkdtemp(top_.data()), nullptr);
    stop_ = std::move(*sys::Wakeup::Make());
  }
  void TearDown() override { fs::remove_all(top_); }

  Result<std::string> Run(const std::string& script, const ProgramLimits& limits = {}) {
    plugin_.command = top_ + "/plugin";
    std::ofstream(plugin_.command) << "#!/bin/sh\n" << script;
    fs::permissions(plugin_.command, fs::perms::owner_all);
    return RunExecPlugin(plugin_, R"({"kind":"ExecCredential"})", "", stop_, limits);
  }
  std::string ErrorOf(const std::string& script, const ProgramLimits& limits = {}) {
    const auto output = Run(script, limits);
    return output ? "" : output.error().message();
  }
  // Whether what wrote its number there ends.
  bool Ends(const std::string& file) {
    pid_t pid = 0;
    std::ifstream(top_ + "/" + file) >> pid;
    EXPECT_GT(pid, 0);
    for (const auto until = steady_clock::now() + seconds(10); steady_clock::now() < until;) {
      if (::kill(pid, 0) != 0) return true;
      std::ifstream stat(StrCat("/proc/", pid, "/stat"));
      const std::string text{std::istreambuf_iterator<char>(stat), {}};
      if (text.find(") Z ") != std::string::npos) return true;  // it waits for its reaper
      std::this_thread::sleep_for(milliseconds(10));
    }
    return false;
  }

  std::string top_;
  ExecPlugin plugin_ = PluginOf(kExecV1);
  sys::Wakeup stop_;
};

TEST_F(ExecPluginTest, ItsOutputArgumentsAndVariables) {
  plugin_.args = {"a b", "c"};
  plugin_.env = {{"REGION", "eu"}, {"KUBERNETES_EXEC_INFO", "not this"}};
  const auto output =
      Run("echo \"$1|$2|$REGION|$KUBERNETES_EXEC_INFO\"; read line || echo nothing to read");
  ASSERT_TRUE(output) << output.error().message();
  EXPECT_EQ(*output, "a b|c|eu|{\"kind\":\"ExecCredential\"}\nnothing to read\n");
}

TEST_F(ExecPluginTest, LongOutputIsWhole) {
  const auto output = Run("head -c 300000 /dev/zero | tr '\\0' x");
  ASSERT_TRUE(output) << output.error().message();
  EXPECT_EQ(output->size(), 300'000u);
}

TEST_F(ExecPluginTest, FailuresSayWhy) {
  plugin_.install_hint = "apt install it";
  const std::string error = ErrorOf("echo half; echo no network >&2; exit 3");
  EXPECT_THAT(error, HasSubstr("/plugin: failed with exit code 3: no network"));
  EXPECT_THAT(error, HasSubstr("(apt install it)"));
  plugin_.command = top_ + "/absent";
  const auto absent = RunExecPlugin(plugin_, "", "", stop_);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message(), HasSubstr("absent: no such file or directory"));
  EXPECT_THAT(absent.error().message(), HasSubstr("(apt install it)"));
}

TEST_F(ExecPluginTest, ItsTimeIsLimitedAndAllThatItStartedEnds) {
  const auto begin = steady_clock::now();
  const std::string error =
      ErrorOf(StrCat("sleep 1000 & echo $! > ", top_, "/child; trap '' TERM; sleep 1000"),
              WithTime(milliseconds(500)));
  EXPECT_THAT(error, HasSubstr("no end within 500 ms"));
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
  EXPECT_TRUE(Ends("child"));
}

TEST_F(ExecPluginTest, WhatItLeftInTheBackgroundEndsWithIt) {
  const auto output = Run(StrCat("sleep 1000 & echo $! > ", top_, "/child; echo done"));
  ASSERT_TRUE(output) << "the background still has its output open: " << output.error().message();
  EXPECT_EQ(*output, "done\n");
  EXPECT_TRUE(Ends("child"));
}

TEST_F(ExecPluginTest, FloodsEnd) {
  EXPECT_THAT(ErrorOf("exec cat /dev/zero"), HasSubstr("wrote more than 1048576 bytes"));
  EXPECT_THAT(ErrorOf("exec cat /dev/zero >&2", WithTime(milliseconds(300))),
              HasSubstr("no end within 300 ms"));
}

TEST_F(ExecPluginTest, AnAgentThatStopsDoesNotWait) {
  std::thread stopper([this] {
    std::this_thread::sleep_for(milliseconds(200));
    stop_.Set();
  });
  const auto begin = steady_clock::now();
  EXPECT_THAT(ErrorOf("sleep 1000"), HasSubstr("the agent stops"));
  EXPECT_LT(steady_clock::now() - begin, seconds(20));
  stopper.join();
}

std::string WrongWith(const std::string& output) {
  const auto credential = ParseExecCredential(output, PluginOf(kExecV1));
  return credential ? "" : credential.error().message();
}

std::string Answer(const std::string& status) {
  return StrCat(R"({"kind":"ExecCredential","apiVersion":")", kExecV1, R"(","status":)", status,
                "}");
}

TEST(ExecCredentialTest, ATokenWithItsEnd) {
  const auto credential = ParseExecCredential(
      Answer(R"({"token":"t","expirationTimestamp":"2026-11-23T17:04:05Z"})"), PluginOf(kExecV1));
  ASSERT_TRUE(credential) << credential.error().message();
  EXPECT_EQ(credential->token, "t");
  EXPECT_EQ(*credential->expires, WallTime{seconds(1'795'453'445)});
}

TEST(ExecCredentialTest, TheYear9999IsFarAway) {
  const auto credential = ParseExecCredential(
      Answer(R"({"token":"t","expirationTimestamp":"9999-12-31T23:59:59Z"})"), PluginOf(kExecV1));
  ASSERT_TRUE(credential) << credential.error().message();
  EXPECT_GT(*credential->expires, WallTime{seconds(9'000'000'000)});
}

TEST(ExecCredentialTest, WhatIsWrongIsSaidAsClientGoSaysIt) {
  EXPECT_THAT(WrongWith("no json"), HasSubstr("decoding stdout"));
  EXPECT_EQ(
      WrongWith(R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1"})"),
      "exec plugin is configured to use API version client.authentication.k8s.io/v1, plugin "
      "returned version client.authentication.k8s.io/v1beta1");
  EXPECT_EQ(
      WrongWith(R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1"})"),
      "exec plugin didn't return a status field");
  EXPECT_EQ(WrongWith(Answer("{}")), "exec plugin didn't return a token or cert/key pair");
  EXPECT_EQ(WrongWith(Answer(R"({"clientKeyData":"k"})")),
            "exec plugin returned only certificate or key, not both");
  EXPECT_THAT(WrongWith(Answer(R"({"token":"a\r\nHost: b"})")), HasSubstr("control characters"));
  EXPECT_THAT(WrongWith(Answer(R"({"token":["t"]})")), HasSubstr("is no string"));
  EXPECT_THAT(WrongWith(Answer(R"({"token":"t","expirationTimestamp":"soon"})")),
              HasSubstr("RFC 3339"));
  EXPECT_THAT(WrongWith(Answer(R"({"clientCertificateData":"c","clientKeyData":"k"})")),
              HasSubstr("certificate"));
}

TEST(ExecCredentialTest, WhatTheProgramIsTold) {
  KubeConfig config;
  config.server = "https://api.example:6443";
  config.host = "api.example";
  config.tls_server_name = "inner.example";
  config.exec = PluginOf(kExecV1Beta1);
  EXPECT_EQ(ExecInfo(config, "pem"),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",)"
            R"("spec":{"interactive":false}})");
  config.exec->provide_cluster_info = true;
  config.exec->cluster_config = R"({"audience":"me"})";
  EXPECT_EQ(ExecInfo(config, "pem"),
            R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1",)"
            R"("spec":{"cluster":{"server":"https://api.example:6443",)"
            R"("tls-server-name":"inner.example","certificate-authority-data":"cGVt",)"
            R"("config":{"audience":"me"}},"interactive":false}})");
}

}  // namespace
}  // namespace holdfast::agent
