// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/fetch/challenge.h"

#include <gtest/gtest.h>

namespace holdfast::runtime::fetch {
namespace {

using Challenges = std::vector<Challenge>;

TEST(ChallengeTest, WhatRegistriesWrite) {
  EXPECT_EQ(
      ParseChallenges(R"(Bearer realm="https://auth.docker.io/token",service="registry.docker.io",)"
                      R"(scope="repository:library/nginx:pull")"),
      (Challenges{{"bearer", "https://auth.docker.io/token", "registry.docker.io",
                   "repository:library/nginx:pull", ""}}));
  EXPECT_EQ(ParseChallenges("BASIC realm=here"), (Challenges{{"basic", "here", "", "", ""}}));
  EXPECT_EQ(ParseChallenges(R"(Negotiate, Basic realm="a, b", Bearer realm="c",error="x")"),
            (Challenges{{"negotiate", "", "", "", ""},
                        {"basic", "a, b", "", "", ""},
                        {"bearer", "c", "", "", "x"}}));
  EXPECT_EQ(ParseChallenges(R"(Bearer realm = "a\"b" , unknown=x)"),
            (Challenges{{"bearer", "a\"b", "", "", ""}}));
}

TEST(ChallengeTest, WhatCannotBeReadEndsTheList) {
  EXPECT_TRUE(ParseChallenges("").empty());
  EXPECT_TRUE(ParseChallenges("=").empty());
  EXPECT_TRUE(ParseChallenges("realm=\"x\"").empty()) << "a parameter of no scheme";
  EXPECT_EQ(ParseChallenges(R"(Bearer realm="never closed)").size(), 1u);
  EXPECT_EQ(ParseChallenges(R"(Bearer realm="never closed)")[0].realm, "");
  std::string many;
  for (int i = 0; i < 100; ++i) many += "Basic, ";
  EXPECT_EQ(ParseChallenges(many).size(), kMaxChallenges);
}

}  // namespace
}  // namespace holdfast::runtime::fetch
