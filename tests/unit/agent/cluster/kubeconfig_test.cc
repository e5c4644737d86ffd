// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/kubeconfig.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// Replaces `from` of a kubeconfig in which all is well.
std::string With(const std::string& from = "", const std::string& to = "") {
  std::string text = R"(apiVersion: v1
kind: Config
current-context: one
preferences: {}
contexts:
- name: other
  context: {cluster: other, user: other}
- name: one
  context: {cluster: c1, user: u1, namespace: default}
clusters:
- name: c1
  cluster:
    server: https://192.0.2.1:6443/
    certificate-authority: pki/ca.crt
users:
- name: u1
  user:
    client-certificate: /pki/node.crt
    client-key-data: a2V5
)";
  if (!from.empty()) text.replace(text.find(from), from.size(), to);
  return text;
}

std::string ErrorOf(const std::string& text) {
  const auto read = ParseKubeConfig(text, "/etc/k/kubeconfig");
  return read ? "" : read.error().message();
}

TEST(KubeConfigTest, ReadsWhatTheCurrentContextNames) {
  const auto read = ParseKubeConfig(With(), "/etc/k/kubeconfig");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->host, "192.0.2.1");
  EXPECT_EQ(read->port, 6443);
  EXPECT_EQ(read->path, "");
  EXPECT_EQ(read->tls_server_name, "192.0.2.1");
  EXPECT_EQ(read->authority.file, "/etc/k/pki/ca.crt") << "relative to the file";
  EXPECT_EQ(read->certificate.file, "/pki/node.crt");
  EXPECT_EQ(read->key.text, "key");
  EXPECT_EQ(*read->BearerToken(), "");
}

TEST(KubeConfigTest, Servers) {
  struct Case {
    const char* server;
    const char* host;
    int port;
    const char* path;
  };
  for (const Case& c : {Case{"https://api.example", "api.example", 443, ""},
                        Case{"https://[2001:db8::1]:6443", "2001:db8::1", 6443, ""},
                        Case{"https://[2001:db8::1]", "2001:db8::1", 443, ""},
                        Case{"https://api:8443/k8s/one/", "api", 8443, "/k8s/one"}}) {
    const auto read = ParseKubeConfig(With("https://192.0.2.1:6443/", c.server), "f");
    ASSERT_TRUE(read) << read.error().message();
    EXPECT_EQ(read->host, c.host);
    EXPECT_EQ(read->port, c.port);
    EXPECT_EQ(read->path, c.path);
  }
  for (const char* server : {"http://192.0.2.1", "192.0.2.1:6443", "https://", "https://a:0",
                             "https://a:65536", "https://a:1x", "https://u@a", "https://a?b",
                             "https://[::1", "https://[::1]6443", "\"https://a b\""}) {
    EXPECT_NE(ErrorOf(With("https://192.0.2.1:6443/", server)).find("is not of the form"),
              std::string::npos)
        << server;
  }
}

TEST(KubeConfigTest, ErrorsNameFileLineAndField) {
  EXPECT_EQ(ErrorOf(With("    server: https://192.0.2.1:6443/\n")),
            "/etc/k/kubeconfig:13:5: clusters[0].cluster.server: is missing");
  EXPECT_EQ(ErrorOf(With("current-context: one\n")),
            "/etc/k/kubeconfig:1:1: current-context: is missing");
  EXPECT_EQ(ErrorOf(With("user: u1,", "user: u2,")),
            "/etc/k/kubeconfig:16:1: users: none is named \"u2\"");
  EXPECT_EQ(ErrorOf(With("- name: c1\n  cluster:", "- name: c1\n  closter:")),
            "/etc/k/kubeconfig:11:3: clusters[0].cluster: expected a map");
  EXPECT_EQ(ErrorOf(With("a2V5", "a2V")),
            "/etc/k/kubeconfig:19:22: users[0].user.client-key-data: is no base 64");
  EXPECT_EQ(ErrorOf(With("    client-key-data: a2V5\n")),
            "/etc/k/kubeconfig:18:25: users[0].user.client-certificate: a certificate and its key "
            "belong together");
  EXPECT_EQ(ErrorOf("a: [\n").substr(0, 18), "/etc/k/kubeconfig:");
  EXPECT_EQ(ErrorOf(""), "/etc/k/kubeconfig:1:1: expected one map");
}

TEST(KubeConfigTest, WhatCannotBeObeyedIsRefused) {
  for (const char* field : {"username: admin", "auth-provider: {name: x}", "as: admin"}) {
    const std::string error =
        ErrorOf(With("client-key-data: a2V5", StrCat("client-key-data: a2V5\n    ", field)));
    EXPECT_NE(error.find("is not supported"), std::string::npos) << error;
  }
  for (const char* field : {"insecure-skip-tls-verify: true", "proxy-url: http://proxy"}) {
    const std::string error = ErrorOf(With("certificate-authority: pki/ca.crt", field));
    EXPECT_NE(error.find("is not supported"), std::string::npos) << error;
  }
  EXPECT_EQ(ErrorOf(With("certificate-authority: pki/ca.crt", "insecure-skip-tls-verify: false")),
            "");
}

