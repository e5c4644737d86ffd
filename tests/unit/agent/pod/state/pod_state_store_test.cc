// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/state/pod_state_store.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mount.h>

#include <filesystem>
#include <fstream>

#include "agent/pod/state/former_pods.h"
#include "agent/pod/state/record.h"
#include "holdfast/sys/files.h"
#include "tests/support/full_disk.h"
#include "tests/support/own_mounts.h"

namespace holdfast::agent {
namespace {

namespace fs = std::filesystem;

std::string FailedRecord() {
  PodMemory memory;
  memory.admission = Admission{};
  memory.terminal_phase = "Failed";
  return EncodeRecord(memory);
}

const bool kOwnMounts = test::EnterOwnMountNamespace();

class PodStateStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-pod-state-XXXXXX";
    instance_.root_dir = ::mkdtemp(pattern);
    pod_ = Pod("u1");
  }
  void TearDown() override { fs::remove_all(instance_.root_dir); }

  static corev1::Pod Pod(const std::string& uid) {
    corev1::Pod pod;
    pod.mutable_metadata()->set_uid(uid);
    pod.mutable_metadata()->set_name("web");
    pod.mutable_metadata()->set_namespace_("default");
    return pod;
  }
  std::unique_ptr<PodStateStore> Open() const {
    auto store = PodStateStore::Open(instance_);
    EXPECT_TRUE(store) << store.error().message();
    return std::move(*store);
  }
  // As the next agent finds it.
  PodStateStore::Loaded Load() const {
    auto loaded = Open()->LoadAll();
    EXPECT_TRUE(loaded) << loaded.error().message();
    return std::move(*loaded);
  }
  DirFd PodsDir() const { return sys::OpenDir(instance_.PodsDir()).value(); }

  model::Instance instance_;
  corev1::Pod pod_;
};

TEST_F(PodStateStoreTest, LoadsWhatWasSavedAndForgetsWhatWasRemoved) {
  const auto store = Open();
  ASSERT_TRUE(store->SavePod(pod_));
  ASSERT_TRUE(store->SaveRecord(pod_, FailedRecord()));
  ASSERT_TRUE(store->Sync());
  const PodStateStore::Loaded loaded = Load();
  ASSERT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.pods[0].pod->metadata().name(), "web");
  EXPECT_EQ(loaded.pods[0].memory.terminal_phase, "Failed");
  EXPECT_TRUE(fs::is_directory(instance_.PodsDir() + "/u1"));
  EXPECT_EQ(store->Remove(pod_).value(), "");
  EXPECT_EQ(store->Remove(pod_).value(), "") << "absent is success";
  EXPECT_FALSE(fs::exists(instance_.PodsDir() + "/u1"));
  EXPECT_TRUE(Load().pods.empty());
}

TEST_F(PodStateStoreTest, ARemovalThatCannotGoOnKeepsTheRecords) {
  ASSERT_TRUE(kOwnMounts) << "kernel lacks unprivileged mount namespaces";
  const auto store = Open();
  ASSERT_TRUE(store->SavePod(pod_));
  ASSERT_TRUE(store->SaveRecord(pod_, FailedRecord()));
  const std::string dir = instance_.PodsDir() + "/u1";
  ASSERT_EQ(::mount("tmpfs", dir.c_str(), "tmpfs", 0, nullptr), 0);
  // Neither removed nor set aside: a mount point cannot be renamed.
  const auto refused = store->Remove(pod_);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("something is mounted on it"), std::string::npos)
      << refused.error().message();
  ASSERT_EQ(Load().pods.size(), 1u) << "it goes on at the next start";
  EXPECT_EQ(Load().pods[0].memory.terminal_phase, "Failed");

  ASSERT_EQ(::umount(dir.c_str()), 0);
  fs::create_directories(dir + "/volumes/mounted");
  ASSERT_EQ(::mount("tmpfs", (dir + "/volumes/mounted").c_str(), "tmpfs", 0, nullptr), 0);
  const auto removed = store->Remove(pod_);
  ASSERT_TRUE(removed) << removed.error().message();
  EXPECT_NE(removed->find(instance_.AsideDir()), std::string::npos) << *removed;
  EXPECT_FALSE(fs::exists(dir));
  for (const auto& entry : fs::directory_iterator(instance_.AsideDir())) {
    ASSERT_EQ(::umount((entry.path() / "volumes/mounted").c_str()), 0);
  }
}

TEST_F(PodStateStoreTest, AnEmptyDirectoryIsWhatARemovalThatWasCutShortLeft) {
  fs::create_directories(instance_.PodsDir() + "/u2");
  EXPECT_TRUE(Load().problems.empty());
  EXPECT_FALSE(fs::exists(instance_.PodsDir() + "/u2"));
}

TEST_F(PodStateStoreTest, ADirectoryOfNobodyIsToldAndLeftAlone) {
  fs::create_directories(instance_.PodsDir() + "/u2/volumes");
  EXPECT_EQ(Load().problems,
            std::vector<std::string>{"pod directory u2: nothing was saved of its pod, left alone"});
  EXPECT_TRUE(fs::exists(instance_.PodsDir() + "/u2/volumes"));
}

