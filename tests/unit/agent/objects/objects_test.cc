// SPDX-License-Identifier: Apache-2.0
// ConfigMaps and Secrets: who is served by which answer, what is followed, what is waited for.
#include <gmock/gmock.h>

#include "agent/objects/no_inputs.h"
#include "agent/objects/object_requests.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/node/v1/runtime_class.pb.h"
#include "tests/unit/agent/objects/inputs_fixture.h"

namespace holdfast::agent {
namespace {

namespace nodev1 = ::k8s::io::api::node::v1;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class ObjectsTest : public InputsTest {
 protected:
  void SetUp() override { Begin(); }
};

TEST_F(ObjectsTest, OneQuestionForAPodAndItsValues) {
  EXPECT_EQ(Version("a"), 0u);
  Acquire("a", MapEnvironment("m"));
  EXPECT_EQ(Question().call.path, "/api/v1/namespaces/ns/configmaps/m");
  EXPECT_EQ(Seen("a", "m"), "pending");
  Acquire("a", MapEnvironment("m"));
  EXPECT_EQ(Questions(), 1u) << "idempotent";
  Answer(Reply(Map("m", "7", "v1")));
  EXPECT_EQ(Seen("a", "m"), "present v1");
  EXPECT_EQ(Object("a", "m").data->version, "7");
  EXPECT_THAT(Told(), ElementsAre("a"));
  EXPECT_EQ(Watches(), 0u) << "an environment is made once";
  api.Advance(seconds(600));
  EXPECT_EQ(Questions(), 0u);
  EXPECT_EQ(Version("a"), 1u) << "no volume shows it";
}

TEST_F(ObjectsTest, ASecretHasBytes) {
  corev1::Secret secret;
  secret.mutable_metadata()->set_resourceversion("3");
  (*secret.mutable_data())["key"] = std::string("\0\xff", 2);
  (*secret.mutable_data())["long"] = std::string(5000, 'x');
  Acquire("a", "volumes { name: 'v' volumeSource { secret { secretName: 's' } } }");
  EXPECT_EQ(Question().call.path, "/api/v1/namespaces/ns/secrets/s");
  Answer(Reply(secret));
  const auto input = inputs->Object(PodUid("a"), {ObjectKind::kSecret, "ns", "s"});
  ASSERT_EQ(input.state, InputState::kPresent);
  EXPECT_EQ(input.data->values.at("key"), std::string("\0\xff", 2));
  EXPECT_EQ(input.data->values.at("long"), std::string(5000, 'x'));
}

TEST_F(ObjectsTest, AConfigMapHasTextAndBytes) {
  corev1::ConfigMap map = Map("m", "1", "text");
  (*map.mutable_binarydata())["bytes"] = "\xff";
  Acquire("a", MapVolume("m"));
  Answer(Reply(map));
  EXPECT_EQ(Object("a", "m").data->values,
            (std::map<std::string, std::string>{{"bytes", "\xff"}, {"key", "text"}}));
}

TEST_F(ObjectsTest, WhatIsReadIsOverwrittenWhereItLay) {
  const auto secret = std::make_shared<corev1::Secret>();
  (*secret->mutable_data())["key"] = "short";
  TakeData(secret);
  const std::string& left = secret->data().at("key");
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(std::string(left.data(), 6), std::string(6, '\0'));
  ApiReply reply = Reply(*secret);
  EXPECT_TRUE(ReadObject({ObjectKind::kSecret, "ns", "s"}, reply));
  EXPECT_EQ(reply.body.find_first_not_of('\0'), std::string::npos);
}

TEST_F(ObjectsTest, AnAnswerServesWhoHadArrivedWhenItWasAsked) {
  Acquire("a", MapVolume("m"));
  Acquire("b", MapVolume("m"));
  Acquire("c", MapVolume("m"));
  EXPECT_EQ(Questions(), 1u);
  Answer(Reply(Map("m", "1", "old")));
  EXPECT_EQ(Seen("a", "m"), "present old");
  EXPECT_EQ(Seen("b", "m"), "pending") << "it may have been changed before b was made";
  EXPECT_EQ(Questions(), 1u) << "one for b and c";
  Answer(Reply(Map("m", "2", "new")));
  for (const char* uid : {"a", "b", "c"}) EXPECT_EQ(Seen(uid, "m"), "present new") << uid;
  EXPECT_EQ(Questions(), 0u);
}

TEST_F(ObjectsTest, ANewPodAsksAlthoughAnotherOneHasTheObject) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "old")));
  Told();
  Acquire("b", MapVolume("m"));
  EXPECT_EQ(Seen("b", "m"), "pending");
  Answer(Reply(Map("m", "1", "old")));
  EXPECT_EQ(Seen("b", "m"), "present old");
  EXPECT_THAT(Told(), ElementsAre("b")) << "nothing is new for the other";
}

