// SPDX-License-Identifier: Apache-2.0
#include "agent/images/keyring.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

std::string UsersFor(const Keyring& keyring, const std::string& repository) {
  std::string users;
  for (const RegistryLogin& login : keyring.Find(repository)) users += login.username + " ";
  return users;
}

// Each key with itself as the user.
Keyring Of(std::initializer_list<const char*> keys) {
  Keyring keyring;
  for (const char* key : keys) keyring.Add(key, {key, "pw"});
  return keyring;
}

TEST(KeyringTest, HostsPathsAndPorts) {
  EXPECT_EQ(UsersFor(Of({"r.example"}), "r.example/a"), "r.example ");
  EXPECT_EQ(UsersFor(Of({"https://r.example/v2/"}), "r.example/a"), "https://r.example/v2/ ");
  EXPECT_EQ(UsersFor(Of({"r.example:5000"}), "r.example/a"), "");
  EXPECT_EQ(UsersFor(Of({"r.example"}), "r.example:5000/a"), "");
  EXPECT_EQ(UsersFor(Of({"r.example/team"}), "r.example/team/app"), "r.example/team ");
  EXPECT_EQ(UsersFor(Of({"r.example/team"}), "r.example/other"), "");
  EXPECT_EQ(UsersFor(Of({"example"}), "r.example/a"), "");
}

TEST(KeyringTest, TheLongestKeyComesFirstAndAllThatMatchCount) {
  EXPECT_EQ(
      UsersFor(Of({"r.example", "r.example/team/app", "r.example/team"}), "r.example/team/app"),
      "r.example/team/app r.example/team r.example ");
}

TEST(KeyringTest, GlobsWithinALabel) {
  EXPECT_EQ(UsersFor(Of({"*.r.example"}), "a.r.example/x"), "*.r.example ");
  EXPECT_EQ(UsersFor(Of({"*.r.example"}), "a.b.r.example/x"), "");
  EXPECT_EQ(UsersFor(Of({"pre*x.example:80"}), "prefix.example:80/x"), "pre*x.example:80 ");
  EXPECT_EQ(UsersFor(Of({"[a-c]?.example"}), "b1.example/x"), "[a-c]?.example ");
  EXPECT_EQ(UsersFor(Of({"[^a]1.example"}), "a1.example/x"), "");
  EXPECT_EQ(UsersFor(Of({"a*a*a*a*a*a*b.example"}), std::string(60, 'a') + ".example/x"), "");
}

TEST(KeyringTest, DockerHubHasManyNames) {
  for (const char* key : {"https://index.docker.io/v1/", "index.docker.io", "docker.io"}) {
    EXPECT_EQ(UsersFor(Of({key}), "docker.io/library/nginx"), std::string(key) + " ") << key;
  }
  EXPECT_EQ(UsersFor(Of({"index.docker.io"}), "quay.io/x/y"), "");
}

TEST(DockerConfigTest, BothForms) {
  const auto config = ParseDockerConfig(
      R"({"auths":{"a.example":{"auth":"dXNlcjpwOnc="},"b.example":{"username":"u","password":"p"},)"
      R"("c.example":{}},"credsStore":"x","HttpHeaders":{}})",
      false);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->Find("a.example/x"), (std::vector<RegistryLogin>{{"user", "p:w"}}));
  EXPECT_EQ(config->Find("b.example/x"), (std::vector<RegistryLogin>{{"u", "p"}}));
  EXPECT_TRUE(config->Find("c.example/x").empty());
  const auto legacy = ParseDockerConfig(R"({"a.example":{"auth":"dTpw"}})", true);
  EXPECT_EQ(legacy->Find("a.example/x"), (std::vector<RegistryLogin>{{"u", "p"}}));
}

TEST(DockerConfigTest, ErrorsHoldNothingOfASecret) {
  for (const char* text :
       {"secret", "[\"secret\"]", R"({"auths":["secret"]})",
        R"({"auths":{"a":{"auth":"c2VjcmV0"}}})", R"({"auths":{"a":"secret"}})"}) {
    const auto config = ParseDockerConfig(text, false);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().message().find("secret"), std::string::npos) << text;
    EXPECT_EQ(config.error().message().find("c2Vj"), std::string::npos) << text;
  }
  EXPECT_FALSE(ParseDockerConfig(std::string(100'000, '['), false));
}

}  // namespace
}  // namespace holdfast::agent
