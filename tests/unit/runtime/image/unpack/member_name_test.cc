// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/unpack/member_name.h"

#include <gtest/gtest.h>

namespace holdfast::runtime::unpack {
namespace {

TEST(MemberNameTest, CleansOrRefuses) {
  const std::pair<std::string, std::string> clean[] = {
      {"", ""},
      {".", ""},
      {"/", ""},
      {"./", ""},
      {"//.//", ""},
      {"a", "a"},
      {"./a/b/", "a/b"},
      {"/a//b", "a/b"},
      {"a/./b", "a/b"},
      {"...", "..."},
      {"..a/b..", "..a/b.."},
      {" ", " "},
      {"a\nb", "a\nb"},
      {"\xff", "\xff"},
  };
  for (const auto& [raw, expected] : clean) {
    const auto name = CleanMemberName(raw);
    ASSERT_TRUE(name) << raw;
    EXPECT_EQ(*name, expected);
  }
  for (const std::string& raw :
       {std::string(".."), std::string("../a"), std::string("a/.."), std::string("a/../b"),
        std::string("/../a"), std::string("a\0b", 3), std::string(256, 'x')}) {
    EXPECT_FALSE(CleanMemberName(raw)) << raw;
  }
}

TEST(MemberNameTest, SplitsAndPrints) {
  EXPECT_EQ(ParentOf("a/b/c"), "a/b");
  EXPECT_EQ(ParentOf("a"), "");
  EXPECT_EQ(LeafOf("a/b/c"), "c");
  EXPECT_EQ(LeafOf("a"), "a");
  EXPECT_EQ(Printable("a\x1b[31m\x7f"), "a\\x1b[31m\\x7f");
  EXPECT_EQ(Printable(std::string(300, 'x')).size(), 200u + std::string("…").size());
}

}  // namespace
}  // namespace holdfast::runtime::unpack
