// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/short_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

using Names = std::vector<std::string>;

class ShortNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "short-names-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    file_ = directory_ / "registries.conf";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  // By name below the directory: "registries.conf", "registries.conf.d/a.conf".
  Result<ShortNames> Read(const std::map<std::string, std::string>& files) {
    for (const auto& [name, text] : files) {
      const std::filesystem::path path = directory_ / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
    return ShortNames::Read(file_);
  }
  Names Of(const std::string& text, const std::string& name) {
    const auto names = Read({{"registries.conf", text}});
    if (!names) return {names.error().message()};
    const auto candidates = names->Candidates(name);
    return candidates ? *candidates : Names{candidates.error().message()};
  }
  // The error of reading it, without the file's name.
  std::string Fault(const std::string& text) {
    const auto names = Read({{"registries.conf", text}});
    return names ? "" : names.error().message().substr(file_.size() + 2);
  }

  std::filesystem::path directory_;
  std::string file_;
};

TEST_F(ShortNamesTest, WithoutAFileTheyStayAsTheyAre) {
  for (const char* name : {"nginx", "org/app:1", "quay.io/app", "localhost/app"}) {
    EXPECT_EQ(*ShortNames().Candidates(name), Names{name});
  }
}

TEST_F(ShortNamesTest, EachRegistryIsSearchedInItsOrder) {
  const std::string conf = "unqualified-search-registries = [\"quay.io\", \"registry:5000\"]\n";
  EXPECT_EQ(Of(conf, "org/app:1"), (Names{"quay.io/org/app:1", "registry:5000/org/app:1"}));
  EXPECT_EQ(Of(conf, "app@sha256:00"),
            (Names{"quay.io/app@sha256:00", "registry:5000/app@sha256:00"}));
  for (const char* full : {"ghcr.io/app", "localhost/app:1", "registry:5000/app"}) {
    EXPECT_EQ(Of(conf, full), Names{full});
  }
}

TEST_F(ShortNamesTest, AnAliasGoesBeforeTheSearchAndKeepsTagAndDigest) {
  const std::string conf =
      "unqualified-search-registries = [\"a.io\", \"b.io\"]\nshort-name-mode = \"enforcing\"\n"
      "[aliases]\n\"nginx\" = \"mirror.example:5000/web/nginx\"\n\"org/app\" = \"quay.io/app\"\n";
  EXPECT_EQ(Of(conf, "nginx"), Names{"mirror.example:5000/web/nginx"});
  EXPECT_EQ(Of(conf, "nginx:1.27@sha256:00"),
            Names{"mirror.example:5000/web/nginx:1.27@sha256:00"});
  EXPECT_EQ(Of(conf, "org/app:2"), Names{"quay.io/app:2"});
}

TEST_F(ShortNamesTest, WhatTheFileLeavesOpenIsNotGuessed) {
  const std::string two = "unqualified-search-registries = [\"a.io\", \"b.io\"]\n";
  EXPECT_NE(
      Of(two + "short-name-mode = \"enforcing\"", "app")[0].find("enforcing: name the registry"),
      std::string::npos);
  for (const char* mode : {"permissive", "disabled"}) {
    EXPECT_EQ(Of(StrCat(two, "short-name-mode = \"", mode, "\""), "app").size(), 2U) << mode;
  }
  EXPECT_EQ(
      Of("unqualified-search-registries = [\"a.io\"]\nshort-name-mode = \"enforcing\"", "app"),
      Names{"a.io/app"});
  EXPECT_NE(Of("unqualified-search-registries = []", "app")[0].find("searches no registry"),
            std::string::npos);
  EXPECT_EQ(Of("short-name-mode = \"enforcing\"", "app"), Names{"app"}) << "docker.io's";
}

TEST_F(ShortNamesTest, LaterFilesOverride) {
  const auto names =
      Read({{"registries.conf",
             "unqualified-search-registries = [\"a.io\"]\n[aliases]\none = \"a.io/one\"\n"
             "two = \"a.io/two\"\nthree = \"a.io/three\"\n"},
            {"registries.conf.d/20.conf", "[aliases]\ntwo = \"c.io/two\"\nthree = \"\"\n"},
            {"registries.conf.d/10.conf",
             "unqualified-search-registries = [\"b.io\"]\n[aliases]\ntwo = \"b.io/two\"\n"},
            {"registries.conf.d/30.txt", "nonsense"}});
  ASSERT_TRUE(names) << names.error().message();
  EXPECT_EQ(*names->Candidates("one"), Names{"a.io/one"});
  EXPECT_EQ(*names->Candidates("two"), Names{"c.io/two"});
  EXPECT_EQ(*names->Candidates("three"), Names{"b.io/three"}) << "its alias was taken back";
}

TEST_F(ShortNamesTest, MistakesAndWhatIsNotHonouredAreRefusedWithTheirLine) {
  EXPECT_EQ(Fault("\n[[registry]]\nprefix = \"a.io\"\nblocked = true\n").substr(0, 31),
            "line 2: registry: not honoured:");
  EXPECT_EQ(Fault("[registries.search]\nregistries = [\"a.io\"]\n").substr(0, 33),
            "line 1: registries: not honoured:");
  EXPECT_EQ(Fault("credential-helpers = [\"secret\"]").substr(0, 41),
            "line 1: credential-helpers: not honoured:");
  EXPECT_EQ(Fault("\nshort-name-mode = \"lax\"").substr(0, 7), "line 2:");
  for (const char* hosts :
       {"\"a.io\"", "[1]", "[\"registry\"]", "[\"a.io/path\"]", "[\"https://a.io\"]", "[\"\"]"}) {
    EXPECT_NE(Fault(StrCat("unqualified-search-registries = ", hosts)), "") << hosts;
  }
  for (const char* alias :
       {"a = 1", "a = \"b\"", "a = \"b.io/x:1\"", "\"a:1\" = \"b.io/x\"", "\"a.io/b\" = \"b.io/x\"",
        "a = \"b.io/X\"", "quay.io = \"b.io/x\"", "a = \"b.io/x@sha256:00\""}) {
    EXPECT_NE(Fault(StrCat("[aliases]\n", alias)), "") << alias;
  }
  EXPECT_NE(Fault("= 1"), "");
  EXPECT_FALSE(ShortNames::Read(directory_ / "absent"));
}

// toml++ has no defined answer to some of these outside of comments.
TEST_F(ShortNamesTest, BeyondAsciiThereAreComments) {
  EXPECT_TRUE(Read({{"registries.conf", "# f\u00fcr alle\n[aliases]\n"}}));
  for (const char* text : {"\u00e4 = 1\n", "[aliases]\n\"a\" = \"q.io/a\" \u00e4\n", "\"#\" \u00e4",
                           "a = \"\"\"\n# \"\"\" \u0100\n"}) {
    const auto names = Read({{"registries.conf", text}});
    ASSERT_FALSE(names) << text;
    EXPECT_NE(names.error().message().find("beyond ASCII"), std::string::npos)
        << names.error().message();
  }
}

// toml++ asserts some of these, which ended the whole program.
TEST_F(ShortNamesTest, AKeyThatIsNoneIsAFaultOfItsLine) {
  for (const char* text :
       {"[)liases]", "[ = 1", "[", "[[", "[a.)]", "a.) = 1", ")", "= 1", "a. = 1"}) {
    const auto names = Read({{"registries.conf", StrCat("# first\n", text, "\n")}});
    ASSERT_FALSE(names) << text;
    EXPECT_NE(names.error().message().find("line 2"), std::string::npos)
        << text << ": " << names.error().message();
  }
}

}  // namespace
}  // namespace holdfast::runtime
