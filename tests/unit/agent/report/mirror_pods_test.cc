// SPDX-License-Identifier: Apache-2.0
#include "agent/report/mirror_pods.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/report/mirror_plan.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

corev1::Pod StaticPod(const std::string& hash, const std::string& name = "etcd-n1") {
  corev1::Pod pod;
  pod.mutable_metadata()->set_namespace_("kube-system");
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_uid(hash);
  auto& annotations = *pod.mutable_metadata()->mutable_annotations();
  annotations["kubernetes.io/config.hash"] = hash;
  annotations["kubernetes.io/config.seen"] = "2026-11-22T10:00:00.000000001Z";
  annotations["kubernetes.io/config.source"] = "file";
  pod.mutable_spec()->set_nodename("n1");
  pod.mutable_spec()->add_containers()->set_name("etcd");
  return pod;
}

// As the server has it.
corev1::Pod Mirror(const std::string& uid, const std::string& hash, int version = 10) {
  corev1::Pod pod = MirrorOf(StaticPod(hash), "n1", "node-uid");
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_resourceversion(std::to_string(version));
  return pod;
}

class Reports : public PodReporter {
 public:
  void Report(PodReport report) override {
    said.push_back(report.pod->metadata().uid() + "=" + report.status->phase() +
                   (report.released ? " released" : ""));
  }
  void Forget(const PodUid& uid) override { said.push_back("-" + uid.value); }
  Lines Take() { return std::exchange(said, {}); }
  Lines said;
};

class MirrorPodsTest : public ::testing::Test {
 protected:
  void Join(const std::vector<corev1::Pod>& listed = {}) {
    mirrors_.ListBegins();
    for (const corev1::Pod& pod : listed) Watched(pod);
    mirrors_.ListEnds();
    mirrors_.SetNodeUid("node-uid");
    api_.RunPosted();
  }
  void Report(const corev1::Pod& pod, const std::string& phase = "Pending",
              PodOrigin origin = PodOrigin::kFile) {
    corev1::PodStatus status;
    status.set_phase(phase);
    mirrors_.Report({std::make_shared<const corev1::Pod>(pod),
                     std::make_shared<const corev1::PodStatus>(status), false, origin});
    api_.RunPosted();
  }
  void Forget(const std::string& uid) {
    mirrors_.Forget(PodUid(uid));
    api_.RunPosted();
  }
  static kube::ObjectPtr Object(const corev1::Pod& pod) {
    kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
    object->CopyFrom(pod);
    return object;
  }
  void Watched(const corev1::Pod& pod) { mirrors_.Put(Object(pod)); }
  void Answer(int code, const std::string& message = "", const corev1::Pod* pod = nullptr) {
    ASSERT_FALSE(Waiting().empty());
    ApiReply reply;
    reply.code = code;
    reply.message = message;
    if (pod != nullptr) reply.body = kube::EncodeEnvelope(*pod);
    api_.Answer(*Waiting().front(), reply);
  }
  void Made(const corev1::Pod& mirror) { Answer(201, "", &mirror); }
  std::vector<fakes::FakeApi::CallPtr> Waiting() { return fakes::FakeApi::Open(api_.sent); }
  // What waits for an answer: "POST", "DELETE m1".
  Lines Asked() {
    Lines asked;
    for (const auto& one : Waiting()) {
      const std::string& body = one->call.body;
      const size_t uid = body.find(R"("uid":")");
      asked.push_back(one->call.verb == ApiVerb::kPost
                          ? "POST"
                          : "DELETE " + body.substr(uid + 7, body.find('"', uid + 7) - uid - 7));
    }
    return asked;
  }
  // A pod with its mirror, and nothing under way.
  void Settle() {
    Join();
    Report(StaticPod("h1"));
    Made(Mirror("m1", "h1"));
    Watched(Mirror("m1", "h1"));
    ASSERT_EQ(Asked(), Lines{});
    (void)reports_.Take();
    seen_.clear();
  }

