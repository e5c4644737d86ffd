// SPDX-License-Identifier: Apache-2.0
#include "agent/report/api_pod_reporter.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/report/status_patch.h"
#include "agent/source/pod_registry.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ApiReply Reply(int code, const std::string& message = "") {
  ApiReply reply;
  reply.code = code;
  reply.message = message;
  return reply;
}

class ApiPodReporterTest : public ::testing::Test {
 protected:
  // The server's copy, as the watch brings it.
  corev1::Pod& Server(const std::string& uid = "u1") {
    corev1::Pod& pod = server_[uid];
    if (!pod.has_metadata()) {
      pod.mutable_metadata()->set_uid(uid);
      pod.mutable_metadata()->set_namespace_("default");
      pod.mutable_metadata()->set_name("pod-" + uid);
      pod.mutable_status()->set_phase("Pending");
      // Whatever is not the point of a test has been agreed upon.
      pod.mutable_status()->add_conditions()->set_type("PodScheduled");
    }
    return pod;
  }
  void Watched(const std::string& uid = "u1") {
    Server(uid).mutable_metadata()->set_resourceversion(std::to_string(++version_));
    EXPECT_TRUE(registry_.Set(
        {std::make_shared<const corev1::Pod>(Server(uid)), PodOrigin::kApi, std::nullopt}));
    reporter_->Look(PodUid(uid));
    api_.RunPosted();
  }
  void Deleting(const std::string& uid = "u1") {
    Server(uid).mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
    Watched(uid);
  }
  static corev1::PodStatus Status(const std::string& phase, bool ready = false,
                                  int64_t generation = 0) {
    corev1::PodStatus status;
    status.set_phase(phase);
    if (generation != 0) status.set_observedgeneration(generation);
    corev1::PodCondition* condition = status.add_conditions();
    condition->set_type("Ready");
    condition->set_status(ready ? "True" : "False");
    return status;
  }
  void Report(const corev1::PodStatus& status, bool released = false,
              const std::string& uid = "u1") {
    reporter_->Report({std::make_shared<const corev1::Pod>(Server(uid)),
                       std::make_shared<const corev1::PodStatus>(status), released});
    api_.RunPosted();
  }
  // The patch that waits for an answer is taken: the server has `status` then.
  void Accept(const corev1::PodStatus& status, const std::string& uid = "u1") {
    ASSERT_FALSE(Waiting().empty());
    Server(uid).mutable_status()->MergeFrom(status);
    Server(uid).mutable_status()->clear_conditions();
    *Server(uid).mutable_status()->mutable_conditions() = status.conditions();
    Server(uid).mutable_metadata()->set_resourceversion(std::to_string(++version_));
    ApiReply reply = Reply(200);
    reply.body = kube::EncodeEnvelope(Server(uid));
    api_.Answer(*Waiting().front(), reply);
  }
  void Answer(int code, const std::string& message = "") {
    ASSERT_FALSE(Waiting().empty());
    api_.Answer(*Waiting().front(), Reply(code, message));
  }
  std::vector<fakes::FakeApi::CallPtr> Waiting() { return fakes::FakeApi::Open(api_.sent); }
  size_t Sent() const { return api_.sent.size(); }
  // Agreed upon and running.
  void Run() {
    Watched();
    Report(Status("Running", true));
    Accept(Status("Running", true));
    Watched();
    ASSERT_EQ(Sent(), 1u);
  }

  fakes::FakeApi api_;
  PodRegistry registry_{{PodOrigin::kApi}};
  std::vector<std::string> log_;
  uint64_t version_ = 0;
  std::map<std::string, corev1::Pod> server_;
  std::unique_ptr<ApiPodReporter> reporter_ = std::make_unique<ApiPodReporter>(
      api_, [this](const PodUid& uid) { return registry_.Find(uid); },
      [this](const std::string& line) { log_.push_back(line); });
};

TEST_F(ApiPodReporterTest, APhaseGoesAtOnceAsAPatchOfTheStatus) {
  Watched();
  Report(Status("Running", true));
  ASSERT_EQ(Waiting().size(), 1u);
  const ApiCall& call = Waiting()[0]->call;
  EXPECT_EQ(call.verb, ApiVerb::kPatch);
  EXPECT_EQ(call.path, "/api/v1/namespaces/default/pods/pod-u1/status");
  EXPECT_EQ(call.content_type, "application/strategic-merge-patch+json");
  EXPECT_EQ(call.lane, ApiLane::kPods);
  EXPECT_TRUE(call.repeatable);
  EXPECT_EQ(call.body, StatusPatch(PodUid("u1"), Server().status(), Status("Running", true)));
  EXPECT_TRUE(reporter_->IsBusy());
  Accept(Status("Running", true));
  EXPECT_FALSE(reporter_->IsBusy());
  Watched();  // the echo
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 1u);
  EXPECT_TRUE(log_.empty());
}

