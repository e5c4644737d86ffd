// SPDX-License-Identifier: Apache-2.0
#include "agent/source/api_pods.h"

#include <gtest/gtest.h>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
using Lines = std::vector<std::string>;

corev1::Pod MakePod(const std::string& uid, const std::string& name) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_spec()->add_containers()->set_name("app");
  pod.mutable_spec()->mutable_containers(0)->set_image("x:1");
  return pod;
}

kube::ObjectPtr Object(const corev1::Pod& pod) {
  kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
  object->CopyFrom(pod);
  return object;
}

class ApiPodsTest : public ::testing::Test {
 protected:
  void Put(const corev1::Pod& pod) { pods_.Put(Object(pod)); }
  void List(const std::vector<corev1::Pod>& pods) {
    pods_.ListBegins();
    for (const corev1::Pod& pod : pods) Put(pod);
    pods_.ListEnds();
  }
  // "+u1 ~u2(5s) -u3": wanted, to be deleted, gone.
  std::string News() {
    std::string out;
    for (const PodNews& one : registry_.Take()) {
      const bool deletion = one.wanted && one.wanted->deletion;
      out += (out.empty() ? "" : " ") +
             std::string(deletion     ? "~"
                         : one.wanted ? "+"
                                      : "-") +
             one.uid.value;
      if (deletion) out += "(" + std::to_string(one.wanted->deletion->count()) + "s)";
    }
    return out;
  }

  PodRegistry registry_{{PodOrigin::kFile, PodOrigin::kApi}};
  Lines log_;
  Lines seen_;
  int lists_ = 0;
  ApiPods pods_{registry_,
                {.log = [this](const std::string& line) { log_.push_back(line); },
                 .seen = [this](const PodUid& uid) { seen_.push_back(uid.value); },
                 .listed = [this] { ++lists_; }}};
};

TEST_F(ApiPodsTest, AsksForThePodsOfItsNode) {
  const ReflectorOptions options = PodsOfNode("n1");
  EXPECT_EQ(options.path, "/api/v1/pods");
  EXPECT_EQ(options.selectors, "fieldSelector=spec.nodeName%3Dn1");
  EXPECT_EQ(options.lane, ApiLane::kPods);
}

TEST_F(ApiPodsTest, IsCompleteAfterTheFirstWholeListOnly) {
  pods_.ListBegins();
  Put(MakePod("u1", "a"));
  EXPECT_EQ(News(), "+u1") << "what is there is wanted at once";
  pods_.ListBegins();  // cut short
  EXPECT_FALSE(registry_.IsComplete(PodOrigin::kApi));
  Put(MakePod("u2", "b"));
  pods_.Gone(Object(MakePod("u1", "a")));
  pods_.ListEnds();
  EXPECT_TRUE(registry_.IsComplete(PodOrigin::kApi));
  EXPECT_EQ(lists_, 1) << "whole ones";
  EXPECT_FALSE(registry_.IsComplete(PodOrigin::kFile));
  EXPECT_EQ(News(), "+u2 -u1") << "what a later list does not have is told to be gone";
  EXPECT_EQ(registry_.Find(PodUid("u1")), nullptr);
}

TEST_F(ApiPodsTest, WhatIsToldToBeGoneIs) {
  List({MakePod("u1", "a"), MakePod("u2", "b")});
  (void)News();
  pods_.Gone(Object(MakePod("u1", "a")));
  EXPECT_EQ(News(), "-u1");
  List({MakePod("u2", "b")});
  EXPECT_EQ(News(), "");
}

TEST_F(ApiPodsTest, TheEchoOfOurOwnStatusIsNoNews) {
  corev1::Pod pod = MakePod("u1", "a");
  List({pod});
  (void)News();
  seen_.clear();
  pod.mutable_metadata()->set_resourceversion("8");
  pod.mutable_status()->set_phase("Running");
  corev1::PodCondition* ready = pod.mutable_status()->add_conditions();
  ready->set_type("Ready");
  ready->set_status("True");
  Put(pod);
  EXPECT_EQ(News(), "");
  EXPECT_EQ(registry_.Find(PodUid("u1"))->status().phase(), "Running") << "as the server has it";
  EXPECT_EQ(seen_, Lines{"u1"});
}

TEST_F(ApiPodsTest, WhatOthersChangeIsNews) {
  corev1::Pod pod = MakePod("u1", "a");
  List({pod});
  (void)News();
  const auto after = [&](auto change) {
    change(pod);
    Put(pod);
    return News();
  };
  EXPECT_EQ(after([](auto& p) { (*p.mutable_metadata()->mutable_labels())["a"] = "b"; }), "+u1");
  EXPECT_EQ(after([](auto& p) { (*p.mutable_metadata()->mutable_annotations())["a"] = "b"; }),
            "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_metadata()->mutable_annotations()->erase("a"); }), "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_metadata()->set_generation(2); }), "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_spec()->mutable_containers(0)->set_image("x:2"); }),
            "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_status()->add_conditions()->set_type("gate.io/x"); }),
            "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_status()->mutable_conditions(0)->set_status("True"); }),
            "+u1");
  EXPECT_EQ(after([](auto& p) { p.mutable_status()->set_phase("Failed"); }), "+u1");
  EXPECT_EQ(after([](auto&) {}), "");
}