  fakes::FakeApi api_;
  Reports reports_;
  Lines trouble_, seen_;
  MirrorPods mirrors_{api_,
                      reports_,
                      {"n1", [this](const PodUid& uid) { seen_.push_back(uid.value); },
                       [this](const std::string& why) { trouble_.push_back(why); }}};
};

TEST_F(MirrorPodsTest, AStaticPodGetsAMirrorWhoseStatusIsItsOwn) {
  Join();
  Report(StaticPod("h1"));
  ASSERT_EQ(Asked(), Lines{"POST"});
  const ApiCall& call = Waiting()[0]->call;
  EXPECT_EQ(call.path, "/api/v1/namespaces/kube-system/pods");
  EXPECT_EQ(call.content_type, kProtobufType);
  EXPECT_FALSE(call.repeatable) << "whether a lost one was made is seen by the watch";
  const auto sent = kube::DecodeEnvelope(call.body);
  ASSERT_TRUE(sent) << sent.error().message();
  const auto& pod = dynamic_cast<const corev1::Pod&>(**sent);
  EXPECT_EQ(pod.metadata().name(), "etcd-n1");
  const auto& annotations = pod.metadata().annotations();
  EXPECT_EQ(annotations.at("kubernetes.io/config.mirror"), "h1");
  EXPECT_EQ(annotations.at("kubernetes.io/config.hash"), "h1");
  EXPECT_EQ(annotations.at("kubernetes.io/config.source"), "file");
  EXPECT_EQ(annotations.at("kubernetes.io/config.seen"), "2026-11-22T10:00:00.000000001Z");
  ASSERT_EQ(pod.metadata().ownerreferences_size(), 1);
  EXPECT_EQ(pod.metadata().ownerreferences(0).ShortDebugString(),
            R"(kind: "Node" name: "n1" uid: "node-uid" apiVersion: "v1" controller: true)");
  EXPECT_EQ(reports_.Take(), Lines{}) << "nobody has it yet";
  Made(Mirror("m1", "h1"));
  EXPECT_EQ(reports_.Take(), Lines{"m1=Pending"});
  Report(StaticPod("h1"), "Running");
  EXPECT_EQ(reports_.Take(), Lines{"m1=Running"});
  EXPECT_EQ(mirrors_.Find(PodUid("m1"))->metadata().name(), "etcd-n1");
  EXPECT_EQ(mirrors_.Find(PodUid("h1")), nullptr);
  api_.Advance(seconds(60));
  EXPECT_EQ(api_.sent.size(), 1u);
}

TEST_F(MirrorPodsTest, NothingIsMadeBeforeTheListAndTheNodeAreKnown) {
  Report(StaticPod("h1"));
  EXPECT_EQ(Asked(), Lines{});
  mirrors_.SetNodeUid("node-uid");
  EXPECT_EQ(Asked(), Lines{}) << "there may be one";
  mirrors_.ListEnds();
  EXPECT_EQ(Asked(), Lines{"POST"});
}

TEST_F(MirrorPodsTest, OneThatIsThereIsTaken) {
  Report(StaticPod("h1"), "Running");
  Join({Mirror("m1", "h1")});
  EXPECT_EQ(Asked(), Lines{});
  EXPECT_EQ(reports_.Take(), Lines{"m1=Running"});
}

TEST_F(MirrorPodsTest, AListIsBelievedWhereItsVersionHasGoneBack) {
  Settle();
  const auto watched = [this](const std::string& version, const std::string& phase) {
    corev1::Pod mirror = Mirror("m1", "h1");
    mirror.mutable_metadata()->set_resourceversion(version);
    mirror.mutable_status()->set_phase(phase);
    Watched(mirror);
    return mirrors_.Find(PodUid("m1"))->status().phase();
  };
  EXPECT_EQ(watched("90", "Running"), "Running");
  EXPECT_EQ(watched("80", "Pending"), "Running") << "an earlier state, after the answer to a call";
  mirrors_.ListBegins();
  EXPECT_EQ(watched("80", "Pending"), "Pending") << "the store was restored";
  mirrors_.ListEnds();
}