TEST_F(ApiPodReporterTest, OtherChangesAreGatheredForAMoment) {
  Watched();
  Report(Status("Pending", false, 1));
  api_.Advance(milliseconds(30));
  Report(Status("Pending", false, 2));
  api_.Advance(ApiPodReporter::kGather - milliseconds(31));
  EXPECT_EQ(Sent(), 0u);
  api_.Advance(milliseconds(1));
  ASSERT_EQ(Sent(), 1u) << "counted from the first";
  EXPECT_NE(Waiting()[0]->call.body.find(R"("observedGeneration":2)"), std::string::npos);
}

TEST_F(ApiPodReporterTest, AnOrdinaryStartIsOnePatch) {
  Watched();
  Report(Status("Pending", false, 1));
  api_.Advance(milliseconds(20));
  Report(Status("Running", true, 1));
  ASSERT_EQ(Sent(), 1u);
  Accept(Status("Running", true, 1));
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 1u);
}

TEST_F(ApiPodReporterTest, OneAtATimeAndTheNewestIsComparedAfterEachAnswer) {
  Watched();
  Report(Status("Running", false));
  Report(Status("Running", true));
  Report(Status("Running", true, 7));
  EXPECT_EQ(Sent(), 1u);
  Accept(Status("Running", false));
  ASSERT_EQ(Sent(), 2u) << "an update that came meanwhile is not forgotten";
  EXPECT_NE(Waiting()[0]->call.body.find(R"("observedGeneration":7)"), std::string::npos);
  Accept(Status("Running", true, 7));
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, TheAnswerCountsUntilTheWatchHasIt) {
  Watched();
  Report(Status("Running", true));
  Accept(Status("Running", true));
  reporter_->Look(PodUid("u1"));  // an older event of the watch: the registry's copy is Pending
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 1u);
}

TEST_F(ApiPodReporterTest, TheAnswerOfAStoreThatWasRestoredSinceDoesNotCount) {
  Watched();
  Report(Status("Running", true));
  Accept(Status("Running", true));
  reporter_->Listed();  // the registry's copy is Pending, as before
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, WithoutTheServersCopyItWaitsForIt) {
  Report(Status("Running", true));
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 0u) << "nothing is known before the first list";
  Watched();
  EXPECT_EQ(Sent(), 1u);
}

