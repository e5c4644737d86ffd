// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/last_known_inputs.h"

#include <gtest/gtest.h>

#include "agent/objects/kept_inputs.h"
#include "agent/objects/object_requests.h"
#include "agent/objects/references.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/node/v1/runtime_class.pb.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;

class TestClock : public Clock {
 public:
  WallTime Wall() const override { return {}; }
  BootTime Boot() const override { return boot; }
  BootTime boot;
};

const PodUid kUid("u1");
const ObjectRef kMap{ObjectKind::kConfigMap, "default", "conf"};
const ObjectRef kOptional{ObjectKind::kConfigMap, "default", "maybe"};
const ObjectRef kSecret{ObjectKind::kSecret, "default", "key"};

std::shared_ptr<const corev1::Pod> MakePod() {
  auto pod = std::make_shared<corev1::Pod>();
  pod->mutable_metadata()->set_uid("u1");
  pod->mutable_metadata()->set_namespace_("default");
  auto* container = pod->mutable_spec()->add_containers();
  container->set_name("app");
  for (const ObjectRef& ref : {kMap, kOptional}) {
    container->add_envfrom()->mutable_configmapref()->mutable_localobjectreference()->set_name(
        ref.name);
  }
  container->mutable_envfrom(1)->mutable_configmapref()->set_optional(true);
  container->add_envfrom()->mutable_secretref()->mutable_localobjectreference()->set_name(
      kSecret.name);
  return pod;
}

class Source : public PodInputs {
 public:
  void Acquire(std::shared_ptr<const corev1::Pod>) override {}
  void Release(const PodUid&) override {}
  void Refresh(const PodUid&) override {}
  ObjectInput Object(const PodUid&, const ObjectRef& ref) const override {
    const auto it = objects.find(ref);
    return it == objects.end() ? otherwise : it->second;
  }
  TokenInput Token(const PodUid&, const std::string&, seconds) const override { return token; }
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid&, const std::string&,
                                                           bool) const override {
    return variables;
  }
  uint64_t VersionOf(const PodUid&) const override { return 3; }
  void SetListener(std::function<void(const PodUid&)>) override {}

  static ObjectInput Present(const std::string& key, const std::string& value) {
    auto data = std::make_shared<ObjectData>();
    data->values[key] = value;
    return {InputState::kPresent, std::move(data), ""};
  }

  std::map<ObjectRef, ObjectInput> objects;
  ObjectInput otherwise;
  TokenInput token;
  std::optional<std::vector<std::string>> variables;
};

class LastKnownInputsTest : public ::testing::Test {
 protected:
  // Everything was known once, and is on the disk.
  void Keep(bool with_secrets = false) {
    Source known;
    known.objects[kMap] = Source::Present("a", std::string("\0\xff b", 4));
    known.objects[kOptional] = {InputState::kAbsent, nullptr, ""};
    known.objects[kSecret] = Source::Present("k", "geheim");
    known.variables = {"WEB_SERVICE_HOST=10.0.0.1"};
    const auto kept = CollectInputs(*MakePod(), known, with_secrets);
    ASSERT_TRUE(kept);
    text_ = EncodeKept(*kept);
  }
  void Unavailable() {
    source_.otherwise = {InputState::kUnavailable, nullptr, "connection refused"};
    source_.token = {InputState::kUnavailable, nullptr, "connection refused"};
    clock_.boot = clock_.boot + LastKnownInputs::kPatience;
  }

  Source source_;
  TestClock clock_;
  Result<std::string> text_ = NotFound("none");
  int reads_ = 0;
  bool heard_ = false;
  std::vector<std::string> log_;
  LastKnownInputs inputs_{source_, clock_,
                          [this](const PodUid&) {
                            ++reads_;
                            return text_;
                          },
                          [this] { return heard_; },
                          [this](const std::string& line) { log_.push_back(line); }};
};

