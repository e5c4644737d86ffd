// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/file_pod_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

ConfigObjectPtr Object(const std::string& name, const std::string& value,
                       ObjectKind kind = ObjectKind::kConfigMap) {
  auto data = std::make_shared<ObjectData>();
  data->values["key"] = value;
  auto object = std::make_shared<ConfigObject>();
  object->ref = {kind, "default", name};
  object->data = std::move(data);
  return object;
}

std::shared_ptr<const corev1::Pod> Pod(const std::string& uid, const std::string& mounts,
                                       const std::string& reads = "") {
  auto pod = std::make_shared<corev1::Pod>();
  pod->mutable_metadata()->set_uid(uid);
  pod->mutable_metadata()->set_namespace_("default");
  auto& container = *pod->mutable_spec()->add_containers();
  if (!mounts.empty()) {
    auto& source = *pod->mutable_spec()->add_volumes()->mutable_volumesource();
    source.mutable_configmap()->mutable_localobjectreference()->set_name(mounts);
  }
  if (!reads.empty()) {
    container.add_envfrom()->mutable_configmapref()->mutable_localobjectreference()->set_name(
        reads);
  }
  return pod;
}

class FilePodInputsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    inputs_.SetListener([this](const PodUid& uid) { told_.push_back(uid.value); });
  }
  std::vector<std::string> Told() { return std::exchange(told_, {}); }
  ObjectInput Seen(const std::string& uid, const std::string& name) const {
    return inputs_.Object(PodUid(uid), {ObjectKind::kConfigMap, "default", name});
  }

  std::vector<std::string> variables_{"WEB_PORT=1"};
  uint64_t generation_ = 1;  // of the directory
  uint64_t shown_ = 1;       // whose Services are known
  FilePodInputs inputs_{ServicesOfFiles{[this] { return generation_; },
                                        [this](const std::string&, bool, uint64_t of) {
                                          return shown_ < of ? std::nullopt
                                                             : std::optional(variables_);
                                        }}};
  std::vector<std::string> told_;
};

TEST_F(FilePodInputsTest, NothingIsKnownBeforeTheDirectoryWasRead) {
  inputs_.Acquire(Pod("a", "conf"));
  EXPECT_EQ(Seen("a", "conf").state, InputState::kPending);
  inputs_.SetObjects({});
  EXPECT_THAT(Told(), ElementsAre("a")) << "it waits";
  EXPECT_EQ(Seen("a", "conf").state, InputState::kAbsent);
  EXPECT_EQ(Seen("a", "conf").why, "configmap \"conf\" not found");
  EXPECT_EQ(Seen("stranger", "conf").state, InputState::kPending);
}

TEST_F(FilePodInputsTest, WhoRefersToWhatChangedIsTold) {
  const ConfigObjectPtr other = Object("other", "1");
  inputs_.SetObjects({Object("conf", "1"), other});
  inputs_.Acquire(Pod("mounts", "conf"));
  inputs_.Acquire(Pod("reads", "", "conf"));
  inputs_.Acquire(Pod("apart", "other"));
  EXPECT_EQ(Seen("reads", "conf").data->values.at("key"), "1");
  const uint64_t before = inputs_.VersionOf(PodUid("mounts"));
  EXPECT_GT(before, 0u);
  EXPECT_EQ(inputs_.VersionOf(PodUid("reads")), 0u) << "no volume of it shows anything";
  inputs_.SetObjects({Object("conf", "2"), other});
  EXPECT_THAT(Told(), UnorderedElementsAre("mounts", "reads"));
  EXPECT_GT(inputs_.VersionOf(PodUid("mounts")), before);
  EXPECT_EQ(inputs_.VersionOf(PodUid("reads")), 0u);
  EXPECT_EQ(Seen("mounts", "conf").data->values.at("key"), "2");
  inputs_.SetObjects({other});
  EXPECT_THAT(Told(), UnorderedElementsAre("mounts", "reads"));
  EXPECT_EQ(Seen("mounts", "conf").state, InputState::kAbsent);
  EXPECT_EQ(Seen("apart", "other").state, InputState::kPresent);
  inputs_.SetObjects({other});
  EXPECT_THAT(Told(), IsEmpty()) << "nothing changed";
}

// The list is compared from both ends; what only moved is no change.
TEST_F(FilePodInputsTest, OrderIsNoChange) {
  const ConfigObjectPtr a = Object("a", "1"), b = Object("b", "1"), c = Object("c", "1");
  inputs_.SetObjects({a, b, c});
  inputs_.Acquire(Pod("p", "b"));
  inputs_.SetObjects({c, b, a});
  EXPECT_THAT(Told(), IsEmpty());
  inputs_.SetObjects({Object("new", "1"), c, b, a});
  inputs_.SetObjects({c, b});
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_EQ(Seen("p", "a").state, InputState::kAbsent);
  EXPECT_EQ(Seen("p", "b").state, InputState::kPresent);
}