TEST_F(ApiPodsTest, ADeletionIsSeenAtOnceAndMayBeShortened) {
  corev1::Pod pod = MakePod("u1", "a");
  List({pod});
  (void)News();
  pod.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(4'000'000'000);
  pod.mutable_metadata()->set_deletiongraceperiodseconds(30);
  Put(pod);
  EXPECT_EQ(News(), "~u1(30s)");
  pod.mutable_metadata()->set_deletiongraceperiodseconds(5);
  Put(pod);
  EXPECT_EQ(News(), "~u1(5s)");
  pods_.Gone(Object(pod));
  EXPECT_EQ(News(), "-u1");
}

TEST_F(ApiPodsTest, ASuccessorOfTheSameNameEndsTheFormerPod) {
  List({MakePod("u1", "a")});
  (void)News();
  Put(MakePod("u2", "a"));
  EXPECT_EQ(News(), "-u1 +u2");
  pods_.Gone(Object(MakePod("u1", "a")));  // late
  EXPECT_EQ(News(), "");
  EXPECT_NE(registry_.Find(PodUid("u2")), nullptr);
}

TEST_F(ApiPodsTest, MirrorsAreNotRun) {
  corev1::Pod mirror = MakePod("u1", "a");
  (*mirror.mutable_metadata()->mutable_annotations())["kubernetes.io/config.mirror"] = "hash";
  List({mirror});
  EXPECT_EQ(News(), "");
  EXPECT_TRUE(registry_.IsComplete(PodOrigin::kApi));
  EXPECT_TRUE(log_.empty());
}

// What comes to it, in words.
class MirrorHandler : public ObjectHandler {
 public:
  void ListBegins() override { said.push_back("list"); }
  void Put(kube::ObjectPtr object) override { said.push_back("+" + Uid(*object)); }
  void Gone(kube::ObjectPtr last) override { said.push_back("-" + Uid(*last)); }
  void ListEnds() override { said.push_back("whole"); }
  void Trouble(const Error&) override {}
  Lines said;

 private:
  static std::string Uid(const google::protobuf::Message& object) {
    return dynamic_cast<const corev1::Pod&>(object).metadata().uid();
  }
};

TEST_F(ApiPodsTest, MirrorsAreHandedOnAndNoPodThatRunsBecomesOne) {
  MirrorHandler mirrors;
  ApiPods pods(registry_, {.log = {}, .mirrors = &mirrors});
  corev1::Pod pod = MakePod("u1", "a");
  pods.ListBegins();
  pods.Put(Object(pod));
  pods.ListEnds();
  (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.mirror"] = "hash";
  pods.Put(Object(pod));
  EXPECT_EQ(News(), "+u1");
  corev1::Pod mirror = pod;
  mirror.mutable_metadata()->set_uid("m1");
  pods.Put(Object(mirror));
  pods.Gone(Object(mirror));
  EXPECT_EQ(News(), "");
  EXPECT_EQ(mirrors.said, (Lines{"list", "whole", "+m1", "-m1"}));
}

TEST_F(ApiPodsTest, WhatCannotNameADirectoryIsNotRun) {
  const auto wrong = [&](auto change) {
    corev1::Pod pod = MakePod("u1", "a");
    change(pod);
    ApiPods pods(registry_, {.log = [this](const std::string& line) { log_.push_back(line); }});
    pods.Put(Object(pod));
    pods.Put(Object(pod));
    return News();
  };
  EXPECT_EQ(wrong([](auto& p) { p.mutable_metadata()->set_uid("../u"); }), "");
  EXPECT_EQ(wrong([](auto& p) { p.mutable_metadata()->set_uid(""); }), "");
  EXPECT_EQ(wrong([](auto& p) { p.mutable_metadata()->set_name(".."); }), "");
  EXPECT_EQ(wrong([](auto& p) { p.mutable_metadata()->set_namespace_("a/b"); }), "");
  EXPECT_EQ(wrong([](auto& p) { p.mutable_spec()->mutable_containers(0)->set_name("a_b"); }), "");
  EXPECT_EQ(wrong([](auto& p) { p.mutable_spec()->add_volumes()->set_name("."); }), "");
  ASSERT_EQ(log_.size(), 6u) << "each told once";
  EXPECT_EQ(log_[0], "pod default/a: its uid cannot name a directory, it is not run");
  EXPECT_EQ(wrong([](auto&) {}), "+u1");
}

TEST_F(ApiPodsTest, ATroubleIsToldOnceUntilAListWasRead) {
  pods_.Trouble(Unavailable("connection refused"));
  pods_.Trouble(Unavailable("connection refused"));
  EXPECT_EQ(log_, Lines{"pods of the API server: connection refused, trying again"});
  List({});
  pods_.Trouble(Unavailable("connection refused"));
  EXPECT_EQ(log_.size(), 2u);
}

TEST_F(ApiPodsTest, AnObjectOfAnotherKindIsNobody) {
  pods_.Put(kube::NewObject({"v1", "Node"}));
  pods_.Gone(kube::NewObject({"v1", "Node"}));
  EXPECT_EQ(News(), "");
}

}  // namespace
}  // namespace holdfast::agent
