// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/volumes.h"

#include <fcntl.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "agent/volume/host_path.h"
#include "agent/volume/huge_pages.h"
#include "agent/volume/image_volumes.h"
#include "agent/volume/ownership.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/tree.h"
#include "tests/support/hostile_tree.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

struct stat Stat(const std::string& path) {
  struct stat st{};
  EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
  return st;
}

mode_t ModeOf(const std::string& path) { return Stat(path).st_mode & 07777; }

class VolumeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "holdfast-volume-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    model::Instance instance;
    instance.root_dir = dir_;
    instance.run_dir = dir_ + "/run";
    paths_.emplace(instance, PodUid("u1"), "default", "web");
  }
  void TearDown() override { fs::remove_all(dir_); }

  static corev1::Pod Pod(const std::string& volumes) {
    corev1::Pod pod;
    pod.mutable_metadata()->set_uid("u1");
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(volumes, pod.mutable_spec()));
    return pod;
  }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  std::string ErrorOf(const std::string& path, const std::string& type) {
    const auto done = EnsureHostPath(path, type);
    return done ? "" : done.error().message();
  }

  std::string dir_;
  std::optional<PodPaths> paths_;
};

constexpr char kData[] = R"(volumes { name: "data" volumeSource { emptyDir {} } })";

TEST_F(VolumeTest, AnEmptyDirIsOpenToEveryUserWhateverTheUmask) {
  const mode_t old = ::umask(0077);
  const corev1::Pod pod = Pod(kData);
  const auto made = EnsureVolumes(pod, *paths_, 0);
  ::umask(old);
  ASSERT_TRUE(made) << made.error().message();
  const std::string path = PlacesOfVolumes(pod, *paths_).at("data").path;
  EXPECT_EQ(path, dir_ + "/pods/u1/volumes/kubernetes.io~empty-dir/data");
  EXPECT_EQ(ModeOf(path), 0777u);
  std::ofstream(path + "/file") << "kept";
  ASSERT_TRUE(EnsureVolumes(pod, *paths_, 0)) << "again";
  EXPECT_TRUE(fs::exists(path + "/file"));
  EXPECT_TRUE(ReleaseVolumes(pod, *paths_)) << "nothing is mounted";
  EXPECT_TRUE(fs::exists(path + "/file")) << "goes with the pod's directory";
}

TEST_F(VolumeTest, AnFsGroupOwnsTheEmptyDir) {
  corev1::Pod pod = Pod(kData);
  pod.mutable_spec()->mutable_securitycontext()->set_fsgroup(static_cast<int64_t>(::getegid()));
  ASSERT_TRUE(EnsureVolumes(pod, *paths_, 0));
  const std::string path = PlacesOfVolumes(pod, *paths_).at("data").path;
  EXPECT_EQ(ModeOf(path), 02777u);
  EXPECT_EQ(Stat(path).st_gid, ::getegid());
  ASSERT_TRUE(EnsureVolumes(pod, *paths_, 0));
  EXPECT_EQ(ModeOf(path), 02777u) << "the setgid bit stays";
}

TEST_F(VolumeTest, WhatCannotBeSetUpIsNamed) {
  const struct {
    const char* source;
    const char* message;
  } rows[] = {
      {"configMap { localObjectReference { name: \"c\" } }", "configmap \"c\" not found"},
      {"secret { secretName: \"s\" }", "secret \"s\" not found"},
      {"gitRepo { repository: \"r\" }", "gitRepo volumes are disabled"},
      {"iscsi { targetPortal: \"a\" }", "no volume plugin matched: "},
      {"emptyDir { medium: \"Tape\" }", "unknown or unsupported storage medium \"Tape\""},
  };
  for (const auto& row : rows) {
    const corev1::Pod pod =
        Pod(std::string("volumes { name: \"v\" volumeSource { ") + row.source + " } }");
    const auto made = EnsureVolumes(pod, *paths_, 0);
    ASSERT_FALSE(made) << row.source;
    EXPECT_TRUE(made.error().message().starts_with(
        std::string("MountVolume.SetUp failed for volume \"v\" : ") + row.message))
        << made.error().message();
  }
}