TEST_F(ObjectsTest, WhatIsImmutableIsAskedForOnce) {
  corev1::ConfigMap map = Map("m", "1", "v1");
  map.set_immutable(true);
  Acquire("a", MapVolume("m"));
  Answer(Reply(map));
  Acquire("b", MapVolume("m"));
  EXPECT_EQ(Seen("b", "m"), "present v1");
  EXPECT_EQ(Questions(), 0u);
  EXPECT_EQ(Watches(), 0u);
  api.Advance(seconds(600));
  EXPECT_EQ(Questions() + Watches(), 0u);
}

TEST_F(ObjectsTest, WhatIsMountedHasOneWatchAndItsNewsReachAllPods) {
  Acquire("a", MapVolume("m"));
  EXPECT_EQ(Watches(), 0u) << "first the answer";
  Answer(Reply(Map("m", "1", "v1")));
  Acquire("b", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  Acquire("e", MapEnvironment("m"));
  Answer(Reply(Map("m", "1", "v1")));
  EXPECT_THAT(Watch().call.path,
              HasSubstr("/api/v1/namespaces/ns/configmaps?fieldSelector=metadata.name%3Dm&"));
  WatchSays("ADDED", Map("m", "1", "v1"));
  WatchListEnds("1");
  Told();
  const uint64_t before = Version("a");
  WatchSays("MODIFIED", Map("m", "2", "v2"));
  EXPECT_EQ(Seen("a", "m"), "present v2");
  EXPECT_THAT(Told(), UnorderedElementsAre("a", "b", "e"));
  EXPECT_EQ(Version("a"), before + 1);
  EXPECT_EQ(Version("e"), 1u) << "shown in its environment only";
  WatchSays("MODIFIED", Map("m", "1", "v1"));
  EXPECT_EQ(Seen("a", "m"), "present v2") << "an older event was still on its way";
  Release("a");
  EXPECT_EQ(Watches(), 1u);
  EXPECT_EQ(api.watches.size(), 1u) << "the same one all the time";
  Release("b");
  EXPECT_EQ(Watches(), 0u) << "nobody mounts it any more";
  EXPECT_EQ(Seen("e", "m"), "present v2");
}

TEST_F(ObjectsTest, AWatchLeavesWhatIsBeingStartedAlone) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  api.Advance(milliseconds(999));
  EXPECT_EQ(Watches(), 0u);
  api.Advance(milliseconds(1));
  EXPECT_EQ(Watches(), 1u);
  Release("a");
  EXPECT_EQ(Watches(), 0u);
  Acquire("b", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  Release("b");
  api.Advance(seconds(2));
  EXPECT_EQ(api.watches.size(), 1u) << "none for a short life";
  Acquire("c", MapVolume("none"));
  Answer(Refusal(404, ""));
  EXPECT_EQ(Watches(), 1u) << "what is waited for is watched at once";
}

TEST_F(ObjectsTest, AWatchEndsWithImmutability) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  corev1::ConfigMap map = Map("m", "2", "v2");
  map.set_immutable(true);
  WatchSays("ADDED", map);
  EXPECT_EQ(Seen("a", "m"), "present v2");
  EXPECT_EQ(Watches(), 0u);
}

TEST_F(ObjectsTest, GoneIsBelievedOnlyToAQuestion) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  WatchSays("ADDED", Map("m", "1", "v1"));
  WatchListEnds("1");
  WatchSays("DELETED", Map("m", "2", "v1"));
  EXPECT_EQ(Seen("a", "m"), "present v1");
  Answer(Refusal(404, "configmaps \"m\" not found"));
  EXPECT_EQ(Seen("a", "m"), "absent: configmap \"m\" not found");
  WatchSays("ADDED", Map("m", "3", "v3"));
  EXPECT_EQ(Seen("a", "m"), "present v3");
}

TEST_F(ObjectsTest, A404ThatIsOlderThanTheWatchsNewsIsIgnored) {
  Acquire("a", MapVolume("m"));
  Answer(Refusal(404, ""));
  EXPECT_EQ(Seen("a", "m"), "absent: configmap \"m\" not found");
  Acquire("b", MapVolume("m"));
  EXPECT_EQ(Seen("b", "m"), "pending") << "the 404 is older than the pod";
  WatchSays("ADDED", Map("m", "5", "v5"));
  Answer(Refusal(404, ""));
  EXPECT_EQ(Seen("a", "m"), "present v5");
  EXPECT_EQ(Seen("b", "m"), "present v5");
}

