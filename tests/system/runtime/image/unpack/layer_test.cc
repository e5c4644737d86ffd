// SPDX-License-Identifier: Apache-2.0
// What an honest layer must come out as.
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "tests/system/runtime/image/unpack/layer_fixture.h"

namespace holdfast::runtime::unpack {
namespace {

using test::Dir;
using test::File;
using test::Hardlink;
using test::Link;
using test::TarMember;

using ::testing::Test;

TEST_F(LayerTest, KeepsOwnerModeTimeAndSetUserId) {
  TarMember tool = File("usr/bin/su", "elf", 04755);
  tool.uid = 1000;
  tool.gid = 70000;
  tool.mtime = 1234567890;
  TarMember dir = Dir("var/tmp", 01777);
  dir.mtime = 1000000000;
  auto report = Unpack({Dir("usr"), Dir("usr/bin"), tool, dir, File("var/tmp/x", "")});
  ASSERT_TRUE(report) << report.error().message();
  const struct stat st = Stat("usr/bin/su");
  EXPECT_EQ(st.st_mode, S_IFREG | 04755u);
  EXPECT_EQ(st.st_uid, 1000u);
  EXPECT_EQ(st.st_gid, 70000u);
  EXPECT_EQ(st.st_mtim.tv_sec, 1234567890);
  EXPECT_EQ(Stat("var/tmp").st_mode, S_IFDIR | 01777u);
  EXPECT_EQ(Stat("var/tmp").st_mtim.tv_sec, 1000000000) << "set after the directory was filled";
}

TEST_F(LayerTest, KeepsLinksAndNodes) {
  auto report = Unpack({File("a", "data"), Hardlink("b", "./a"), Link("c", "/etc/passwd"),
                        TarMember{.name = "null", .mode = S_IFCHR | 0666, .device = makedev(1, 3)},
                        TarMember{.name = "disk", .mode = S_IFBLK | 0600, .device = makedev(7, 0)},
                        TarMember{.name = "fifo", .mode = S_IFIFO | 0644}, Hardlink("d", "c")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Stat("a").st_ino, Stat("b").st_ino);
  EXPECT_EQ(std::filesystem::read_symlink(Root("c")), "/etc/passwd");
  EXPECT_EQ(Stat("c").st_ino, Stat("d").st_ino) << "a hard link to a symbolic link";
  EXPECT_EQ(Stat("null").st_rdev, makedev(1, 3));
  EXPECT_EQ(Stat("null").st_mode, S_IFCHR | 0666u);
  EXPECT_EQ(Stat("disk").st_rdev, makedev(7, 0));
  EXPECT_TRUE(S_ISFIFO(Stat("fifo").st_mode));
}

TEST_F(LayerTest, WhiteoutsBecomeWhatOverlayfsReads) {
  auto report = Unpack({Dir("etc"), File("etc/.wh.motd", ""), File("etc/conf/.wh..wh..opq", ""),
                        File("etc/conf/new", "x"), File(".wh..wh.plnk", ""), File(".wh.gone", "")});
  ASSERT_TRUE(report) << report.error().message();
  for (const char* name : {"etc/motd", "gone"}) {
    EXPECT_TRUE(S_ISCHR(Stat(name).st_mode)) << name;
    EXPECT_EQ(Stat(name).st_rdev, makedev(0, 0)) << name;
  }
  EXPECT_EQ(report->opaque, std::vector<std::string>{"etc/conf"});
  EXPECT_EQ(Content("etc/conf/new"), "x");
  EXPECT_FALSE(Exists(".wh..wh.plnk"));
}

TEST_F(LayerTest, AWhiteoutHidesOnlyLowerLayersInEitherOrder) {
  auto report = Unpack({File("first/own", "kept"), File(".wh.first", ""), File(".wh.second", ""),
                        File("second/own", "kept"), File(".wh.third", ""), File("third", "kept"),
                        File(".wh.fourth", ""), Dir("fourth")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("first/own"), "kept");
  EXPECT_EQ(Content("second/own"), "kept");
  EXPECT_EQ(Content("third"), "kept");
  EXPECT_EQ(report->opaque, (std::vector<std::string>{"first", "fourth", "second"}));
}

// umoci writes such layers of a directory that has become something else.
TEST_F(LayerTest, AWhiteoutBelowWhatTheLayerMakesAFileOrALinkHidesNothing) {
  auto report =
      Unpack({Dir("other"), File("other/inside", "kept"), File("file", "x"),
              File("file/.wh.inside", ""), File("file/.wh.sub", ""), File("file/sub/.wh.deep", ""),
              File("file/.wh..wh..opq", ""), Link("link", "other"), File("link/.wh.inside", ""),
              File("link/.wh..wh..opq", ""), Link("dangling", "no/where"),
              File("dangling/.wh.inside", ""), File(".wh.gone", ""), File("gone/.wh.inside", "")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("file"), "x");
  EXPECT_EQ(Content("other/inside"), "kept") << "no link is followed";
  EXPECT_EQ(std::filesystem::read_symlink(Root("dangling")), "no/where");
  EXPECT_FALSE(Exists("no"));
  EXPECT_TRUE(S_ISCHR(Stat("gone").st_mode));
  EXPECT_TRUE(report->opaque.empty());
}

TEST_F(LayerTest, ADirectoryInPlaceOfAFileOfItsLayerHidesWhatTheFileHid) {
  auto report = Unpack({File("a", "file"), File("a/.wh.lower", ""), Dir("a"), File("a/own", "x"),
                        Link("b", "a"), Dir("b")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->opaque, (std::vector<std::string>{"a", "b"}));
}

TEST_F(LayerTest, ALaterMemberReplacesAnEarlierOne) {
  auto report = Unpack({File("a", "1"), File("a", "2"), Dir("b"), File("b/in", "x"),
                        File("b", "file"), File("c", "file"), Dir("c"), File("c/in", "y"),
                        Dir("d", 0700), File("d/kept", "z"), Dir("d", 0711)});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("a"), "2");
  EXPECT_EQ(Content("b"), "file");
  EXPECT_EQ(Content("c/in"), "y");
  EXPECT_EQ(Content("d/kept"), "z");
  EXPECT_EQ(Stat("d").st_mode, S_IFDIR | 0711u);
}

TEST_F(LayerTest, AReplacedHardLinkDoesNotChangeItsTwin) {
  auto report = Unpack({File("a", "original"), Hardlink("b", "a"), File("b", "other")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("a"), "original");
  EXPECT_EQ(Content("b"), "other");
}

TEST_F(LayerTest, LongNamesInBothFormats) {
  const std::string longest(255, 'n');
  const std::string path = std::string(200, 'd') + "/" + std::string(200, 'e') + "/" + longest;
  const std::string target(1000, 't');
  for (const bool gnu : {false, true}) {
    auto report =
        Unpack(test::BuildTar({File(path, "deep"), Link("link", target), Hardlink("hard", path)},
                              test::TarPacking::kPlain, gnu));
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(Content(path), "deep");
    EXPECT_EQ(std::filesystem::read_symlink(Root("link")).string(), target);
    EXPECT_EQ(Stat("hard").st_nlink, 2u);
  }
}

TEST_F(LayerTest, NamesInUtf8AndInNoEncodingAtAll) {
  auto report = Unpack({File("gr\xc3\xbc\xc3\x9f", "utf-8"), File("caf\xe9", "latin-1")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(Content("gr\xc3\xbc\xc3\x9f"), "utf-8");
  EXPECT_EQ(Content("caf\xe9"), "latin-1");
}

TEST_F(LayerTest, KeepsFileCapabilitiesAndDropsControlXattrs) {
  // VFS_CAP_REVISION_2, effective, cap_net_bind_service.
  const std::string capability(
      "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", 20);
  TarMember file = File("bin", "elf", 0755);
  file.uid = 7;
  file.xattrs = {{"security.capability", capability}, {"trusted.overlay.redirect", "/etc"},
                 {"trusted.overlay.metacopy", ""},    {"user.overlay.opaque", "y"},
                 {"security.selinux", "label"},       {"security.ima", "x"}};
  TarMember dir = Dir("dir");
  dir.xattrs = {{"trusted.overlay.opaque", "y"}};
  auto report = Unpack({file, dir});
  ASSERT_TRUE(report) << report.error().message();
  char value[64];
  ASSERT_EQ(::getxattr(Root("bin").c_str(), "security.capability", value, sizeof value), 20);
  EXPECT_EQ(std::string(value, 20), capability);
  for (const char* name : {"trusted.overlay.redirect", "trusted.overlay.metacopy",
                           "user.overlay.opaque", "security.ima"}) {
    EXPECT_LT(::getxattr(Root("bin").c_str(), name, value, sizeof value), 0) << name;
  }
  EXPECT_LT(::getxattr(Root("dir").c_str(), "trusted.overlay.opaque", value, sizeof value), 0);
  EXPECT_TRUE(report->opaque.empty()) << "only a whiteout makes a directory opaque";
}

TEST_F(LayerTest, ReportsDirectoriesThatHadNoMember) {
  auto report = Unpack({File("tmp/x/y", "1"), Dir("tmp/x"), File("srv/z", "2")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->implicit, (std::vector<std::string>{"", "srv", "tmp"}));
  EXPECT_EQ(Stat("srv").st_mode, S_IFDIR | 0755u);
  // A deleted directory lends nothing to the one that takes its place.
  report = Unpack({File(".wh.a", ""), File("a/new", ""), File("b/new", ""), File(".wh.b", ""),
                   File("c/.wh..wh..opq", "")});
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->implicit, (std::vector<std::string>{"", "c"}));
}

TEST_F(LayerTest, EmptyStreamsAreEmptyLayers) {
  for (const std::string& tar :
       {std::string(), std::string(1024, '\0'), std::string(10240, '\0')}) {
    auto report = Unpack(tar);
    ASSERT_TRUE(report) << report.error().message();
    EXPECT_EQ(report->members, 0u);
  }
}

// umoci's `insert` writes no padding and no end mark.
TEST_F(LayerTest, TheLastFilesPaddingMayBeMissing) {
  const std::string whole = test::BuildTar({File("a", "first"), File("b", "only this")});
  const size_t data = 3 * 512;
  for (const size_t length : {data + 9, data + 10, data + 511}) {
    auto report = Unpack(whole.substr(0, length));
    ASSERT_TRUE(report) << length << ": " << report.error().message();
    EXPECT_EQ(Content("b"), "only this");
    EXPECT_EQ(report->members, 2u);
  }
  for (const size_t length : {data + 8, data + 1, data - 1}) {
    EXPECT_FALSE(Unpack(whole.substr(0, length))) << length;
  }
}

TEST_F(LayerTest, SparseFilesStaySparse) {
  // What `tar --sparse` writes, made by libarchive's pax writer.
  std::string out;
  archive* writer = ::archive_write_new();
  ::archive_write_set_format_pax(writer);
  ::archive_write_set_bytes_in_last_block(writer, 1);
  const auto append = [](archive*, void* to, const void* data, size_t size) -> la_ssize_t {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), size);
    return static_cast<la_ssize_t>(size);
  };
  ::archive_write_open(writer, &out, nullptr, append, nullptr);
  archive_entry* entry = ::archive_entry_new();
  ::archive_entry_set_pathname(entry, "lastlog");
  ::archive_entry_set_mode(entry, S_IFREG | 0644);
  constexpr la_int64_t kSize = 1 << 30;
  ::archive_entry_set_size(entry, kSize);
  ::archive_entry_sparse_add_entry(entry, 1 << 20, 4096);
  ::archive_write_header(writer, entry);
  // The writer takes the bytes of the whole file and drops the holes.
  const std::string zeros(1 << 20, '\0');
  ::archive_write_data(writer, zeros.data(), zeros.size());
  const std::string data(4096, 'x');
  ::archive_write_data(writer, data.data(), data.size());
  ::archive_entry_free(entry);
  ::archive_write_close(writer);
  ::archive_write_free(writer);
  ASSERT_LT(out.size(), 1u << 20);

  auto report = Unpack(out);
  ASSERT_TRUE(report) << report.error().message();
  const struct stat st = Stat("lastlog");
  EXPECT_EQ(st.st_size, kSize);
  EXPECT_LT(st.st_blocks * 512, 1 << 20);
  std::ifstream file(Root("lastlog"));
  file.seekg(1 << 20);
  EXPECT_EQ(file.get(), 'x');
}

}  // namespace
}  // namespace holdfast::runtime::unpack