TEST_F(MirrorPodsTest, OneThatIsDeletedIsMadeAnew) {
  Settle();
  corev1::Pod ending = Mirror("m1", "h1", 11);
  ending.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  Watched(ending);
  ASSERT_EQ(Asked(), Lines{"DELETE m1"});
  EXPECT_NE(Waiting()[0]->call.body.find(R"("gracePeriodSeconds":0)"), std::string::npos);
  Answer(200);
  EXPECT_EQ(Asked(), Lines{"POST"});
  Watched(ending);  // what the watch says late
  Made(Mirror("m2", "h1", 13));
  mirrors_.Gone(Object(ending));
  EXPECT_EQ(Asked(), Lines{});
  EXPECT_EQ(reports_.Take(), (Lines{"-m1", "m2=Pending"}));
  // Force-deleted: gone without a word.
  mirrors_.Gone(Object(Mirror("m2", "h1", 14)));
  EXPECT_EQ(Asked(), Lines{"POST"});
}

TEST_F(MirrorPodsTest, OneOfAnotherHashIsReplaced) {
  Settle();
  Watched(Mirror("m1", "somebody's", 11));
  EXPECT_EQ(Asked(), Lines{"DELETE m1"});
  Answer(409, "Precondition failed: UID in precondition: m1, UID in object meta: m2");
  EXPECT_EQ(Asked(), Lines{"POST"});
}

TEST_F(MirrorPodsTest, AChangedFileIsAnotherPodOfTheName) {
  Settle();
  Forget("h1");
  EXPECT_EQ(Asked(), Lines{"DELETE m1"});
  Report(StaticPod("h2"));
  Answer(200);
  EXPECT_EQ(Asked(), Lines{"POST"});
  Made(Mirror("m2", "h2", 12));
  EXPECT_EQ(reports_.Take(), (Lines{"-h1", "-m1", "m2=Pending"}));
}

TEST_F(MirrorPodsTest, WithItsPodItGoes) {
  Settle();
  Forget("h1");
  Answer(404);
  EXPECT_EQ(Asked(), Lines{});
  EXPECT_EQ(mirrors_.Find(PodUid("m1")), nullptr);
}

