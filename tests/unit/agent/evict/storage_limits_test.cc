// SPDX-License-Identifier: Apache-2.0
// Which pods have written more than they may, and the words for it.
#include "agent/evict/storage_limits.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/agent/evict/pressure_pods.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

core::PodSpec Spec(const std::string& text) {
  core::PodSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

core::PodSpec Limited(const std::string& web, const std::string& log = "") {
  const auto container = [](const std::string& name, const std::string& limit) {
    const std::string resources =
        limit.empty() ? ""
                      : R"(resources { limits { key: "ephemeral-storage" value { string: ")" +
                            limit + R"(" } } })";
    return R"(containers { name: ")" + name + R"(" )" + resources + "}";
  };
  return Spec(container("web", web) + container("log", log));
}

std::string Why(const core::PodSpec& spec, const StorageUse& use) {
  const auto eviction = AboveStorageLimits(spec, use);
  return eviction ? eviction->why : "";
}

TEST(StorageLimitsTest, TheWordsAreAKubelets) {
  const auto dir = Spec(
      R"(volumes { name: "data" volumeSource { emptyDir { sizeLimit { string: "1024Ki" } } } })");
  EXPECT_EQ(Why(dir, {{}, {{"data", kMi}}}), "") << "the limit itself is not above it";
  EXPECT_EQ(Why(dir, {{}, {{"data", kMi + 1}}}),
            "Usage of EmptyDir volume \"data\" exceeds the limit \"1Mi\". ");
  EXPECT_EQ(Why(Limited("1Mi", "2Mi"), {{{"web", kMi + 1}}, {}}),
            "Container web exceeded its local ephemeral storage limit \"1Mi\". ");
  EXPECT_EQ(Why(Limited("1Mi", "2Mi"), {{{"web", kMi}, {"log", 2 * kMi}}, {{"data", 1}}}),
            "Pod ephemeral local storage usage exceeds the total limit of containers 3Mi. ");
}

TEST(StorageLimitsTest, AVolumeComesBeforeThePodAndThePodBeforeItsContainers) {
  auto spec = Limited("1Mi");
  *spec.mutable_volumes() =
      Spec(R"(volumes { name: "data" volumeSource { emptyDir { sizeLimit { string: "1" } } } })")
          .volumes();
  EXPECT_TRUE(Why(spec, {{{"web", 9 * kMi}}, {{"data", 2}}}).starts_with("Usage of EmptyDir"));
  EXPECT_TRUE(Why(spec, {{{"web", 9 * kMi}}, {{"data", 1}}}).starts_with("Pod ephemeral"));
}

TEST(StorageLimitsTest, WhoHasNoLimitMayTakeWhatThereIs) {
  const StorageUse much{{{"web", 1ull << 60}, {"log", 1ull << 60}}, {{"data", UINT64_MAX}}};
  EXPECT_EQ(Why(Limited(""), much), "");
  EXPECT_FALSE(HasStorageLimits(Limited("")));
  const auto zero =
      Spec(R"(volumes { name: "data" volumeSource { emptyDir { sizeLimit { string: "0" } } } })");
  EXPECT_EQ(Why(zero, much), "");
  EXPECT_FALSE(HasStorageLimits(zero));
  // In memory: the tmpfs is as large as it may be.
  const auto memory = Spec(R"(volumes { name: "data" volumeSource { emptyDir {
      medium: "Memory" sizeLimit { string: "1" } } } })");
  EXPECT_EQ(Why(memory, much), "");
  EXPECT_FALSE(HasStorageLimits(memory));
}

TEST(StorageLimitsTest, OneLimitIsReasonEnoughToCount) {
  EXPECT_TRUE(HasStorageLimits(Limited("", "1Mi")));
  EXPECT_TRUE(HasStorageLimits(
      Spec(R"(volumes { name: "data" volumeSource { emptyDir { sizeLimit { string: "1" } } } })")));
  EXPECT_EQ(Why(Limited("1Mi"), {}), "") << "nothing was counted yet";
}

// As by a kubelet: the limit of an init container is a part of the pod's only.
TEST(StorageLimitsTest, AnInitContainerHasNoLimitOfItsOwn) {
  auto spec = Limited("9Mi");
  *spec.add_initcontainers() = Limited("1Mi").containers(0);
  spec.mutable_initcontainers(0)->set_name("first");
  EXPECT_EQ(Why(spec, {{{"first", 2 * kMi}}, {}}), "");
}

}  // namespace
}  // namespace holdfast::agent