TEST_F(VolumeTest, ContainersOnlyReadWhatTheAgentWritesAndWhatAClaimMayOnlyRead) {
  const corev1::Pod pod = Pod(R"(
    volumes { name: 'c' volumeSource { configMap {} } } volumes { name: 's' volumeSource { secret {} } }
    volumes { name: 'd' volumeSource { downwardAPI {} } } volumes { name: 'p' volumeSource { projected {} } }
    volumes { name: 'e' volumeSource { emptyDir {} } } volumes { name: 'h' volumeSource { hostPath { path: '/h' } } }
    volumes { name: 'r' volumeSource { persistentVolumeClaim {} } }
    volumes { name: 'w' volumeSource { persistentVolumeClaim {} } }
    volumes { name: 'n' volumeSource { persistentVolumeClaim {} } })");
  const PlacedVolumes placed = {{"r", {"pv1", "local", "/r", true, true, "", ""}},
                                {"w", {"pv2", "local", "/w", false, true, "", ""}},
                                {"n", {"pv3", "local", "/n", false, false, "", ""}}};
  std::string read_only;
  for (const auto& [name, place] : PlacesOfVolumes(pod, *paths_, placed)) {
    read_only += name + (place.read_only ? "- " : "+ ");
  }
  EXPECT_EQ(read_only, "c- d- e+ h+ p- r- s- w+ ") << "what was not finished has no place";
}

TEST_F(VolumeTest, WhatIsThePodsGetsItsLabelAndNothingOfTheNodes) {
  const corev1::Pod pod = Pod(R"(
    volumes { name: 'c' volumeSource { configMap {} } } volumes { name: 's' volumeSource { secret {} } }
    volumes { name: 'd' volumeSource { downwardAPI {} } } volumes { name: 'p' volumeSource { projected {} } }
    volumes { name: 'e' volumeSource { emptyDir {} } } volumes { name: 'm' volumeSource { emptyDir { medium: 'Memory' } } }
    volumes { name: 'h' volumeSource { hostPath { path: '/h' } } } volumes { name: 'i' volumeSource { image {} } })");
  const PlacedVolumes placed = {{"local", {"pv1", "local", "/l", false, true, "", ""}},
                                {"read", {"pv2", "local", "/r", true, true, "", ""}},
                                {"csi", {"pv3", "csi", "/c", false, true, "d", "h"}},
                                {"nfs", {"pv4", "nfs", "/n", false, true, "", ""}},
                                {"host", {"pv5", "hostPath", "/o", false, true, "", ""}}};
  std::string relabelled;
  for (const auto& [name, place] : PlacesOfVolumes(pod, *paths_, placed)) {
    if (place.relabel) relabelled += name + " ";
  }
  EXPECT_EQ(relabelled, "c csi d e local m p s ");
}

TEST_F(VolumeTest, AnOptionalConfigMapOrSecretIsAnEmptyDirectory) {
  const corev1::Pod pod = Pod(R"(
    volumes { name: "c" volumeSource { configMap { localObjectReference { name: "x" } optional: true } } }
    volumes { name: "s" volumeSource { secret { secretName: "x" optional: true } } })");
  for (int i = 0; i < 2; ++i) {
    const auto made = EnsureVolumes(pod, *paths_, 0);
    ASSERT_TRUE(made) << made.error().message();
  }
  const auto where = PlacesOfVolumes(pod, *paths_);
  EXPECT_EQ(where.at("c").path, dir_ + "/run/volumes/u1/c");
  EXPECT_EQ(where.at("s").path, dir_ + "/run/volumes/u1/s");
  for (const auto& entry : fs::directory_iterator(where.at("c").path)) {
    EXPECT_TRUE(entry.path().filename().string().starts_with("..")) << entry.path();
  }
  const corev1::Pod needed = Pod(R"(
    volumes { name: "c" volumeSource { configMap { localObjectReference { name: "x" } } } })");
  EXPECT_FALSE(EnsureVolumes(needed, *paths_, 0));
}

