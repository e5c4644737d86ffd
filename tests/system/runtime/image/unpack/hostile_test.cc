// SPDX-License-Identifier: Apache-2.0
// Archives that try to get out, or to use up the machine (security-catalogue IM-01, IM-04, IM-09).
#include <sys/sysmacros.h>

#include "tests/system/runtime/image/unpack/layer_fixture.h"

namespace holdfast::runtime::unpack {
namespace {

using test::Dir;
using test::File;
using test::Hardlink;
using test::Link;
using test::TarMember;

TarMember Typed(std::string name, const std::string& type) {
  if (type == "dir") return Dir(std::move(name));
  if (type == "symlink") return Link(std::move(name), "/canary/file");
  if (type == "char")
    return {.name = std::move(name), .mode = S_IFCHR | 0666, .device = makedev(1, 3)};
  if (type == "block")
    return {.name = std::move(name), .mode = S_IFBLK | 0666, .device = makedev(7, 0)};
  if (type == "fifo") return {.name = std::move(name), .mode = S_IFIFO | 0666};
  if (type == "hardlink") return Hardlink(std::move(name), "own");
  return File(std::move(name), "overwritten", 0777);
}

const std::vector<std::string> kTypes = {"file",  "dir",  "symlink", "char",
                                         "block", "fifo", "hardlink"};

TEST_F(LayerTest, NamesThatClimbAreRefusedForEveryType) {
  for (const std::string& type : kTypes) {
    for (const std::string name : {"../canary/file", "a/../../canary/file", "./../canary/new",
                                   "/../canary/file", "..", "a/..", "a/b/../../../canary"}) {
      auto report = Unpack({File("own", "x"), Dir("a"), Typed(name, type)});
      ASSERT_FALSE(report) << type << " " << name;
      EXPECT_EQ(report.error().code(), Code::kInvalidArgument) << report.error().message();
      ExpectCanaryUntouched();
    }
  }
}

TEST_F(LayerTest, AbsoluteNamesLandInside) {
  for (const std::string& type : kTypes) {
    const std::string name = base_ + "/canary/" + type;
    auto report = Unpack({File("own", "x"), Typed(name, type)});
    ASSERT_TRUE(report) << type << ": " << report.error().message();
    EXPECT_TRUE(Exists(name.substr(1))) << type;
    ExpectCanaryUntouched();
  }
}

TEST_F(LayerTest, MembersBelowSymlinksStayInside) {
  const std::string canary = base_ + "/canary";
  for (const std::string& target :
       {canary, std::string("../canary"), std::string("/"), std::string(".."),
        std::string("../../../../../../..") + canary}) {
    for (const std::string& type : kTypes) {
      std::filesystem::remove_all(Root());
      std::filesystem::create_directory(Root());
      // Refused (the target is not there) or done inside the root; never outside.
      (void)Unpack({File("own", "x"), Link("up", target), Typed("up/file", type),
                    Typed("up" + canary + "/file", type)});
      ExpectCanaryUntouched();
    }
  }
}

TEST_F(LayerTest, ASymlinkToADirectoryOfTheSameLayerIsFollowedInside) {
  auto report =
      Unpack({Dir("usr"), Dir("usr/lib"), Link("lib", "/usr/lib"), File("lib/libc.so", "elf")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("usr/lib/libc.so"), "elf");
  EXPECT_TRUE(S_ISLNK(Stat("lib").st_mode));
}

TEST_F(LayerTest, HardLinksReachOnlyThisLayer) {
  const std::string canary = base_ + "/canary/file";
  for (const std::string& target :
       {canary, "../canary/file" + std::string(), std::string("/etc/passwd"),
        std::string("up/file"), std::string("own/.."), std::string("/"), std::string("."),
        std::string("self"), std::string("dir")}) {
    auto report = Unpack(
        {File("own", "x"), Dir("dir"), Link("up", base_ + "/canary"), Hardlink("self", target)});
    EXPECT_FALSE(report) << target;
    ExpectCanaryUntouched();
  }
}

TEST_F(LayerTest, WritingThroughALinkWritesANewFile) {
  // A symbolic link, and a hard link to it, then a file of the same name: the link is replaced.
  auto report =
      Unpack({Link("a", base_ + "/canary/file"), File("a", "mine", 0777),
              Link("b", base_ + "/canary/file"), Hardlink("c", "b"), File("c", "mine", 0777)});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("a"), "mine");
  EXPECT_EQ(Content("c"), "mine");
  ExpectCanaryUntouched();
}

TEST_F(LayerTest, ADirectoryMemberOverASymlinkReplacesIt) {
  auto report = Unpack({Link("d", base_ + "/canary"), Dir("d", 0777), File("d/file", "mine")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_TRUE(S_ISDIR(Stat("d").st_mode));
  EXPECT_EQ(Content("d/file"), "mine");
  ExpectCanaryUntouched();
}

TEST_F(LayerTest, TheRootItselfIsOnlyADirectory) {
  for (const std::string name : {".", "/", "./", "//"}) {
    for (const std::string& type : kTypes) {
      auto report = Unpack({File("own", "x"), Typed(name, type)});
      if (type == "dir") {
        EXPECT_TRUE(report) << name << ": " << report.error().message();
      } else {
        EXPECT_FALSE(report) << name << " as " << type;
      }
      ExpectCanaryUntouched();
    }
  }
}

TEST_F(LayerTest, WhiteoutTricksAreRefused) {
  for (const std::string name : {".wh.", ".wh..", ".wh...", "a/.wh..", ".wh./x", ".wh.dir/inner",
                                 "../.wh.canary", ".wh.../x", "a/../.wh.x"}) {
    auto report = Unpack({Dir("a"), File("keep", "x"), File(name, "")});
    EXPECT_FALSE(report) << name;
    EXPECT_EQ(Content("keep"), "x");
    ExpectCanaryUntouched();
  }
}

TEST_F(LayerTest, WhiteoutsAndOpaqueMarksBelowSymlinksStayInside) {
  (void)Unpack(
      {Link("up", base_ + "/canary"), File("up/.wh.file", ""), File("up/.wh..wh..opq", "")});
  ExpectCanaryUntouched();
}

TEST_F(LayerTest, AMemberBelowAFileIsRefused) {
  for (const std::string& type : kTypes) {
    if (type == "dir" || type == "symlink") continue;
    auto report = Unpack({File("own", "x"), Typed("a", type), File("a/b", "y")});
    EXPECT_FALSE(report) << type;
  }
}

TEST_F(LayerTest, NamesBeyondTheLimitsAreRefused) {
  const std::string part(255, 'x');
  std::string deep;
  for (int i = 0; i < 1025; ++i) deep += "d/";
  std::string longest;
  while (longest.size() < 4200) longest += part + "/";
  for (const std::string& name : {part + "y", deep + "f", longest + "f"}) {
    auto report = Unpack({File(name, "x")});
    ASSERT_FALSE(report) << name.size();
    EXPECT_EQ(report.error().code(), Code::kInvalidArgument) << report.error().message();
  }
}

TEST_F(LayerTest, SymlinksCannotNestDirectoriesWithoutEnd) {
  std::vector<TarMember> members;
  std::string deep = "l0";
  for (int i = 1; i < 1000; ++i) deep += "/d";
  members.push_back(File(deep + "/f", "x"));
  members.push_back(Link("short", deep));
  std::string below = "short";
  for (int i = 1; i < 1000; ++i) below += "/d";
  members.push_back(Dir("short/d"));
  members.push_back(File(below + "/f", "x"));
  auto report = Unpack(members);
  ASSERT_FALSE(report);
  auto removed = sys::RemoveTreeAt(sys::OpenDir(base_)->get(), "root");
  EXPECT_TRUE(removed) << removed.error().message();
  std::filesystem::create_directory(Root());
}

TEST_F(LayerTest, LimitsOnMembersBytesAndSizes) {
  UnpackLimits limits;
  limits.members = 3;
  auto many =
      Unpack(test::BuildTar({File("1", ""), File("2", ""), File("3", ""), File("4", "")}), limits);
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().code(), Code::kResourceExhausted);
  limits = {};
  limits.bytes = 10;
  auto large = Unpack(test::BuildTar({File("1", "12345"), File("2", "123456")}), limits);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), Code::kResourceExhausted);
}

TEST_F(LayerTest, OwnersOutOfRangeAreRefused) {
  // (uid_t)-1 means "leave it" to chown(2).
  TarMember file = File("f", "x");
  file.uid = 0xffffffff;
  EXPECT_FALSE(Unpack({file}));
}

TEST_F(LayerTest, TruncatedStreamsAreRefusedAtEveryPlace) {
  const std::string tar =
      test::BuildTar({Dir("a"), File("a/" + std::string(150, 'n'), std::string(2000, 'c')),
                      Link("l", std::string(150, 't'))});
  const size_t end = tar.size() - 1024;  // the end mark may be missing, members may not
  size_t refused = 0;
  for (size_t length = 1; length < end; length += 97) {
    if (length % 512 == 0) continue;
    if (!Unpack(tar.substr(0, length))) ++refused;
  }
  EXPECT_GT(refused, 20u);
  ExpectCanaryUntouched();
}

}  // namespace
}  // namespace holdfast::runtime::unpack