TEST_F(FilePodInputsTest, ASecretIsNotTheConfigMapOfItsName) {
  inputs_.SetObjects({Object("x", "map"), Object("x", "secret", ObjectKind::kSecret)});
  inputs_.Acquire(Pod("p", "x"));
  EXPECT_EQ(Seen("p", "x").data->values.at("key"), "map");
  const auto other = inputs_.Object(PodUid("p"), {ObjectKind::kConfigMap, "elsewhere", "x"});
  EXPECT_EQ(other.state, InputState::kAbsent) << "another namespace";
}

TEST_F(FilePodInputsTest, WhoHasGoneIsNotTold) {
  inputs_.SetObjects({Object("conf", "1")});
  inputs_.Acquire(Pod("p", "conf", "conf"));
  inputs_.Release(PodUid("p"));
  inputs_.Release(PodUid("p"));
  inputs_.SetObjects({Object("conf", "2")});
  EXPECT_THAT(Told(), IsEmpty());
  EXPECT_EQ(inputs_.VersionOf(PodUid("p")), 0u);
}

TEST_F(FilePodInputsTest, ANewVersionOfThePodRefersToOtherThings) {
  inputs_.SetObjects({Object("one", "1"), Object("two", "1")});
  inputs_.Acquire(Pod("p", "one"));
  const uint64_t before = inputs_.VersionOf(PodUid("p"));
  inputs_.Acquire(Pod("p", "one"));
  EXPECT_EQ(inputs_.VersionOf(PodUid("p")), before) << "the same again";
  inputs_.Acquire(Pod("p", "two"));
  EXPECT_GT(inputs_.VersionOf(PodUid("p")), before);
  inputs_.SetObjects({Object("one", "2"), Object("two", "1")});
  EXPECT_THAT(Told(), ElementsAre("p")) << "of two, which was made anew";
}

TEST_F(FilePodInputsTest, WhoWaitsForVariablesIsToldOnce) {
  inputs_.SetObjects({});
  inputs_.Acquire(Pod("another", ""));  // of the same namespace, and has what it needs
  ++generation_;
  inputs_.Acquire(Pod("p", ""));
  EXPECT_FALSE(inputs_.ServiceVariables(PodUid("p"), "default", true));
  EXPECT_TRUE(inputs_.ServiceVariables(PodUid("another"), "default", true));
  ++shown_;
  variables_ = {"WEB_PORT=2"};
  inputs_.ServicesChanged();
  EXPECT_THAT(Told(), ElementsAre("p"));
  EXPECT_THAT(*inputs_.ServiceVariables(PodUid("p"), "default", true), ElementsAre("WEB_PORT=2"));
  inputs_.ServicesChanged();
  EXPECT_THAT(Told(), IsEmpty());
}

// Between the look that lets a container start and the start itself the next file may come; a start that were refused then
// would be tried again after a back-off of 10 s.
TEST_F(FilePodInputsTest, WhoHasBeenToldOfVariablesIsToldOfThemWhateverComesNext) {
  inputs_.SetObjects({});
  const auto pod = Pod("p", "");
  inputs_.Acquire(pod);
  EXPECT_TRUE(inputs_.ServiceVariables(PodUid("p"), "default", true));
  ++generation_;
  EXPECT_TRUE(inputs_.ServiceVariables(PodUid("p"), "default", true));
  inputs_.Acquire(pod);
  EXPECT_TRUE(inputs_.ServiceVariables(PodUid("p"), "default", true)) << "a newer version of it";
  inputs_.Release(PodUid("p"));
  inputs_.Acquire(pod);
  EXPECT_FALSE(inputs_.ServiceVariables(PodUid("p"), "default", true)) << "another life";
}

TEST_F(FilePodInputsTest, ThereAreNoTokens) {
  inputs_.SetObjects({});
  inputs_.Acquire(Pod("p", ""));
  const TokenInput token = inputs_.Token(PodUid("p"), "", seconds(3600));
  EXPECT_EQ(token.state, InputState::kUnavailable);
  EXPECT_EQ(token.why, "failed to fetch token: there is no API server");
}

TEST_F(FilePodInputsTest, TheListenerHasEndedWhenItIsTakenAway) {
  std::atomic<bool> stop = false;
  inputs_.Acquire(Pod("p", "conf"));
  std::thread changes([&] {
    for (int i = 0; !stop; ++i) inputs_.SetObjects({Object("conf", std::to_string(i))});
  });
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_unique<std::atomic<int>>(0);
    inputs_.SetListener([&alive](const PodUid&) { ++*alive; });
    (void)inputs_.Object(PodUid("p"), {ObjectKind::kConfigMap, "default", "conf"});
    inputs_.SetListener({});
    alive.reset();  // nobody may touch it any more
  }
  stop = true;
  changes.join();
}

}  // namespace
}  // namespace holdfast::agent