TEST_F(ObjectsTest, WhatAContainerNeedsIsAskedForUntilItIsThere) {
  Acquire("a", MapEnvironment("m"));
  Answer(Refusal(404, ""));
  EXPECT_EQ(Seen("a", "m"), "absent: configmap \"m\" not found");
  EXPECT_EQ(Watches(), 0u);
  const auto first = UntilAsked(seconds(100));
  EXPECT_LT(first, seconds(2));
  Answer(Refusal(404, ""));
  EXPECT_GT(UntilAsked(seconds(100)), first);
  Answer(Reply(Map("m", "1", "v1")));
  EXPECT_EQ(Seen("a", "m"), "present v1");
  EXPECT_EQ(UntilAsked(seconds(300)), seconds(300));
}

TEST_F(ObjectsTest, WhatIsOptionalInAnEnvironmentIsNotWaitedFor) {
  Acquire("a",
          "containers { name: 'c' envFrom { configMapRef { localObjectReference { name: 'm' } "
          "optional: true } } }");
  Answer(Refusal(404, ""));
  EXPECT_EQ(UntilAsked(seconds(300)), seconds(300));
}

TEST_F(ObjectsTest, ANodeWhoseRightIsNotKnownYetTriesSilently) {
  Acquire("a", MapEnvironment("m"));
  std::vector<int64_t> delays;
  for (int i = 0; i < 8; ++i) {
    Answer(TooEarly());
    EXPECT_EQ(Seen("a", "m"), "pending");
    delays.push_back(UntilAsked(seconds(10)).count());
  }
  EXPECT_THAT(delays, ElementsAre(2, 4, 8, 16, 32, 64, 100, 100));
  EXPECT_THAT(Told(), IsEmpty());
  const auto from = api.now;
  while (Seen("a", "m") == "pending" && api.now < seconds(20)) {
    Answer(TooEarly());
    if (Seen("a", "m") == "pending") UntilAsked(seconds(10));
  }
  EXPECT_NEAR(static_cast<double>((api.now - from).count()), 4674, 150);
  EXPECT_THAT(Seen("a", "m"), HasSubstr("unavailable: no relationship found"));
  UntilAsked(seconds(10));
  Answer(Reply(Map("m", "1", "v1")));
  EXPECT_EQ(Seen("a", "m"), "present v1") << "it goes on trying";
}

TEST_F(ObjectsTest, AServerThatIsAwayTakesNothingFromWhoIsServed) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  Acquire("b", MapVolume("m"));
  api.Answer(Question(), Unavailable("connection refused"));
  EXPECT_EQ(Seen("a", "m"), "present v1");
  EXPECT_EQ(Seen("b", "m"), "unavailable: failed to sync configmap cache: connection refused");
  EXPECT_LT(UntilAsked(seconds(10)), seconds(2));
  ApiReply busy = Refusal(429, "too many requests");
  busy.retry_after = seconds(7);
  Answer(busy);
  EXPECT_EQ(Seen("b", "m"), "unavailable: too many requests");
  EXPECT_GE(UntilAsked(seconds(20)), seconds(7));
  Answer(Reply(Map("m", "1", "v1")));
  EXPECT_EQ(Seen("b", "m"), "present v1");
}

TEST_F(ObjectsTest, AnAnswerThatIsNoneIsTriedAgain) {
  Acquire("a", MapEnvironment("m"));
  ApiReply html;
  html.code = 200;
  html.body = "<html>";
  Answer(html);
  EXPECT_THAT(Seen("a", "m"), HasSubstr("unavailable: failed to sync configmap cache: get "));
  EXPECT_LT(UntilAsked(seconds(10)), seconds(2));
}

TEST_F(ObjectsTest, NothingIsAskedForAPodThatIsReleased) {
  Acquire("a", MapVolume("m") + MapVolume("n"));
  EXPECT_EQ(Questions(), 2u);
  Release("a");
  EXPECT_EQ(Questions(), 0u);
  EXPECT_EQ(Seen("a", "m"), "pending");
  EXPECT_EQ(Version("a"), 0u);
  api.Advance(seconds(200));
  EXPECT_EQ(Questions() + Watches(), 0u);
}

TEST_F(ObjectsTest, ValuesAreKeptUntilTheLastUserLeaves) {
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  std::weak_ptr<const ObjectData> data = Object("a", "m").data;
  EXPECT_FALSE(data.expired());
  Release("a");
  EXPECT_TRUE(data.expired());
}

