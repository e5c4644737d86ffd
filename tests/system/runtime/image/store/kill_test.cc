// SPDX-License-Identifier: Apache-2.0
// A process that is killed at each pause point of import and removal: the store that is opened
// afterwards has the old state or the new one, and nothing besides.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>

#include "tests/support/tar_builder.h"
#include "tests/system/runtime/image/store/archive_builder.h"
#include "tests/system/runtime/image/store/store_fixture.h"

namespace holdfast::runtime {
namespace {

class ImageKillTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
#ifndef HOLDFAST_PAUSE_POINTS
    GTEST_SKIP() << "built without pause points";
#endif
    if (path_.empty()) return;
    LayoutBuilder layout;
    const std::string first = layout.AddImage({Layer("a"), Layer("b")}, "/one");
    const std::string second = layout.AddImage({Layer("a"), Layer("c")}, "/two");
    archive_ = layout.Tar(
        layout.Index(DescriptorText(kOciManifestType, first, layout.Named("one:1")) + "," +
                     DescriptorText(kOciManifestType, second, layout.Named("two:1"))));
    std::ofstream(path_ + "/archive.tar") << archive_;
    ASSERT_EQ(::mkdir((path_ + "/pause").c_str(), 0700), 0);
  }

  static std::string Layer(const std::string& name) {
    return test::BuildTar({test::Dir("etc"), test::File("etc/" + name, name)});
  }

  using Action = std::pair<const char*, std::string>;  // "import" and a file, "remove" and a name

  // Does `action` in a process of its own, armed with `at`. True when it stopped there and was
  // killed, false when it came to its end.
  bool RunKilledAt(const std::string& at, const Action& action) {
    store_.reset();
    const std::string program = ProgramBeside("test-image-actor");
    const std::string root = path_ + "/images";
    const std::string helper = UnpackHelper();
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("HOLDFAST_PAUSE_AT", at.c_str(), 1);
      ::setenv("HOLDFAST_PAUSE_DIR", (path_ + "/pause").c_str(), 1);
      ::execl(program.c_str(), program.c_str(), root.c_str(), helper.c_str(), action.first,
              action.second.c_str(), nullptr);
      ::_exit(127);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, WUNTRACED), child);
    const bool stopped = WIFSTOPPED(status);
    if (stopped) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
    } else {
      EXPECT_EQ(status, 0) << action.first << " at " << at;
    }
    return stopped;
  }

  Action Import() const { return {"import", path_ + "/archive.tar"}; }
  static Action Remove() { return {"remove", "one:1"}; }

  // The names of the pause points that `action` passes.
  std::set<std::string> Passed(const Action& action) {
    EXPECT_FALSE(RunKilledAt("?", action));
    std::set<std::string> names;
    for (const auto& file : std::filesystem::directory_iterator(path_ + "/pause")) {
      std::ifstream lines(file.path());
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("image.")) names.insert(line);
      }
      std::filesystem::remove(file.path());
    }
    return names;
  }

  // Every image is whole, and the directories hold exactly what the images need.
  void ExpectConsistent(const std::string& when) {
    Reopen();
    EXPECT_TRUE(store_->warnings().empty()) << when << ": " << store_->warnings().front();
    std::set<std::string> layers;
    const auto images = store_->List();
    ASSERT_TRUE(images) << when;
    for (const Image& image : *images) {
      for (const std::string& layer : image.layers) {
        layers.insert(layer);
        EXPECT_TRUE(std::filesystem::is_directory(layer + "/etc")) << when << ": " << layer;
      }
      auto sink = sys::OpenAt(AT_FDCWD, "/dev/null", O_WRONLY);
      const auto exported = store_->Export(image.id.value, sink->get());
      EXPECT_TRUE(exported) << when << ": " << exported.error().message();
    }
    EXPECT_EQ(Names("layers").size(), layers.size()) << when;
    EXPECT_EQ(Names("ingest").size(), 0u) << when;
    // Two images: layers a, b, c, two configs, two manifests. One: two layers, config, manifest.
    const size_t blobs = images->size() == 2 ? 7 : images->size() * 4;
    EXPECT_EQ(Names("blobs/sha256").size(), blobs) << when;
  }

  std::string archive_;
};