TEST_F(VolumeTest, WhatTheAgentWritesIsSetUpRefreshedAndTakenAway) {
  const corev1::Pod pod = Pod(R"(
    volumes { name: "c" volumeSource { configMap { localObjectReference { name: "x" } } } }
    volumes { name: "p" volumeSource { projected {} } }
    volumes { name: "d" volumeSource { downwardAPI {} } })");
  const auto file = [](const std::string& text) {
    return VolumeFile{std::make_shared<const std::string>(text), 0644, {}};
  };
  VolumeContents contents{{"c", {{{"key", file("1")}}, {}}}, {"p", {}}, {"d", {}}};
  const auto made = EnsureVolumes(pod, *paths_, 0, contents);
  ASSERT_TRUE(made) << made.error().message();
  const auto where = PlacesOfVolumes(pod, *paths_);
  ASSERT_EQ(where.size(), 3u);
  std::string text;
  std::ifstream(where.at("c").path + "/key") >> text;
  EXPECT_EQ(text, "1");
  contents.at("c").files.at("key") = file("2");
  ASSERT_TRUE(EnsureVolumes(pod, *paths_, 0, contents));
  std::ifstream(where.at("c").path + "/key") >> text;
  EXPECT_EQ(text, "2");
  contents.erase("p");
  EXPECT_FALSE(EnsureVolumes(pod, *paths_, 0, contents)) << "nothing to write there";
  ASSERT_TRUE(ReleaseVolumes(pod, *paths_));
  EXPECT_FALSE(fs::exists(dir_ + "/run/volumes/u1"));
}

TEST_F(VolumeTest, MemoryIsBoundedByThePodAndTheNode) {
  constexpr int64_t kMi = 1 << 20;
  const auto size = [](const std::string& limits, const std::string& volume, int64_t node) {
    const corev1::Pod pod = Pod(limits);
    corev1::EmptyDirVolumeSource source;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(volume, &source));
    return MemoryVolumeBytes(pod.spec(), source, node);
  };
  const std::string limited =
      R"(containers { resources { limits { key: "memory" value { string: "32Mi" } } } })";
  EXPECT_EQ(size(limited, "", 1000 * kMi), 32 * kMi);
  EXPECT_EQ(size(limited, R"(sizeLimit { string: "8Mi" })", 1000 * kMi), 8 * kMi);
  EXPECT_EQ(size(limited, R"(sizeLimit { string: "64Mi" })", 1000 * kMi), 32 * kMi);
  EXPECT_EQ(size(limited, R"(sizeLimit { string: "0" })", 1000 * kMi), 32 * kMi);
  EXPECT_EQ(size(limited + "containers {}", "", 1000 * kMi), 1000 * kMi) << "one has no limit";
  EXPECT_EQ(size("containers {}", R"(sizeLimit { string: "2000Mi" })", 1000 * kMi), 1000 * kMi);
  EXPECT_EQ(size("containers {}", R"(sizeLimit { string: "2000Mi" })", 0), 2000 * kMi);
  EXPECT_EQ(size("containers {}", "", 0), 0);
}

TEST_F(VolumeTest, VolumesOfAnImageAreDirectoriesThatItHasNothingIn) {
  fs::create_directories(Path("lower/full"));
  Write("lower/full/file", "x");
  fs::create_directories(Path("lower/empty"));
  fs::create_directories(Path("lower/both"));
  fs::create_directories(Path("upper/both"));
  fs::permissions(Path("upper/both"), fs::perms(0770));
  Write("upper/file", "x");
  fs::create_symlink("/full", Path("upper/link"));
  Image image;
  image.layers = {Path("lower"), Path("upper")};
  image.config.volumes = {"/full",    "/empty", "/both/", "/file",   "/link/x",
                          "/new/one", "/",      "rel",    "/a/../b", "//new//one"};
  std::vector<std::string> places;
  for (const ImageVolume& volume : ImageVolumes(image)) {
    places.push_back(volume.path);
    if (volume.path == "/both") {
      EXPECT_EQ(volume.mode, 0770u);
    }
    if (volume.path == "/new/one") {
      EXPECT_EQ(volume.mode, 0755u);
    }
  }
  EXPECT_EQ(places, (std::vector<std::string>{"/empty", "/both", "/new/one"}));
  ImageVolume volume;
  volume.mode = 01777;
  volume.owner = ::geteuid();
  volume.group = ::getegid();
  ASSERT_TRUE(EnsureImageVolume(Path("a/volumes/0"), volume));
  ASSERT_TRUE(EnsureImageVolume(Path("a/volumes/0"), volume)) << "again";
  EXPECT_EQ(ModeOf(Path("a/volumes/0")), 01777u);
}