TEST_F(ObjectsTest, ANewVersionOfAPodMayReferToMore) {
  Acquire("a", MapEnvironment("m"));
  Answer(Reply(Map("m", "1", "v1")));
  Acquire("a", MapEnvironment("m") + MapEnvironment("n"));
  EXPECT_EQ(Question().call.path, "/api/v1/namespaces/ns/configmaps/n");
  EXPECT_EQ(Seen("a", "m"), "present v1");
  Acquire("a", MapEnvironment("m"));
  EXPECT_EQ(Questions(), 0u);
}

TEST_F(ObjectsTest, LabelsOfThePodAreShownByItsVolumes) {
  Acquire("a", MapVolume("m"));
  const uint64_t before = Version("a");
  auto pod = std::make_shared<corev1::Pod>(*Pod("a", MapVolume("m")));
  inputs->Acquire(pod);
  EXPECT_EQ(Version("a"), before);
  auto labelled = std::make_shared<corev1::Pod>(*pod);
  (*labelled->mutable_metadata()->mutable_labels())["app"] = "web";
  inputs->Acquire(labelled);
  EXPECT_EQ(Version("a"), before + 1);
}

TEST_F(ObjectsTest, AContainerThatRunsAgainHasNewValues) {
  Acquire("a", MapEnvironment("m"));
  Answer(Reply(Map("m", "1", "v1")));
  inputs->Refresh(PodUid("a"));
  inputs->Refresh(PodUid("a"));
  api.RunPosted();
  EXPECT_EQ(Seen("a", "m"), "present v1") << "until the answer comes";
  Answer(Reply(Map("m", "2", "v2")));
  EXPECT_EQ(Seen("a", "m"), "present v2");
  EXPECT_EQ(Questions(), 0u);
}

TEST_F(ObjectsTest, AboveTheMostWatchesThereAreQuestionsInstead) {
  Begin(1);
  Acquire("a", MapVolume("m"));
  Answer(Reply(Map("m", "1", "v1")));
  WatchListEnds("1");
  Acquire("b", MapVolume("n"));
  Answer(Reply(Map("n", "1", "v1")));
  EXPECT_THAT(Watch().call.path, HasSubstr("name%3Dm&"));
  const auto asked = UntilAsked(seconds(200), milliseconds(100));
  EXPECT_GE(asked, seconds(60));
  EXPECT_LE(asked, seconds(91));
  Answer(Reply(Map("n", "2", "v2")));
  EXPECT_EQ(Seen("b", "n"), "present v2");
  Release("a");
  UntilAsked(seconds(200), milliseconds(100));
  Answer(Reply(Map("n", "2", "v2")));
  EXPECT_THAT(Watch().call.path, HasSubstr("name%3Dn&")) << "a place has become free";
  WatchListEnds("2");
  EXPECT_EQ(UntilAsked(seconds(200), milliseconds(100)), seconds(200));
}

TEST_F(ObjectsTest, WhatComesAfterTheEndFindsNobody) {
  inputs->Acquire(Pod("a", MapVolume("m")));
  inputs.reset();
  api.RunPosted();
  EXPECT_EQ(Questions(), 0u);
}

// --- claims ---

corev1::PersistentVolumeClaim Claim(const std::string& version, const std::string& volume) {
  corev1::PersistentVolumeClaim claim;
  claim.mutable_metadata()->set_name("c");
  claim.mutable_metadata()->set_resourceversion(version);
  claim.mutable_spec()->set_volumename(volume);
  claim.mutable_status()->set_phase(volume.empty() ? "Pending" : "Bound");
  return claim;
}

constexpr char kClaimVolume[] =
    "volumes { name: 'v' volumeSource { persistentVolumeClaim { claimName: 'c' } } }";