TEST_F(PodStateStoreTest, APodWithoutARecordWasJustBegun) {
  ASSERT_TRUE(Open()->SavePod(pod_));
  const PodStateStore::Loaded loaded = Load();
  ASSERT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.pods[0].memory, PodMemory{});
}

TEST_F(PodStateStoreTest, ADamagedRecordIsToldAndHurtsNobodyElse) {
  const auto store = Open();
  ASSERT_TRUE(store->SavePod(pod_));
  ASSERT_TRUE(store->SavePod(Pod("u2")));
  ASSERT_TRUE(store->SaveRecord(Pod("u2"), R"({"version": 99})"));
  const PodStateStore::Loaded loaded = Load();
  EXPECT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.problems, std::vector<std::string>{
                                 "pod u2: record of version 99, this agent knows 1, left alone"});
}

// As releases before the journal left it.
class FormerPodsTest : public PodStateStoreTest {
 protected:
  void SetUp() override {
    PodStateStoreTest::SetUp();
    fs::create_directories(instance_.PodsDir());
    ASSERT_TRUE(WriteFormerPod(PodsDir().get(), {"u1", pod_.SerializeAsString(), FailedRecord()}));
  }
  bool HasFiles() const { return fs::exists(instance_.PodsDir() + "/u1/pod.pb"); }
};

TEST_F(FormerPodsTest, AreTakenOverOnce) {
  ASSERT_TRUE(WriteFormerPod(PodsDir().get(), {"u2", Pod("u2").SerializeAsString(), {}}));
  for (int start = 0; start < 2; ++start) {
    const PodStateStore::Loaded loaded = Load();
    EXPECT_TRUE(loaded.problems.empty());
    ASSERT_EQ(loaded.pods.size(), 2u) << start;
    EXPECT_EQ(loaded.pods[0].memory.terminal_phase, "Failed");
    EXPECT_FALSE(loaded.pods[1].memory.admission) << "it had just begun";
    EXPECT_TRUE(fs::is_empty(instance_.PodsDir() + "/u1"));
  }
}

// The files could not be removed, and the pod went on.
TEST_F(FormerPodsTest, AJournalThatIsNewerCounts) {
  PodMemory newer;
  newer.terminal_phase = "Succeeded";
  {
    const auto store = Open();
    ASSERT_TRUE(store->SavePod(pod_));
    ASSERT_TRUE(store->SaveRecord(pod_, EncodeRecord(newer)));
  }
  const PodStateStore::Loaded loaded = Load();
  ASSERT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.pods[0].memory.terminal_phase, "Succeeded");
  EXPECT_FALSE(HasFiles());
}

// Somebody put the former release back and it ran, for a while.
TEST_F(FormerPodsTest, CountWhenTheyAreNewerThanTheJournal) {
  {
    const auto store = Open();
    ASSERT_TRUE(store->Remove(pod_));
    ASSERT_TRUE(store->SavePod(Pod("u0")));
  }
  fs::last_write_time(instance_.root_dir + "/pods.journal",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  ASSERT_TRUE(WriteFormerPod(PodsDir().get(), {"u1", pod_.SerializeAsString(), FailedRecord()}));
  const PodStateStore::Loaded loaded = Load();
  ASSERT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.pods[0].memory.terminal_phase, "Failed");
  EXPECT_EQ(
      loaded.problems.at(0),
      "pods.journal: older than what was kept elsewhere; put aside as pods.journal.superseded");
}

TEST_F(FormerPodsTest, AreThereForTheFormerReleaseAndTakenBack) {
  const auto pod = [&](const std::string& name) {
    std::ifstream file(instance_.PodsDir() + "/u1/" + name);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  };
  const std::string before = pod("pod.pb");
  ASSERT_EQ(Load().pods.size(), 1u);
  ASSERT_FALSE(HasFiles());
  ASSERT_TRUE(Open()->LeaveAsFiles());
  EXPECT_EQ(pod("pod.pb"), before);
  EXPECT_EQ(pod("record.json"), FailedRecord());
  EXPECT_FALSE(fs::exists(instance_.root_dir + "/pods.journal"));
  EXPECT_EQ(Load().pods.size(), 1u);
}

TEST_F(FormerPodsTest, CountOnAFullDiskTooAndStayThere) {
  {
    const test_support::FullDisk disk(20);
    const PodStateStore::Loaded loaded = Load();
    ASSERT_EQ(loaded.pods.size(), 1u);
    EXPECT_EQ(loaded.pods[0].memory.terminal_phase, "Failed");
    ASSERT_EQ(loaded.problems.size(), 1u);
    EXPECT_NE(loaded.problems[0].find("pod u1: write pods.journal"), std::string::npos);
    EXPECT_TRUE(HasFiles());
  }
  EXPECT_EQ(Load().pods.size(), 1u);
  EXPECT_FALSE(HasFiles());
}

TEST_F(FormerPodsTest, OneThatIsDamagedIsToldAndHurtsNobodyElse) {
  fs::create_directory(instance_.PodsDir() + "/u2");
  std::ofstream(instance_.PodsDir() + "/u2/pod.pb") << "no protobuf";
  const PodStateStore::Loaded loaded = Load();
  EXPECT_EQ(loaded.pods.size(), 1u);
  EXPECT_EQ(loaded.problems, std::vector<std::string>{"pod u2: damaged, left alone"});
}

}  // namespace
}  // namespace holdfast::agent