TEST_F(VolumeTest, ASubPathNeverLeavesItsVolume) {
  fs::create_directories(Path("volume"));
  ASSERT_EQ(::chmod(Path("volume").c_str(), 01777), 0);
  fs::create_directories(Path("outside"));
  fs::create_symlink("../outside", Path("volume/link"));
  const auto ensure = [this](const char* sub_path) {
    model::MountSpec mount;
    mount.source = Path("volume");
    mount.sub_path = sub_path;
    return EnsureSubPath(mount);
  };
  ASSERT_TRUE(ensure("a/b"));
  EXPECT_TRUE(fs::is_directory(Path("volume/a/b")));
  EXPECT_EQ(ModeOf(Path("volume/a/b")), 01777u) << "as the volume, whatever the umask";
  ASSERT_TRUE(ensure("a/b")) << "again";
  (void)ensure("link/new");
  (void)ensure("../outside/new");
  EXPECT_TRUE(fs::is_empty(Path("outside")));
}

TEST_F(VolumeTest, HostPathTypesAreChecked) {
  fs::create_directories(Path("dir"));
  Write("file", "x");
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(Path("sock").size(), sizeof address.sun_path);
  Path("sock").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);

  EXPECT_EQ(ErrorOf(Path("dir"), "Directory"), "");
  EXPECT_EQ(ErrorOf(Path("file"), "File"), "");
  EXPECT_EQ(ErrorOf(Path("sock"), "Socket"), "");
  EXPECT_EQ(ErrorOf("/dev/null", "CharDevice"), "");
  EXPECT_EQ(ErrorOf(Path("file"), ""), "") << "unchecked";

  EXPECT_EQ(ErrorOf(Path("file"), "Directory"),
            "hostPath type check failed: " + Path("file") + " is not a directory");
  EXPECT_EQ(ErrorOf(Path("none"), "File"),
            "hostPath type check failed: " + Path("none") + " is not a file");
  EXPECT_EQ(ErrorOf(Path("dir"), "Socket"),
            "hostPath type check failed: " + Path("dir") + " is not a socket");
  EXPECT_EQ(ErrorOf("/dev/null", "BlockDevice"),
            "hostPath type check failed: /dev/null is not a block device");
  EXPECT_EQ(ErrorOf(Path("dir"), "FileOrCreate"),
            "hostPath type check failed: " + Path("dir") + " is not a file");
  EXPECT_EQ(ErrorOf(Path("dir"), "Tape"), "unknown hostPath type \"Tape\"");
  EXPECT_FALSE(fs::exists(Path("none")));
}

TEST_F(VolumeTest, HostPathTypesThatCreateDoSo) {
  EXPECT_EQ(ErrorOf(Path("a/b"), "DirectoryOrCreate"), "");
  EXPECT_TRUE(fs::is_directory(Path("a/b")));
  EXPECT_EQ(ErrorOf(Path("a/f"), "FileOrCreate"), "");
  EXPECT_TRUE(fs::is_regular_file(Path("a/f")));
  EXPECT_EQ(ErrorOf(Path("unchecked"), ""), "");
  EXPECT_TRUE(fs::is_directory(Path("unchecked")));
}