TEST_F(ApiPodReporterTest, ForeignChangesOfOurFieldsArePutBackAfterAWhile) {
  Run();
  Server().mutable_status()->mutable_conditions(0)->set_status("False");
  Watched();
  api_.Advance(milliseconds(1'999));
  EXPECT_EQ(Sent(), 1u) << "who wrote it may read it";
  api_.Advance(milliseconds(1));
  ASSERT_EQ(Sent(), 2u);
  EXPECT_NE(Waiting()[0]->call.body.find(R"("status":"True")"), std::string::npos);
  Accept(Status("Running", true));
  // Taken back by themselves in time, nothing is to be done.
  Server().mutable_status()->set_phase("Pending");
  Watched();
  Server().mutable_status()->set_phase("Running");
  Watched();
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, NoMoreThanSixteenAtATimeAndUrgentOnesFirst) {
  for (int i = 0; i < 20; ++i) Watched("u" + std::to_string(i));
  for (int i = 0; i < 18; ++i) Report(Status("Pending", false, 1), false, "u" + std::to_string(i));
  api_.Advance(ApiPodReporter::kGather);
  EXPECT_EQ(Waiting().size(), 16u);
  Report(Status("Running", true), false, "u19");
  Report(Status("Running", true), false, "u17");
  EXPECT_EQ(Sent(), 16u);
  Accept(Status("Pending", false, 1), "u0");
  ASSERT_EQ(Sent(), 17u);
  EXPECT_NE(api_.sent.back()->call.path.find("pod-u19/"), std::string::npos);
  Accept(Status("Pending", false, 1), "u1");
  ASSERT_EQ(Sent(), 18u);
  EXPECT_NE(api_.sent.back()->call.path.find("pod-u17/"), std::string::npos);
  Accept(Status("Pending", false, 1), "u2");
  Accept(Status("Pending", false, 1), "u3");
  EXPECT_EQ(Sent(), 19u) << "each once";
}

TEST_F(ApiPodReporterTest, FailuresAreTriedAgainLaterAndLater) {
  Watched();
  Report(Status("Running", true));
  api_.Answer(*Waiting()[0], Unavailable("connection refused"));
  EXPECT_EQ(log_, std::vector<std::string>{"pods: connection refused, trying again"});
  api_.Advance(milliseconds(249));
  EXPECT_EQ(Sent(), 1u);
  Report(Status("Running", true, 2));
  EXPECT_EQ(Sent(), 1u) << "nor for another one";
  api_.Advance(milliseconds(1));
  ASSERT_EQ(Sent(), 2u);
  Answer(503);
  api_.Advance(milliseconds(499));
  EXPECT_EQ(Sent(), 2u);
  api_.Advance(milliseconds(1));
  ASSERT_EQ(Sent(), 3u);
  ApiReply later = Reply(429);
  later.retry_after = seconds(9);
  api_.Answer(*Waiting()[0], later);
  api_.Advance(milliseconds(8'999));
  EXPECT_EQ(Sent(), 3u);
  api_.Advance(milliseconds(1));
  ASSERT_EQ(Sent(), 4u);
  Accept(Status("Running", true, 2));
  EXPECT_EQ(Waiting().size(), 0u);
}

TEST_F(ApiPodReporterTest, AfterAnHourWithoutAnswersTheNewestIsSentOnce) {
  Run();
  Report(Status("Running", false));
  for (int minute = 1; minute <= 60; ++minute) {
    Report(Status("Running", minute % 2 == 0, minute));
    api_.AdvanceWithoutAnswers(seconds(60));
    EXPECT_LE(Waiting().size(), 1u) << minute;
  }
  EXPECT_LE(Sent(), 120u) << "later and later, whatever is new";
  EXPECT_EQ(log_.size(), 1u);
  Report(Status("Failed"));
  for (int i = 0; Waiting().empty() && i < 40; ++i) api_.Advance(seconds(1));
  const size_t sent = Sent();
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_NE(Waiting()[0]->call.body.find("\"phase\":\"Failed\""), std::string::npos);
  Accept(Status("Failed"));
  Watched();
  api_.Advance(seconds(600));
  EXPECT_EQ(Sent(), sent);
}

TEST_F(ApiPodReporterTest, ARefusalIsTriedAgainAtOnceWithAnotherStatus) {
  Watched();
  Report(Status("Running", true));
  Answer(422, "no");
  EXPECT_EQ(Sent(), 1u);
  Report(Status("Failed"));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, WhatTheServerMakesNothingOfIsNotSaidAgain) {
  Watched();
  Report(Status("Pending", false, 3));
  api_.Advance(ApiPodReporter::kGather);
  Server().mutable_metadata()->set_resourceversion(std::to_string(++version_));
  ApiReply reply = Reply(200);
  reply.body = kube::EncodeEnvelope(Server());
  api_.Answer(*Waiting().front(), reply);
  Watched();
  api_.Advance(seconds(600));
  EXPECT_EQ(Sent(), 1u);
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_NE(log_[0].find("changed nothing"), std::string::npos);
  Report(Status("Running", true, 3));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, AnAnswerThatCannotBeReadMakesNoHotLoop) {
  Watched();
  Report(Status("Running", true));
  Answer(200);
  EXPECT_EQ(Sent(), 1u);
  Server().mutable_status()->CopyFrom(Status("Running", true));
  Watched();
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 1u);
}

TEST_F(ApiPodReporterTest, OfAnObjectThatIsGoneNothingIsSaid) {
  for (const auto& [code, message] : std::map<int, std::string>{
           {404, ""},
           {409, "Precondition failed: UID in precondition: u1, UID in object meta: u2"}}) {
    const std::string uid = "gone-" + std::to_string(code);
    Watched(uid);
    const size_t before = Sent();
    Report(Status("Running", true), false, uid);
    Answer(code, message);
    Report(Status("Failed"), true, uid);
    api_.Advance(seconds(600));
    EXPECT_EQ(Sent(), before + 1) << code;
  }
  EXPECT_TRUE(log_.empty());
}

TEST_F(ApiPodReporterTest, AConflictOfAnotherKindIsTriedAgain) {
  Watched();
  Report(Status("Running", true));
  Answer(409, "the object has been modified");
  api_.Advance(milliseconds(250));
  EXPECT_EQ(Sent(), 2u);
}

TEST_F(ApiPodReporterTest, TheObjectGoesAfterItsLastPhaseWasTakenAndNothingIsLeftHere) {
  Run();
  Deleting();
  Report(Status("Failed"), true);
  ASSERT_EQ(Sent(), 2u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPatch);
  Accept(Status("Failed"));
  ASSERT_EQ(Waiting().size(), 1u) << "on the answer, not on the echo";
  const ApiCall& call = Waiting()[0]->call;
  EXPECT_EQ(call.verb, ApiVerb::kDelete);
  EXPECT_EQ(call.path, "/api/v1/namespaces/default/pods/pod-u1");
  EXPECT_EQ(call.body, R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,)"
                       R"("preconditions":{"uid":"u1"}})");
  Answer(200);
  // A finalizer holds it.
  Watched();
  Report(Status("Failed", false, 9), true);
  api_.Advance(seconds(600));
  ASSERT_EQ(Sent(), 4u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPatch) << "deleted once only";
}

TEST_F(ApiPodReporterTest, WhatIsLeftToSayDoesNotHoldUpTheEnd) {
  Run();
  Deleting();
  Report(Status("Failed"));
  Accept(Status("Failed"));
  corev1::PodStatus rest = Status("Failed");
  rest.add_conditions()->set_type("PodReadyToStartContainers");
  Report(rest, true);
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kDelete);
  Answer(200);
  // A finalizer holds it.
  api_.Advance(ApiPodReporter::kGather);
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPatch);
}

