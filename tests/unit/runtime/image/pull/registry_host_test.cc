// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/registry_host.h"

#include <gtest/gtest.h>

#include "runtime/image/documents/platform.h"

namespace holdfast::runtime {
namespace {

std::string ErrorOf(const std::string& text) {
  const auto hosts = ParseHostsToml(text, "r.example");
  return hosts ? "none" : hosts.error().message();
}

TEST(HostsTomlTest, HostsComeInTheOrderOfTheFileAndTheServerLast) {
  const auto hosts = ParseHostsToml(R"(
server = "https://r.example"
[host."https://z.example"]
  capabilities = ["pull", "resolve", "push"]
[host."http://a.example:5000/prefix"]
  capabilities = ["pull"]
[host."m.example/v2/"]
  override_path = true
  dial_timeout = "1m30.5s"
  header = { X-A = "1", X-B = ["2", "3"] }
)",
                                    "r.example");
  ASSERT_TRUE(hosts) << hosts.error().message();
  std::vector<std::string> bases;
  for (const HostEntry& entry : *hosts) bases.push_back(entry.host.base);
  EXPECT_EQ(bases,
            (std::vector<std::string>{"https://z.example/v2", "http://a.example:5000/prefix/v2",
                                      "https://m.example/v2", "https://r.example/v2"}));
  EXPECT_FALSE((*hosts)[1].host.resolve);
  EXPECT_TRUE((*hosts)[1].host.pull);
  EXPECT_TRUE((*hosts)[0].host.push);
  EXPECT_FALSE((*hosts)[1].host.push);
  EXPECT_TRUE((*hosts)[2].host.push) << "who says nothing of it takes all";
  EXPECT_EQ((*hosts)[1].host.authority, "a.example:5000");
  EXPECT_EQ((*hosts)[2].host.dial_timeout, std::chrono::milliseconds(90'500));
  EXPECT_EQ((*hosts)[2].host.headers, (std::vector<std::string>{"X-A: 1", "X-B: 2", "X-B: 3"}));
  EXPECT_TRUE((*hosts)[3].host.is_server);
}

TEST(HostsTomlTest, CertificatesInEachForm) {
  const auto hosts = ParseHostsToml(
      "ca = \"one.crt\"\nclient = \"both.pem\"\n[host.\"https://a\"]\nca = [\"x\", \"/y\"]\n"
      "client = [[\"c\", \"k\"]]\nskip_verify = true\n",
      "r.example");
  ASSERT_TRUE(hosts) << hosts.error().message();
  const HostEntry& a = (*hosts)[0];
  EXPECT_EQ(a.authorities, (std::vector<std::string>{"x", "/y"}));
  EXPECT_EQ(a.identities[0], std::pair(std::string("c"), std::string("k")));
  EXPECT_FALSE(a.host.trust.verify);
  const HostEntry& server = (*hosts)[1];
  EXPECT_EQ(server.identities[0], std::pair(std::string("both.pem"), std::string()));
  EXPECT_TRUE(server.host.trust.verify);
}

TEST(HostsTomlTest, MistakesNameTheirLine) {
  EXPECT_EQ(ErrorOf("\n\nmirror = 1"), "line 3: mirror: unknown field");
  EXPECT_NE(ErrorOf("[host]\na = 1\n").find("expected a table"), std::string::npos);
  EXPECT_NE(ErrorOf("[host.\"https://a\"]\ncapabilities = [\"pul\"]").find("unknown \"pul\""),
            std::string::npos);
  EXPECT_NE(ErrorOf("dial_timeout = \"10\"").find("dial_timeout"), std::string::npos);
  EXPECT_NE(ErrorOf("header = { A = \"x\\ny\" }").find("control"), std::string::npos);
  EXPECT_NE(ErrorOf("server = \"https://user:pw@a\"").find("server"), std::string::npos);
  EXPECT_NE(ErrorOf("x = [[[[[").find("line 1"), std::string::npos);
}

TEST(DefaultHostTest, TlsButOnLoopback) {
  EXPECT_EQ(DefaultHost("docker.io").base, "https://registry-1.docker.io/v2");
  EXPECT_EQ(DefaultHost("ghcr.io").base, "https://ghcr.io/v2");
  EXPECT_EQ(DefaultHost("localhost:5000").base, "http://localhost:5000/v2");
  EXPECT_EQ(DefaultHost("127.0.0.1:443").base, "https://127.0.0.1:443/v2");
  EXPECT_EQ(DefaultHost("192.0.2.1:5000").base, "https://192.0.2.1:5000/v2");
}

TEST(PlatformTest, VariantsAsContainerdRanksThem) {
  const Platform amd{"linux", "amd64", ""};
  EXPECT_EQ(RankOf({"linux", "amd64", ""}, amd), 0);
  EXPECT_EQ(RankOf({"linux", "amd64", "v1"}, amd), 0);
  EXPECT_EQ(RankOf({"linux", "amd64", "v3"}, amd), std::nullopt);
  EXPECT_EQ(RankOf({"windows", "amd64", ""}, amd), std::nullopt);
  EXPECT_EQ(RankOf({"unknown", "unknown", ""}, amd), std::nullopt);
  const Platform arm{"linux", "arm64", "v8"};
  EXPECT_EQ(RankOf({"linux", "arm64", ""}, arm), 0);
  EXPECT_EQ(RankOf({"linux", "arm64", "v8"}, arm), 0);
  EXPECT_LT(RankOf({"linux", "arm", "v7"}, arm), RankOf({"linux", "arm", "v6"}, arm));
  EXPECT_EQ(RankOf({"linux", "arm", ""}, arm), RankOf({"linux", "arm", "v7"}, arm));
  EXPECT_LT(RankOf({"linux", "arm", "v5"}, arm), RankOf({"", "", ""}, arm));
}

}  // namespace
}  // namespace holdfast::runtime