TEST_F(VolumeTest, OwnershipReachesEverythingAndFollowsNoLink) {
  fs::create_directories(Path("volume/sub"));
  Write("volume/sub/file", "x");
  Write("outside", "x");
  ASSERT_EQ(::chmod(Path("volume/sub/file").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(Path("outside").c_str(), 0600), 0);
  fs::create_symlink("../outside", Path("volume/link"));
  const UniqueFd dir(::open(Path("volume").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(GiveToGroup(dir.get(), ::getegid(), false));
  EXPECT_EQ(ModeOf(Path("volume")) & 02770u, 02770u);
  EXPECT_EQ(ModeOf(Path("volume/sub")) & 02770u, 02770u);
  EXPECT_EQ(ModeOf(Path("volume/sub/file")), 0660u);
  EXPECT_EQ(ModeOf(Path("outside")), 0600u) << "only reached through a link";

  // OnRootMismatch: a top that is right says that all is.
  ASSERT_EQ(::chmod(Path("volume/sub/file").c_str(), 0600), 0);
  ASSERT_TRUE(GiveToGroup(dir.get(), ::getegid(), true));
  EXPECT_EQ(ModeOf(Path("volume/sub/file")), 0600u);
  ASSERT_TRUE(GiveToGroup(dir.get(), ::getegid(), false));
  EXPECT_EQ(ModeOf(Path("volume/sub/file")), 0660u);
}

TEST_F(VolumeTest, OwnershipOfADeepTreeNeedsLittleRoomAndStaysInItWhileItIsRearranged) {
  ASSERT_TRUE(test::NestDirectories(Path("volume"), 2000));
  Write("outside", "x");
  ASSERT_EQ(::chmod(Path("outside").c_str(), 0600), 0);
  const UniqueFd dir(::open(Path("volume").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_TRUE(
      test::WithLittleRoom([&] { return GiveToGroup(dir.get(), ::getegid(), false).has_value(); }));
  std::string deep = Path("volume");
  for (int i = 0; i < 1000; ++i) deep += "/d";
  EXPECT_EQ(ModeOf(deep) & 02770u, 02770u);
  EXPECT_TRUE(sys::RemoveTreeAt(AT_FDCWD, Path("volume/d/d"), {}));
  ASSERT_TRUE(test::NestDirectories(Path("volume/d/d"), 30));
  {
    // A directory, a file and links out of the volume take turns at one name.
    Write("volume/d/file", "x");
    fs::create_symlink(Path("outside"), Path("volume/d/link"));
    const test::Troublemaker other([&](unsigned) {
      const std::string at = Path("volume/d");
      ::renameat2(AT_FDCWD, (at + "/d").c_str(), AT_FDCWD, (at + "/link").c_str(), RENAME_EXCHANGE);
      ::renameat2(AT_FDCWD, (at + "/file").c_str(), AT_FDCWD, (at + "/d").c_str(), RENAME_EXCHANGE);
      ::chmod((at + "/file").c_str(), 0600);
    });
    for (int i = 0; i < 100; ++i) (void)GiveToGroup(dir.get(), ::getegid(), false);
  }
  EXPECT_EQ(ModeOf(Path("outside")), 0600u) << "only reached through a link";
  EXPECT_TRUE(sys::RemoveTreeAt(AT_FDCWD, Path("volume"), {}));
}

TEST(HugePagesTest, AMediumHasTheSizeThatIsAskedFor) {
  const auto bytes = [](const std::string& medium, const std::string& requests) {
    corev1::PodSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat("containers { resources { ", requests, " } }"), &spec));
    const auto size = HugePageBytes(spec, medium);
    return size ? std::to_string(*size) : size.error().message();
  };
  const std::string small = R"(requests { key: "hugepages-2Mi" value { string: "4Mi" } })";
  const std::string large = R"(requests { key: "hugepages-1Gi" value { string: "1Gi" } })";
  EXPECT_EQ(bytes("HugePages", small), "2097152");
  EXPECT_EQ(bytes("HugePages-1Gi", small + large), "1073741824");
  EXPECT_EQ(bytes("HugePages", small + large),
            "medium: HugePages can't be used if container requests multiple huge page sizes");
  for (const char* medium : {"HugePages-1Gi", "HugePages-", "HugePages-x"}) {
    EXPECT_EQ(bytes(medium, small),
              StrCat("medium ", medium,
                     ": hugePages storage requested, but there is no resource request for huge "
                     "pages"));
  }
}

}  // namespace
}  // namespace holdfast::agent
