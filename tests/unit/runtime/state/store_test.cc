// SPDX-License-Identifier: Apache-2.0
#include "runtime/state/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace holdfast::runtime {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-state-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  StateStore Open() { return std::move(*StateStore::Open(path_)); }
  static ContainerRecord Container(const std::string& id) {
    ContainerRecord record;
    record.spec.id = ContainerId(id);
    return record;
  }

  std::string path_;
};

TEST_F(StoreTest, RecordsAreFoundAgainByANewStore) {
  ASSERT_TRUE(Open().Put(Container("one")));
  ASSERT_TRUE(Open().Put(Container("two")));
  SandboxRecord sandbox;
  sandbox.spec.uid = PodUid("pod");
  ASSERT_TRUE(Open().Put(sandbox));
  EXPECT_EQ(Open().Containers()->size(), 2u);
  EXPECT_EQ(*Open().Container(ContainerId("two")), Container("two"));
  EXPECT_EQ(*Open().Sandbox(PodUid("pod")), sandbox);
  ASSERT_TRUE(Open().RemoveContainer(ContainerId("one")));
  EXPECT_TRUE(Open().RemoveContainer(ContainerId("one"))) << "absent is success";
  EXPECT_EQ(Open().Container(ContainerId("one")).error().code(), Code::kNotFound);
}

TEST_F(StoreTest, DamagedRecordIsPutAsideAndTheOthersAreRead) {
  ASSERT_TRUE(Open().Put(Container("good")));
  ASSERT_TRUE(Open().Put(Container("bad")));
  std::ofstream(path_ + "/runtime/containers/bad") << "garbage";
  std::ofstream(path_ + "/runtime/containers/.half.1.tmp") << "";
  std::filesystem::create_directory(path_ + "/runtime/containers/directory");
  const StateStore store = Open();
  auto records = store.Containers();
  ASSERT_TRUE(records) << records.error().message();
  EXPECT_EQ(*records, std::vector{Container("good")});
  const std::vector<std::string> corrupt = *store.Corrupt();
  EXPECT_EQ(corrupt,
            (std::vector<std::string>{"containers/bad.corrupt", "containers/directory.corrupt"}));
  EXPECT_FALSE(std::filesystem::exists(path_ + "/runtime/containers/.half.1.tmp"));
  for (const std::string& name : corrupt) EXPECT_TRUE(store.RemoveCorrupt(name));
  EXPECT_TRUE(store.Corrupt()->empty());
}

TEST_F(StoreTest, NamesThatAreNoFileNamesAreRefused) {
  for (const char* id : {"", ".", "..", "a/b", "../x", ".hidden", "a b"}) {
    EXPECT_FALSE(Open().Put(Container(id))) << id;
    EXPECT_EQ(Open().Container(ContainerId(id)).error().code(), Code::kNotFound) << id;
  }
  EXPECT_FALSE(IsSafeName(std::string(129, 'a')));
}

TEST_F(StoreTest, RecordsAreForRootOnly) {
  ASSERT_TRUE(Open().Put(Container("one")));
  const auto mode = std::filesystem::status(path_ + "/runtime/containers/one").permissions();
  EXPECT_EQ(static_cast<unsigned>(mode), 0600u);
  const auto dir = std::filesystem::status(path_ + "/runtime").permissions();
  EXPECT_EQ(static_cast<unsigned>(dir), 0700u);
}

}  // namespace
}  // namespace holdfast::runtime