TEST_F(LastKnownInputsTest, WhatTheServerSaysWins) {
  Keep();
  inputs_.Acquire(MakePod());
  source_.objects[kMap] = Source::Present("a", "new");
  const ObjectInput input = inputs_.Object(kUid, kMap);
  EXPECT_EQ(input.data->values.at("a"), "new");
  EXPECT_FALSE(input.kept);
  EXPECT_EQ(reads_, 0);
}

TEST_F(LastKnownInputsTest, WhatCannotBeHadIsAsItWasLastKnown) {
  Keep();
  inputs_.Acquire(MakePod());
  Unavailable();
  const ObjectInput map = inputs_.Object(kUid, kMap);
  ASSERT_EQ(map.state, InputState::kPresent);
  EXPECT_EQ(map.data->values.at("a"), std::string("\0\xff b", 4));
  EXPECT_TRUE(map.kept);
  EXPECT_EQ(inputs_.Object(kUid, kOptional).state, InputState::kAbsent);
  EXPECT_EQ(inputs_.Token(kUid, "", seconds(3600)).state, InputState::kAbsent);
  EXPECT_EQ(reads_, 1);
}

TEST_F(LastKnownInputsTest, SecretsAreKeptOnlyWhereThatIsAskedFor) {
  Keep();
  EXPECT_EQ(text_->find("key"), std::string::npos) << *text_;
  inputs_.Acquire(MakePod());
  Unavailable();
  EXPECT_EQ(inputs_.Object(kUid, kSecret).why, "connection refused");
  inputs_.Release(kUid);
  Keep(true);
  inputs_.Acquire(MakePod());
  clock_.boot = clock_.boot + LastKnownInputs::kPatience;
  EXPECT_EQ(inputs_.Object(kUid, kSecret).data->values.at("k"), "geheim");
}

TEST_F(LastKnownInputsTest, ClaimsAndTheirVolumesAreKept) {
  auto pod = std::make_shared<corev1::Pod>(*MakePod());
  auto* const volume = pod->mutable_spec()->add_volumes();
  volume->mutable_volumesource()->mutable_persistentvolumeclaim()->set_claimname("c");
  const ObjectRef claim{ObjectKind::kClaim, "default", "c"}, bound{ObjectKind::kVolume, "", "pv"};
  auto known = std::make_shared<corev1::PersistentVolumeClaim>();
  known->mutable_spec()->set_volumename("pv");
  Source source;
  source.objects[kMap] = source.objects[kOptional] = {InputState::kAbsent, nullptr, ""};
  source.objects[claim] = {InputState::kPresent, TakeData(known), ""};
  EXPECT_FALSE(CollectInputs(*pod, source, false)) << "its volume is not known";
  source.objects[bound] = {InputState::kPresent,
                           TakeData(std::make_shared<corev1::PersistentVolume>()), ""};
  const auto kept = CollectInputs(*pod, source, false);
  ASSERT_TRUE(kept);
  const auto read = DecodeKept(EncodeKept(*kept));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(ObjectIn<corev1::PersistentVolumeClaim>(read->objects.at(claim))->spec().volumename(),
            "pv");
  EXPECT_NE(ObjectIn<corev1::PersistentVolume>(read->objects.at(bound)), nullptr);
}

TEST_F(LastKnownInputsTest, AClassOfRuntimeIsKept) {
  auto pod = std::make_shared<corev1::Pod>(*MakePod());
  pod->mutable_spec()->set_runtimeclassname("fast");
  const ObjectRef ref{ObjectKind::kRuntimeClass, "", "fast"};
  auto known = std::make_shared<k8s::io::api::node::v1::RuntimeClass>();
  known->set_handler("runc");
  Source source;
  source.objects[kMap] = source.objects[kOptional] = {InputState::kAbsent, nullptr, ""};
  source.objects[ref] = {InputState::kPresent, TakeData(known), ""};
  const auto kept = CollectInputs(*pod, source, false);
  ASSERT_TRUE(kept);
  const auto read = DecodeKept(EncodeKept(*kept));
  ASSERT_TRUE(read) << read.error().message();
  const auto* const found = ObjectIn<k8s::io::api::node::v1::RuntimeClass>(read->objects.at(ref));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->handler(), "runc");
}