TEST_F(ObjectsTest, AClaimIsAskedForUntilItIsBoundThenItsVolume) {
  const ObjectRef claim{ObjectKind::kClaim, "ns", "c"}, volume{ObjectKind::kVolume, "", "pv"};
  Acquire("a", kClaimVolume);
  EXPECT_EQ(Question().call.path, "/api/v1/namespaces/ns/persistentvolumeclaims/c");
  Answer(Reply(Claim("1", "")));
  EXPECT_EQ(inputs->Object(PodUid("a"), claim).state, InputState::kPresent);
  EXPECT_EQ(Watches(), 0u) << "a node may not watch it";
  EXPECT_LE(UntilAsked(seconds(5)), milliseconds(1600)) << "who binds it is waited for";
  Answer(Reply(Claim("1", "")));
  EXPECT_LE(UntilAsked(seconds(5)), milliseconds(3200));
  const uint64_t before = Version("a");
  Answer(Reply(Claim("2", "pv")));
  EXPECT_GT(Version("a"), before);
  EXPECT_EQ(inputs->Object(PodUid("a"), volume).state, InputState::kPending);
  api.RunPosted();
  EXPECT_EQ(Question().call.path, "/api/v1/persistentvolumes/pv");
  corev1::PersistentVolume pv;
  pv.mutable_metadata()->set_name("pv");
  pv.mutable_metadata()->set_resourceversion("3");
  Answer(Reply(pv));
  const auto known = inputs->Object(PodUid("a"), volume).data;
  ASSERT_NE(ObjectIn<corev1::PersistentVolume>(known), nullptr);
  EXPECT_EQ(ObjectIn<corev1::PersistentVolume>(known)->metadata().name(), "pv");
  EXPECT_GE(UntilAsked(seconds(100)), seconds(60)) << "what is settled seldom changes";
}

// --- classes of runtime ---

TEST_F(ObjectsTest, AClassOfRuntimeIsFollowedAlsoBeforeItIsThere) {
  const ObjectRef ref{ObjectKind::kRuntimeClass, "", "fast"};
  Acquire("a", "runtimeClassName: 'fast'");
  EXPECT_EQ(Question().call.path, "/apis/node.k8s.io/v1/runtimeclasses/fast");
  Answer(Refusal(404, "runtimeclasses.node.k8s.io \"fast\" not found"));
  EXPECT_EQ(inputs->Object(PodUid("a"), ref).why, "runtimeclass.node.k8s.io \"fast\" not found");
  EXPECT_THAT(Watch().call.path,
              HasSubstr("/apis/node.k8s.io/v1/runtimeclasses?fieldSelector=metadata.name%3Dfast&"));
  const uint64_t before = Version("a");
  nodev1::RuntimeClass made;
  made.mutable_metadata()->set_name("fast");
  made.mutable_metadata()->set_resourceversion("7");
  made.set_handler("runc");
  api.Send(Watch(), "ADDED", kube::EncodeEnvelope(made));
  const auto known = inputs->Object(PodUid("a"), ref).data;
  ASSERT_NE(ObjectIn<nodev1::RuntimeClass>(known), nullptr);
  EXPECT_EQ(ObjectIn<nodev1::RuntimeClass>(known)->handler(), "runc");
  EXPECT_EQ(Version("a"), before) << "no volume shows it";
  Release("a");
  EXPECT_EQ(Watches(), 0u);
}

TEST_F(ObjectsTest, AClaimThatIsNotThereIsWaitedFor) {
  Acquire("a", kClaimVolume);
  Answer(Refusal(404, "persistentvolumeclaims \"c\" not found"));
  const auto input = inputs->Object(PodUid("a"), {ObjectKind::kClaim, "ns", "c"});
  EXPECT_EQ(input.state, InputState::kAbsent);
  EXPECT_EQ(input.why, "persistentvolumeclaims \"c\" not found");
  EXPECT_LE(UntilAsked(seconds(5)), milliseconds(1600));
}

TEST_F(ObjectsTest, ServiceVariablesComeFromWhoKnowsServices) {
  EXPECT_FALSE(inputs->ServiceVariables(PodUid("a"), "ns", true)) << "nobody";
  ApiPodInputsOptions options;
  options.service_variables = [](const std::string& ns, bool links) {
    return std::vector<std::string>{ns + (links ? "=all" : "=api")};
  };
  const ApiPodInputs with(api, clock, options);
  EXPECT_THAT(*with.ServiceVariables(PodUid("a"), "ns", true), ElementsAre("ns=all"));
}

TEST_F(ObjectsTest, PodsAreToldOnceServicesAreKnown) {
  Acquire("a", MapEnvironment("m"));
  Acquire("b", "");
  Release("b");
  Acquire("c", "");
  told.clear();
  inputs->ServicesKnown();
  EXPECT_THAT(told, UnorderedElementsAre("a", "c"));
}

TEST(NoInputs, NothingIsThere) {
  const NoInputs none;
  const auto input = none.Object(PodUid("a"), {ObjectKind::kSecret, "ns", "s"});
  EXPECT_EQ(input.state, InputState::kAbsent);
  EXPECT_EQ(input.why, "secret \"s\" not found");
  EXPECT_TRUE(none.ServiceVariables(PodUid("a"), "ns", true));
}

}  // namespace
}  // namespace holdfast::agent