TEST_F(ImageKillTest, ImportAtEveryPausePoint) {
  const std::set<std::string> points = Passed(Import());
  ASSERT_GE(points.size(), 6u);
  for (const std::string& point : points) {
    // The second passage is in the middle of things of which one is done already.
    for (const std::string& passage : {point, point + ":2"}) {
      std::filesystem::remove_all(path_ + "/images");
      const bool stopped = RunKilledAt(passage, Import());
      EXPECT_TRUE(stopped || passage.ends_with(":2")) << passage;
      ExpectConsistent("import killed at " + passage);
      auto fd = sys::SealedMemfd("archive", archive_);
      ASSERT_TRUE(store_->Import(fd->get(), {})) << "and it can be done again";
      ExpectConsistent("import done again after " + passage);
      EXPECT_TRUE(store_->Get("one:1") && store_->Get("two:1"));
    }
  }
}

TEST_F(ImageKillTest, RemoveAtEveryPausePoint) {
  ASSERT_FALSE(RunKilledAt("none", Import()));
  const std::set<std::string> points = Passed(Remove());
  ASSERT_GE(points.size(), 3u);
  for (const std::string& point : points) {
    std::filesystem::remove_all(path_ + "/images");
    ASSERT_FALSE(RunKilledAt("none", Import()));
    EXPECT_TRUE(RunKilledAt(point, Remove())) << point;
    ExpectConsistent("removal killed at " + point);
    EXPECT_TRUE(store_->Get("two:1")) << point;
    // A name that is gone stays gone; its image may be left without a name and goes by id.
    const std::vector<Image> left = store_->List().value();
    for (const Image& image : left) {
      if (image.repo_tags.empty()) {
        EXPECT_TRUE(store_->Remove(image.id.value));
      }
    }
    if (store_->Get("one:1")) {
      EXPECT_TRUE(store_->Remove("one:1"));
    }
    ExpectConsistent("after cleaning up");
    EXPECT_EQ(store_->List()->size(), 1u);
  }
}

TEST_F(ImageKillTest, NotingUseAtEveryPausePoint) {
  const Action use{"use", "one:1"};
  ASSERT_FALSE(RunKilledAt("none", Import()));
  const std::set<std::string> points = Passed(use);
  ASSERT_TRUE(points.contains("image.uses-recorded"));
  for (const std::string& point : points) {
    EXPECT_TRUE(RunKilledAt(point, use)) << point;
    ExpectConsistent("use noted, killed at " + point);
    EXPECT_EQ(store_->List()->size(), 2u);
  }
}

TEST_F(ImageKillTest, DroppingUnfinishedContentAtEveryPausePoint) {
  const Action drop{"drop-partial", "all"};
  ASSERT_FALSE(RunKilledAt("none", Import()));
  const auto put = [this] {
    for (const char name : {'a', 'b', 'c'}) {
      std::ofstream(path_ + "/images/partial/" + std::string(64, name)) << name;
    }
  };
  put();
  const std::set<std::string> points = Passed(drop);
  ASSERT_TRUE(points.contains("image.partial-removed"));
  for (const std::string& point : points) {
    put();
    EXPECT_TRUE(RunKilledAt(point, drop)) << point;
    ExpectConsistent("unfinished content dropped, killed at " + point);
    EXPECT_EQ(Names("partial").size(), 2u) << "one is gone, the rest is for the next time";
    ASSERT_FALSE(RunKilledAt("none", drop));
    EXPECT_TRUE(Names("partial").empty());
  }
}

}  // namespace
}  // namespace holdfast::runtime