TEST_F(MirrorPodsTest, OneOfNobodyGoesAfterAMoment) {
  Join({Mirror("m1", "h1")});
  EXPECT_EQ(Asked(), Lines{});
  api_.Advance(milliseconds(1'999));
  EXPECT_EQ(Asked(), Lines{}) << "its pod may not have been heard of yet";
  api_.Advance(milliseconds(1));
  EXPECT_EQ(Asked(), Lines{"DELETE m1"});
}

TEST_F(MirrorPodsTest, APodThatIsHeardOfLateKeepsItsMirror) {
  Join({Mirror("m1", "h1")});
  api_.Advance(milliseconds(1'000));
  Report(StaticPod("h1"), "Running");
  api_.Advance(seconds(60));
  EXPECT_EQ(Asked(), Lines{});
  EXPECT_EQ(reports_.Take(), Lines{"m1=Running"});
}

TEST_F(MirrorPodsTest, AnotherNodeObjectOwnsAnotherMirror) {
  Settle();
  mirrors_.SetNodeUid("");
  EXPECT_EQ(Asked(), Lines{});
  mirrors_.Gone(Object(Mirror("m1", "h1", 11)));
  EXPECT_EQ(Asked(), Lines{}) << "no owner, no mirror";
  mirrors_.SetNodeUid("newer");
  EXPECT_EQ(Asked(), Lines{"POST"});
  Answer(500);
  Watched(Mirror("m3", "h1", 12));  // of the former one
  EXPECT_EQ(Asked(), Lines{"DELETE m3"});
}

TEST_F(MirrorPodsTest, ARefusalIsToldOnceAndTriedAgain) {
  Join();
  Report(StaticPod("h1"));
  Answer(404, R"(namespaces "kube-system" not found)");
  ASSERT_EQ(trouble_.size(), 1u);
  EXPECT_EQ(trouble_[0],
            "static pod kube-system/etcd-n1: no mirror: the API server says 404 : namespaces "
            "\"kube-system\" not found; the pod runs all the same");
  api_.Advance(milliseconds(999));
  EXPECT_EQ(Asked(), Lines{});
  api_.Advance(milliseconds(1));
  Answer(404, R"(namespaces "kube-system" not found)");
  api_.Advance(milliseconds(1'999));
  EXPECT_EQ(Asked(), Lines{}) << "each wait is twice the former one";
  api_.Advance(milliseconds(1));
  EXPECT_EQ(Asked(), Lines{"POST"});
  EXPECT_EQ(trouble_.size(), 1u);
}

TEST_F(MirrorPodsTest, ANameThatAnotherPodHasIsTold) {
  Join();
  Report(StaticPod("h1"));
  Answer(409, "already exists");
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kGet);
  EXPECT_EQ(Waiting()[0]->call.path, "/api/v1/namespaces/kube-system/pods/etcd-n1");
  EXPECT_TRUE(trouble_.empty());
  corev1::Pod other;
  other.mutable_metadata()->set_uid("u1");
  Answer(200, "", &other);
  ASSERT_EQ(trouble_.size(), 1u);
  EXPECT_NE(trouble_[0].find("another pod has the name"), std::string::npos) << trouble_[0];
  api_.Advance(seconds(1));
  EXPECT_EQ(Asked(), Lines{"POST"});
}

// NodeRestriction answers from a cache that is empty when the API server begins.
TEST_F(MirrorPodsTest, AMirrorThatIsSaidNotToBeThereButIsIsDeletedAgain) {
  Settle();
  Forget("h1");
  Report(StaticPod("h2"));
  Answer(404);
  ASSERT_EQ(Asked(), Lines{"POST"});
  Answer(409, "already exists");
  const corev1::Pod old = Mirror("m1", "h1");
  Answer(200, "", &old);
  api_.Advance(seconds(1));
  EXPECT_EQ(Asked(), Lines{"DELETE m1"});
  Answer(200);
  EXPECT_EQ(Asked(), Lines{"POST"});
  EXPECT_TRUE(trouble_.empty());
}

TEST_F(MirrorPodsTest, OneThatWasMadeThoughItsAnswerWasLostIsTaken) {
  Join();
  Report(StaticPod("h1"));
  api_.Answer(*Waiting()[0], Unavailable("connection reset"));
  Watched(Mirror("m1", "h1"));
  api_.Advance(seconds(60));
  EXPECT_EQ(api_.sent.size(), 1u);
  EXPECT_EQ(reports_.Take(), Lines{"m1=Pending"});
  EXPECT_TRUE(trouble_.empty());
}

TEST_F(MirrorPodsTest, AFewAtATime) {
  Join();
  for (int i = 0; i < 20; ++i) {
    Report(StaticPod("h" + std::to_string(i), "p" + std::to_string(i)));
  }
  EXPECT_EQ(Asked().size(), MirrorPods::kMost);
  Answer(404);
  EXPECT_EQ(Asked().size(), MirrorPods::kMost) << "the next one";
  EXPECT_EQ(api_.sent.size(), MirrorPods::kMost + 1);
}

TEST_F(MirrorPodsTest, PodsOfTheServerArePassedOn) {
  Join();
  Report(StaticPod("u1"), "Running", PodOrigin::kApi);
  EXPECT_EQ(reports_.Take(), Lines{"u1=Running"});
  Forget("u1");
  EXPECT_EQ(reports_.Take(), Lines{"-u1"});
  EXPECT_EQ(Asked(), Lines{});
}

}  // namespace
}  // namespace holdfast::agent