std::string WithExec(const std::string& exec) {
  return With("client-certificate: /pki/node.crt\n    client-key-data: a2V5",
              "exec: {" + exec + "}");
}

TEST(KubeConfigTest, ProgramsThatMakeCredentials) {
  std::string text = WithExec(
      "apiVersion: client.authentication.k8s.io/v1beta1, command: bin/token, args: [a, 1], "
      "env: [{name: NAME, value: v}], provideClusterInfo: true, installHint: hint");
  text.replace(text.find("    certificate-authority"), 0,
               "    extensions:\n    - name: client.authentication.k8s.io/exec\n"
               "      extension: {audience: me}\n");
  const auto read = ParseKubeConfig(text, "/etc/k/kubeconfig");
  ASSERT_TRUE(read) << read.error().message();
  ASSERT_TRUE(read->exec);
  EXPECT_EQ(read->exec->command, "/etc/k/bin/token") << "relative to the file";
  EXPECT_EQ(read->exec->args, (std::vector<std::string>{"a", "1"}));
  EXPECT_EQ(read->exec->env.front(), std::pair(std::string("NAME"), std::string("v")));
  EXPECT_TRUE(read->exec->provide_cluster_info);
  EXPECT_EQ(read->exec->install_hint, "hint");
  EXPECT_EQ(read->exec->cluster_config, R"({"audience":"me"})");
  const auto named = ParseKubeConfig(
      WithExec(
          "apiVersion: client.authentication.k8s.io/v1, command: token, interactiveMode: Never"),
      "f");
  ASSERT_TRUE(named) << named.error().message();
  EXPECT_EQ(named->exec->command, "token") << "looked for in PATH";
}

TEST(KubeConfigTest, ProgramsThatCannotBeRunAreRefused) {
  const std::string v1 = "apiVersion: client.authentication.k8s.io/v1, command: token";
  for (const auto& [exec, error] : std::vector<std::pair<std::string, std::string>>{
           {"apiVersion: client.authentication.k8s.io/v1", "exec.command: is missing"},
           {"command: token", "exec.apiVersion: is missing"},
           {"command: token, apiVersion: client.authentication.k8s.io/v1alpha1", "is neither"},
           {v1, "exec.interactiveMode: is missing"},
           {v1 + ", interactiveMode: Always", "needs a terminal"},
           {v1 + ", interactiveMode: Maybe", "is none of"},
           {v1 + ", interactiveMode: Never, provideClusterInfo: perhaps", "neither true nor false"},
           {v1 + ", interactiveMode: Never, args: [{a: b}]", "expected strings"},
           {v1 + ", interactiveMode: Never, env: [{value: v}]", "env[0].name: is missing"}}) {
    EXPECT_NE(ErrorOf(WithExec(exec)).find(error), std::string::npos)
        << exec << ": " << ErrorOf(WithExec(exec));
  }
  EXPECT_NE(ErrorOf(With("client-key-data: a2V5",
                         "client-key-data: a2V5\n    exec: {" + v1 + ", interactiveMode: Never}"))
                .find("only one may"),
            std::string::npos);
}

TEST(KubeConfigTest, TokensComeFromTheFileOfTheMoment) {
  std::string directory = std::filesystem::temp_directory_path() / "kubeconfig-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  std::ofstream(directory + "/config")
      << With("client-certificate: /pki/node.crt\n    client-key-data: a2V5",
              "token: fallback\n    tokenFile: token");
  const auto read = ReadKubeConfig(directory + "/config");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_FALSE(read->BearerToken());
  for (const char* token : {"first\n", "second"}) {
    std::ofstream(directory + "/token") << token;
    ASSERT_TRUE(read->BearerToken());
    EXPECT_EQ(*read->BearerToken() + "\n", token + std::string(*token == 'f' ? "" : "\n"));
  }
  std::ofstream(directory + "/token") << "a\r\nHost: b\n";
  EXPECT_FALSE(read->BearerToken()) << "no lines of one's own in a request";
  std::filesystem::remove_all(directory);
  EXPECT_FALSE(ParseKubeConfig(
      With("client-certificate: /pki/node.crt\n    client-key-data: a2V5", "token: \"a\\r\\nb\""),
      "f"));
}

TEST(KubeConfigTest, AMissingFileIsNamed) {
  const auto read = ReadKubeConfig("/nonexistent/kubeconfig");
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find("/nonexistent/kubeconfig"), std::string::npos);
}

}  // namespace
}  // namespace holdfast::agent
