// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "k8s/core/v1/pod.pb.h"
#include "tests/support/inotify_limit.h"
#include "tests/unit/agent/source/source_fixture.h"

namespace holdfast::agent {
namespace {

class ManifestDirectoryTest : public SourceTest {
 protected:
  void Start(std::chrono::milliseconds resync = std::chrono::milliseconds(20'000),
             std::chrono::milliseconds quiet = std::chrono::milliseconds(200)) {
    ManifestDirectoryOptions options;
    options.path = dir_;
    options.node_name = "n";
    options.resync = resync;
    options.quiet = quiet;
    auto source = ManifestDirectory::Start(options, std::make_shared<SystemClock>());
    ASSERT_TRUE(source) << source.error().message();
    source_ = std::move(*source);
  }
  void TearDown() override {
    source_.reset();
    SourceTest::TearDown();
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const auto snapshot = source_->Snapshot();
    for (const DesiredPod& pod : snapshot->pods) names.push_back(pod.pod->metadata().name());
    return names;
  }
  std::string Image() const {
    const auto snapshot = source_->Snapshot();
    return snapshot->pods.empty() ? "" : snapshot->pods[0].pod->spec().containers(0).image();
  }
  bool Becomes(const std::vector<std::string>& names) const {
    return Eventually([&] { return Names() == names; });
  }

  // From the source's thread, until End().
  void OnEachSnapshot(std::function<void(const PodSnapshot&)> look) {
    source_->SetChangeCallback(
        [source = source_.get(), look = std::move(look)] { look(*source->Snapshot()); });
  }
  // Its thread has ended: what a callback refers to may go.
  void End() { source_.reset(); }

  std::unique_ptr<ManifestDirectory> source_;
};

TEST_F(ManifestDirectoryTest, ReadsSortedAndFollowsChanges) {
  Write("b.yaml", PodYaml("second"));
  Write("a.yml", PodYaml("first"));
  Start();
  EXPECT_TRUE(source_->Snapshot()->complete);
  EXPECT_TRUE(Becomes({"first-n", "second-n"}));
  Place("c.json", PodYaml("third"));
  EXPECT_TRUE(Becomes({"first-n", "second-n", "third-n"}));
  std::filesystem::rename(dir_ + "/b.yaml", dir_ + "/.b.yaml");
  EXPECT_TRUE(Becomes({"first-n", "third-n"}));
  std::filesystem::rename(dir_ + "/.b.yaml", dir_ + "/z.yaml");
  EXPECT_TRUE(Becomes({"first-n", "third-n", "second-n"}));
  std::filesystem::remove(dir_ + "/a.yml");
  EXPECT_TRUE(Becomes({"third-n", "second-n"}));
}

// A container of root can take all instances that root has on the machine.
TEST_F(ManifestDirectoryTest, WithoutInotifyTheDirectoryIsLookedAtEachSecond) {
  test_support::WithoutInotify([this] {
    Place("a.yaml", PodYaml("first"));
    std::mutex mutex;
    std::vector<std::string> told;
    ManifestDirectoryOptions options;
    options.path = dir_;
    options.node_name = "n";
    options.resync = std::chrono::hours(1);
    options.warn = [&](const std::string& text) {
      const std::lock_guard lock(mutex);
      told.push_back(text);
    };
    auto source = ManifestDirectory::Start(options, std::make_shared<SystemClock>());
    ASSERT_TRUE(source) << source.error().message();
    source_ = std::move(*source);
    EXPECT_EQ(Names(), std::vector<std::string>{"first-n"});
    Place("b.yaml", PodYaml("second"));
    EXPECT_TRUE(Becomes({"first-n", "second-n"}));
    test_support::LimitInotify(8);
    EXPECT_TRUE(Eventually([&] {
      const std::lock_guard lock(mutex);
      return told.size() == 2;
    }));
    Place("c.yaml", PodYaml("third"));
    EXPECT_TRUE(Becomes({"first-n", "second-n", "third-n"}));
    End();
    EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr("no inotify left"),
                                           testing::HasSubstr("followed by inotify again")));
  });
}

TEST_F(ManifestDirectoryTest, TheFirstSnapshotHasWhatWasWrittenAMomentAgo) {
  Place("old.yaml", PodYaml("old"));
  Write("young.yaml", PodYaml("young"));
  Start();
  EXPECT_EQ(Names(), (std::vector<std::string>{"old-n", "young-n"}));
}

TEST_F(ManifestDirectoryTest, TheCallbackComesAfterEachChange) {
  Place("a.yaml", PodYaml("a"));
  Start();
  std::atomic<int> calls = 0;
  source_->SetChangeCallback([&] { ++calls; });
  EXPECT_GE(calls, 1) << "what is there already is announced";
  EXPECT_TRUE(Becomes({"a-n"}));
  const int before = calls;
  const uint64_t generation = source_->Snapshot()->generation;
  Place("b.yaml", PodYaml("b"));
  EXPECT_TRUE(Becomes({"a-n", "b-n"}));
  EXPECT_TRUE(Eventually([&] { return calls > before; }));
  EXPECT_GT(source_->Snapshot()->generation, generation);
  const int quiet = calls;
  source_->Reread();
  EXPECT_EQ(calls, quiet) << "nothing changed";
  End();
}

TEST_F(ManifestDirectoryTest, AFileWrittenByteByByteIsReadOnceItIsWhole) {
  Start();
  std::atomic<bool> partial = false;
  OnEachSnapshot([&partial](const PodSnapshot& snapshot) {
    if (!snapshot.errors.empty()) partial = true;
  });
  const std::string text = PodYaml("slow");
  const int fd = ::open((dir_ + "/slow.yaml").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  for (const char c : text) {
    ASSERT_EQ(::write(fd, &c, 1), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
  // Half a pause more than "quiet" while it is still open.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(Names().empty()) << "somebody still has it open for writing";
  ::close(fd);
  EXPECT_TRUE(Becomes({"slow-n"}));
  End();
  EXPECT_FALSE(partial) << "no half of it was ever looked at";
}

TEST_F(ManifestDirectoryTest, ABrokenEditKeepsTheOldPodAndReports) {
  Place("a.yaml", PodYaml("a", "one:1"));
  Start();
  ASSERT_TRUE(Becomes({"a-n"}));
  const auto pod = source_->Snapshot()->pods[0].pod;
  Write("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a\n");
  ASSERT_TRUE(Eventually([&] { return !source_->Snapshot()->errors.empty(); }));
  const auto snapshot = source_->Snapshot();
  EXPECT_EQ(snapshot->pods.at(0).pod, pod);
  EXPECT_TRUE(snapshot->errors[0].last_good_runs);
  EXPECT_TRUE(snapshot->errors[0].message.starts_with("a.yaml:")) << snapshot->errors[0].message;
  Write("a.yaml", PodYaml("a", "two:2"));
  EXPECT_TRUE(
      Eventually([&] { return Image() == "two:2" && source_->Snapshot()->errors.empty(); }));
}

TEST_F(ManifestDirectoryTest, EditorsPatternsAreOneChangeEach) {
  Place("a.yaml", PodYaml("a", "v:0"));
  Start();
  ASSERT_TRUE(Becomes({"a-n"}));
  std::atomic<bool> vanished = false;
  OnEachSnapshot([&vanished](const PodSnapshot& snapshot) {
    if (snapshot.pods.empty()) vanished = true;
  });
  const std::string file = dir_ + "/a.yaml";
  // vim: backup by rename, swap file, probe file, new file.
  std::ofstream(dir_ + "/.a.yaml.swp") << "swap";
  std::ofstream(dir_ + "/4913") << "";
  std::filesystem::remove(dir_ + "/4913");
  std::filesystem::rename(file, file + "~");
  Write("a.yaml", PodYaml("a", "v:1"));
  std::filesystem::remove(file + "~");
  EXPECT_TRUE(Eventually([&] { return Image() == "v:1"; }));
  // sed -i and rsync: a temporary, renamed over it.
  std::ofstream(dir_ + "/sedAbCdEf") << PodYaml("a", "v:2");
  std::filesystem::rename(dir_ + "/sedAbCdEf", file);
  EXPECT_TRUE(Eventually([&] { return Image() == "v:2"; }));
  std::ofstream(dir_ + "/.a.yaml.XyZ") << PodYaml("a", "v:3");
  std::filesystem::rename(dir_ + "/.a.yaml.XyZ", file);
  EXPECT_TRUE(Eventually([&] { return Image() == "v:3"; }));
  // Truncated and written in place.
  Write("a.yaml", PodYaml("a", "v:4"));
  EXPECT_TRUE(Eventually([&] { return Image() == "v:4"; }));
  // Removed and created.
  std::filesystem::remove(file);
  Write("a.yaml", PodYaml("a", "v:5"));
  EXPECT_TRUE(Eventually([&] { return Image() == "v:5"; }));
  EXPECT_TRUE(source_->Snapshot()->errors.empty());
  End();
  EXPECT_FALSE(vanished);
}

TEST_F(ManifestDirectoryTest, TouchChangesNothing) {
  Place("a.yaml", PodYaml("a"));
  Start();
  ASSERT_TRUE(Becomes({"a-n"}));
  const auto before = source_->Snapshot();
  ASSERT_EQ(::chmod((dir_ + "/a.yaml").c_str(), 0600), 0);
  source_->Reread();
  EXPECT_EQ(source_->Snapshot()->pods, before->pods);
  EXPECT_EQ(source_->Snapshot()->generation, before->generation);
}

TEST_F(ManifestDirectoryTest, JunkInTheDirectoryDoesNotDisturb) {
  ASSERT_EQ(::mkfifo((dir_ + "/fifo.yaml").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop.yaml", dir_ + "/loop.yaml");
  std::filesystem::create_directories(dir_ + "/sub.yaml/deep");
  std::ofstream(dir_ + "/sub.yaml/pod.yaml") << PodYaml("below");
  Write("big.yaml", "");
  std::filesystem::resize_file(dir_ + "/big.yaml", 1ull << 30);
  Write("binary.yaml", std::string("\x00\x01\xff\xfe", 4));
  Place("good.yaml", PodYaml("good"));
  Start();
  EXPECT_TRUE(Becomes({"good-n"}));
  EXPECT_TRUE(Eventually([&] { return source_->Snapshot()->errors.size() == 2; }));
  EXPECT_EQ(source_->Snapshot()->errors.at(0).origin, "big.yaml");
  EXPECT_EQ(source_->Snapshot()->errors.at(1).origin, "binary.yaml");
}

TEST_F(ManifestDirectoryTest, AMissingDirectoryIsAnEmptyListUntilItComes) {
  std::filesystem::remove(dir_);
  Start();
  auto snapshot = source_->Snapshot();
  EXPECT_TRUE(snapshot->complete);
  EXPECT_TRUE(snapshot->pods.empty());
  ASSERT_EQ(snapshot->errors.size(), 1u);
  EXPECT_EQ(snapshot->errors[0].origin, "");
  std::filesystem::create_directory(dir_);
  Place("a.yaml", PodYaml("a"));
  EXPECT_TRUE(Becomes({"a-n"}));
  EXPECT_TRUE(source_->Snapshot()->errors.empty());
  std::filesystem::remove_all(dir_);
  EXPECT_TRUE(Becomes({}));
}

TEST_F(ManifestDirectoryTest, ASwappedDirectoryIsFollowed) {
  Place("a.yaml", PodYaml("a"));
  Place("kept.yaml", PodYaml("kept"));
  Start();
  ASSERT_TRUE(Becomes({"a-n", "kept-n"}));
  const auto kept = source_->Snapshot()->pods[1].pod;
  std::filesystem::create_directory(base_ + "/next");
  for (const char* name : {"b.yaml", "kept.yaml"}) {
    std::ofstream(base_ + "/next/" + name)
        << PodYaml(std::string(name).substr(0, std::string(name).find('.')));
  }
  std::filesystem::rename(dir_, base_ + "/before");
  std::filesystem::rename(base_ + "/next", dir_);
  EXPECT_TRUE(Becomes({"b-n", "kept-n"}));
  EXPECT_EQ(source_->Snapshot()->pods[1].pod, kept) << "what stayed the same was not touched";
  Place("c.yaml", PodYaml("c"));
  EXPECT_TRUE(Becomes({"b-n", "c-n", "kept-n"})) << "the new directory is watched";
}

TEST_F(ManifestDirectoryTest, ASwappedLinkToADirectoryIsSeenByTheResync) {
  std::filesystem::create_directory(base_ + "/one");
  std::filesystem::create_directory(base_ + "/two");
  std::ofstream(base_ + "/one/a.yaml") << PodYaml("one");
  std::ofstream(base_ + "/two/a.yaml") << PodYaml("two");
  std::filesystem::remove(dir_);
  std::filesystem::create_symlink("one", dir_);
  Start(std::chrono::milliseconds(100));
  ASSERT_TRUE(Becomes({"one-n"}));
  std::filesystem::create_symlink("two", dir_ + ".new");
  std::filesystem::rename(dir_ + ".new", dir_);
  EXPECT_TRUE(Becomes({"two-n"}));
}

TEST_F(ManifestDirectoryTest, RereadReturnsWithTheEffect) {
  Start();
  for (int i = 0; i < 20; ++i) {
    Place("a.yaml", PodYaml("a", "v:" + std::to_string(i)));
    source_->Reread();
    EXPECT_EQ(Image(), "v:" + std::to_string(i));
  }
  std::filesystem::remove(dir_ + "/a.yaml");
  source_->Reread();
  EXPECT_TRUE(Names().empty());
}

// Whatever others do there: one is half written for ever, and the time of quiet is longer than Reread would wait.
TEST_F(ManifestDirectoryTest, OurOwnEditsWaitForNobody) {
  Start(std::chrono::seconds(20), std::chrono::seconds(10));
  std::ofstream half(dir_ + "/other.yaml");
  half << "apiVersion: v1\n" << std::flush;
  for (int i = 0; i < 20; ++i) {
    Place("a.yaml", PodYaml("a", "v:" + std::to_string(i)));
    source_->Reread({"a.yaml"});
    EXPECT_EQ(Image(), "v:" + std::to_string(i));
    std::filesystem::remove(dir_ + "/a.yaml");
    source_->Reread({"a.yaml"});
    EXPECT_TRUE(Names().empty());
  }
}

}  // namespace
}  // namespace holdfast::agent