TEST_F(ApiPodReporterTest, AnEndThatOthersGaveItIsNotOurs) {
  Run();
  Server().mutable_status()->set_phase("Failed");
  Deleting();
  corev1::PodStatus ours = Status("Failed");
  ours.add_containerstatuses()->set_name("app");
  Report(ours, true);
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPatch) << "how the containers ended comes first";
}

TEST_F(ApiPodReporterTest, TheObjectStaysAsLongAsAnyOfItIsMissing) {
  Run();
  Report(Status("Failed"), true);
  Accept(Status("Failed"));
  EXPECT_EQ(Waiting().size(), 0u) << "nobody deleted it";
  Deleting();
  EXPECT_EQ(Waiting().size(), 1u);

  Deleting("u2");
  Report(Status("Failed"), false, "u2");
  Answer(404);  // u1's DELETE
  Accept(Status("Failed"), "u2");
  EXPECT_EQ(Waiting().size(), 0u) << "volumes are mounted";
  Report(Status("Failed"), true, "u2");
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kDelete);
}

TEST_F(ApiPodReporterTest, ADeleteThatFailsIsTriedAgain) {
  Deleting();
  Report(Status("Failed"), true);
  Accept(Status("Failed"));
  Answer(500);
  api_.Advance(milliseconds(250));
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kDelete);
  // An API server that has just begun knows no pods where it looks first.
  Answer(404);
  api_.Advance(seconds(1));
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kDelete);
  Answer(404);
  registry_.Remove(PodOrigin::kApi, PodUid("u1"));
  reporter_->Look(PodUid("u1"));
  api_.Advance(seconds(600));
  EXPECT_EQ(Sent(), 4u) << "it is gone";
  EXPECT_TRUE(log_.size() == 1) << "the 500";
}

TEST_F(ApiPodReporterTest, AForgottenPodIsSpokenOfNoMore) {
  Watched();
  Report(Status("Pending", false, 1));
  reporter_->Forget(PodUid("u1"));
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 0u);
  Report(Status("Running", true));
  registry_.Remove(PodOrigin::kApi, PodUid("u1"));
  reporter_->Look(PodUid("u1"));
  EXPECT_EQ(Waiting().size(), 0u) << "what is under way is given up";
  Watched("u2");
  Report(Status("Running", true), false, "u2");
  EXPECT_EQ(Waiting().size(), 1u);
}

TEST_F(ApiPodReporterTest, NothingIsCalledAfterItsEnd) {
  Watched();
  Report(Status("Running", true));
  reporter_->Report({std::make_shared<const corev1::Pod>(Server()),
                     std::make_shared<const corev1::PodStatus>(Status("Failed")), false});
  reporter_.reset();
  EXPECT_EQ(Waiting().size(), 0u);
  api_.Advance(seconds(60));
  EXPECT_EQ(Sent(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
