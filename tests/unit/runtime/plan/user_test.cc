// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/user.h"

#include <gtest/gtest.h>

#include <chrono>

namespace holdfast::runtime {
namespace {

constexpr const char* kPasswd =
    "root:x:0:0:root:/root:/bin/sh\n"
    "web:x:1001:1002::/srv/web:/bin/sh\n"
    "00:x:0:0::/evil:/bin/sh\n"
    "+0:x:0:0::/evil:/bin/sh\n"
    "-1:x:0:0::/evil:/bin/sh\n"
    " 0:x:0:0::/evil:/bin/sh\n"
    "0x0:x:0:0::/evil:/bin/sh\n"
    "4294967296:x:0:0::/evil:/bin/sh\n"
    "broken:x:abc:0::/:/\n"
    "short:x\n"
    "newline:x:7:7::/home/\x01x:/bin/sh\n";
constexpr const char* kGroup =
    "root:x:0:\n"
    "web:x:1002:\n"
    "staff:x:50:someone,web\n"
    "webby:x:51:webmaster\n";

std::expected<ResolvedUser, StartFailure> Resolve(const model::UserSpec& spec) {
  return ResolveUser(spec, kPasswd, kGroup, "pod: \"p_n(u)\", container: c");
}

struct Case {
  const char* image_user;
  int64_t uid;  // -1: refused
  int64_t gid;
};

TEST(UserTest, ReadsTheImagesUserStrictly) {
  const Case cases[] = {
      {"", 0, 0},
      {"root", 0, 0},
      {"web", 1001, 1002},
      {"web:staff", 1001, 50},
      {"web:77", 1001, 77},
      {"1001", 1001, 1002},
      {"1001:0", 1001, 0},
      {"5000", 5000, 0},
      {"2147483647", 2147483647, 0},
      {"00", 0, 0},  // a number, whatever the file calls 00
      {"2147483648", -1, 0},
      {"4294967295", -1, 0},
      {"4294967296", -1, 0},
      {"99999999999999999999", -1, 0},
      {"1000:4294967296", -1, 0},
      {"nobody-here", -1, 0},
      {"web:nogroup", -1, 0},
      {"broken", -1, 0},
      {"short", -1, 0},
      {"\n", -1, 0},
  };
  for (const Case& c : cases) {
    model::UserSpec spec;
    spec.image_user = c.image_user;
    const auto user = Resolve(spec);
    ASSERT_EQ(user.has_value(), c.uid >= 0) << c.image_user;
    if (!user) {
      EXPECT_EQ(user.error().phase, StartFailure::Phase::kCreate) << c.image_user;
      continue;
    }
    EXPECT_EQ(user->uid, c.uid) << c.image_user;
    EXPECT_EQ(user->gid, c.gid) << c.image_user;
  }
}

// PR-03: nothing that could be root passes runAsNonRoot.
TEST(UserTest, RunAsNonRootRefusesEverythingThatIsOrMayBeRoot) {
  for (const char* name :
       {"", "0", "00", "0:1000", "root", "+0", "-1", " 0", "0x0", "web", ":1000", "4294967296x"}) {
    model::UserSpec spec;
    spec.run_as_non_root = true;
    spec.image_user = name;
    const auto user = Resolve(spec);
    ASSERT_FALSE(user.has_value()) << name;
    EXPECT_EQ(user.error().phase, StartFailure::Phase::kConfig) << name;
  }
  model::UserSpec spec;
  spec.run_as_non_root = true;
  spec.image_user = "web";
  spec.run_as_user = 1000;
  EXPECT_TRUE(Resolve(spec).has_value());
  spec.run_as_user = 0;
  EXPECT_EQ(Resolve(spec).error().error.message(),
            "container's runAsUser breaks non-root policy (pod: \"p_n(u)\", container: c)");
  spec.run_as_user.reset();
  spec.image_user = "1001";
  EXPECT_TRUE(Resolve(spec).has_value());
  spec.image_user = "";
  EXPECT_EQ(
      Resolve(spec).error().error.message(),
      "container has runAsNonRoot and image will run as root (pod: \"p_n(u)\", container: c)");
}

// PR-06: the golden table of groups.
TEST(UserTest, GroupsMergeTheImagesOrAreStrict) {
  struct Groups {
    const char* image_user;
    std::optional<int64_t> user, group;
    std::vector<int64_t> supplemental;
    bool strict;
    std::vector<uint32_t> expected;
  };
  const Groups rows[] = {
      {"web", {}, {}, {}, false, {1002, 50}},
      {"web", {}, {}, {}, true, {1002}},
      {"web", {}, {}, {60000, 50}, false, {1002, 50, 60000}},
      {"web", {}, {}, {60000, 50}, true, {1002, 60000, 50}},
      {"", 1001, {}, {}, false, {1002, 50}},
      {"", 1001, 3000, {}, false, {3000, 50}},
      {"", 1001, 3000, {4000}, true, {3000, 4000}},
      {"", 9999, {}, {4000}, false, {0, 4000}},
      {"root", 9999, 8888, {8888}, false, {8888}},
  };
  for (const Groups& row : rows) {
    model::UserSpec spec{row.image_user, row.user, row.group, false, row.supplemental, row.strict};
    const auto user = Resolve(spec);
    ASSERT_TRUE(user.has_value());
    EXPECT_EQ(user->groups, row.expected) << row.image_user;
    EXPECT_EQ(user->gid, row.expected[0]);
  }
}

TEST(UserTest, IdsOutOfRangeAreRefused) {
  for (const int64_t id : {int64_t{-1}, int64_t{2147483648}, int64_t{4294967296}}) {
    EXPECT_FALSE(Resolve({"", id, {}, false, {}, false}).has_value()) << id;
    EXPECT_FALSE(Resolve({"", {}, id, false, {}, false}).has_value()) << id;
    EXPECT_FALSE(Resolve({"", {}, {}, false, {id}, false}).has_value()) << id;
  }
}

TEST(UserTest, AHomeThatIsNoLineIsNoHome) {
  EXPECT_EQ(Resolve({"web", {}, {}, false, {}, false})->home, "/srv/web");
  EXPECT_EQ(Resolve({"newline", {}, {}, false, {}, false})->home, "/");
  EXPECT_EQ(Resolve({"123456", {}, {}, false, {}, false})->home, "/");
}

// PR-04
TEST(UserTest, HugeFilesAreReadInShortTime) {
  std::string passwd(10u << 20, 'x');  // one endless line
  std::string group;
  for (int i = 0; group.size() < (10u << 20); ++i)
    group += "g" + std::to_string(i) + ":x:" + std::to_string(i % 70000) + ":web\n";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(ResolveUser({"web", {}, {}, false, {}, false}, passwd, group, "").has_value());
  auto user = ResolveUser({"web", {}, {}, false, {}, false}, kPasswd, group, "");
  ASSERT_TRUE(user.has_value());
  EXPECT_LE(user->groups.size(), 65537u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace holdfast::runtime