TEST_F(LastKnownInputsTest, WhatAFormerVersionKeptIsRead) {
  const auto read = DecodeKept(R"({"version": 1, "objects": [], "absent": [
    {"secret": true, "namespace": "default", "name": "key"},
    {"secret": false, "namespace": "default", "name": "conf"}]})");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->absent, (std::set<ObjectRef>{kMap, kSecret}));
  EXPECT_FALSE(DecodeKept(R"({"version": 1, "objects": [], "absent": [
    {"kind": "Tape", "namespace": "default", "name": "key"}]})"));
}

TEST_F(LastKnownInputsTest, AServerThatMayYetAnswerIsWaitedForAMoment) {
  Keep();
  inputs_.Acquire(MakePod());
  source_.objects[kMap] = {InputState::kUnavailable, nullptr, "connection refused"};
  EXPECT_EQ(inputs_.Object(kUid, kMap).state, InputState::kPending) << "no trouble yet";
  EXPECT_EQ(inputs_.Object(kUid, kOptional).state, InputState::kPending);
  EXPECT_EQ(inputs_.Token(kUid, "", seconds(3600)).state, InputState::kPending);
  EXPECT_FALSE(inputs_.ServiceVariables(kUid, "default", true));
  clock_.boot = clock_.boot + LastKnownInputs::kPatience;
  EXPECT_EQ(inputs_.Object(kUid, kMap).state, InputState::kPresent);
  EXPECT_EQ(inputs_.Token(kUid, "", seconds(3600)).state, InputState::kAbsent);
  EXPECT_EQ(inputs_.ServiceVariables(kUid, "default", true),
            std::vector<std::string>{"WEB_SERVICE_HOST=10.0.0.1"});
  EXPECT_FALSE(inputs_.ServiceVariables(kUid, "other", true));
  EXPECT_FALSE(inputs_.ServiceVariables(kUid, "default", false));
}

TEST_F(LastKnownInputsTest, OnceTheServerWasHeardOfNothingStandsIn) {
  Keep();
  inputs_.Acquire(MakePod());
  heard_ = true;
  Unavailable();
  EXPECT_EQ(inputs_.Object(kUid, kMap).state, InputState::kUnavailable);
  EXPECT_EQ(inputs_.Token(kUid, "", seconds(3600)).state, InputState::kUnavailable);
  EXPECT_FALSE(inputs_.ServiceVariables(kUid, "default", true));
}

TEST_F(LastKnownInputsTest, ANewPodHasNothingToFallBackOn) {
  inputs_.Acquire(MakePod());
  Unavailable();
  EXPECT_EQ(inputs_.Object(kUid, kMap).state, InputState::kUnavailable);
  EXPECT_EQ(inputs_.Token(kUid, "", seconds(3600)).state, InputState::kUnavailable);
  EXPECT_TRUE(log_.empty());
}

TEST_F(LastKnownInputsTest, WhatIsDamagedCountsAsNothingAndIsTold) {
  for (const char* text : {"", "{}", R"({"version":2,"objects":[],"absent":[]})",
                           R"({"version":1,"objects":[{"secret":false,"namespace":"default",)"
                           R"("name":"conf","values":{"a":"%"},"binary":[]}],"absent":[]})"}) {
    EXPECT_FALSE(DecodeKept(text)) << text;
  }
  text_ = std::string("torn");
  inputs_.Acquire(MakePod());
  Unavailable();
  EXPECT_EQ(inputs_.Object(kUid, kMap).state, InputState::kUnavailable);
  EXPECT_EQ(log_.size(), 1u);
}

TEST_F(LastKnownInputsTest, WhatIsOfTheDiskIsNotKeptAgain) {
  Keep(true);
  inputs_.Acquire(MakePod());
  Unavailable();
  EXPECT_FALSE(CollectInputs(*MakePod(), inputs_, true));
  source_.otherwise = {};
  EXPECT_FALSE(CollectInputs(*MakePod(), source_, false)) << "not all is known";
}

}  // namespace
}  // namespace holdfast::agent
