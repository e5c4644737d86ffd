// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_registrar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "k8s/meta/v1/status.pb.h"
#include "tests/fakes/fake_api.h"
#include "tests/unit/agent/node/api_clock.h"
#include "tests/unit/agent/node/facts.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Events : public EventSink {
 public:
  void AddEvent(const EventSubject& subject, const EventNote& note) override {
    EXPECT_EQ(subject.kind + "/" + subject.name + "/" + subject.uid, "Node/n1/n1");
    reasons.push_back(note.reason);
  }
  std::vector<std::string> Take() { return std::exchange(reasons, {}); }
  std::vector<std::string> reasons;
};

class NodeRegistrarTest : public testing::Test {
 protected:
  void Start(bool register_node = true) {
    NodeRegistrarOptions options;
    options.name = "n1";
    options.register_node = register_node;
    options.registration.taints.emplace_back().set_key("dedicated");
    options.ready_inputs = {{"runtime", "runtime not checked", false},
                            {"network", "network not checked", false}};
    options.description = [this] { return std::make_shared<const NodeDescription>(facts); };
    options.log = [this](const std::string& line) { lines.push_back(line); };
    options.events = &events;
    registrar = std::make_unique<NodeRegistrar>(api, clock, std::move(options));
    registrar->SetListener([this] { ++news; });
    api.RunPosted();
    EndOfList();  // there is none yet
  }

  // The one request that waits for its answer.
  fakes::FakeApi::Call& Asked() {
    const auto open = fakes::FakeApi::Open(api.sent);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  bool Idle() { return fakes::FakeApi::Open(api.sent).empty(); }
  fakes::FakeApi::Call& Watch() { return *fakes::FakeApi::Open(api.watches).back(); }

  corev1::Node Posted() {
    const auto node = kube::DecodeEnvelope(Asked().call.body);
    EXPECT_TRUE(node);
    return dynamic_cast<const corev1::Node&>(**node);
  }

  // The Node that is at the server from now on, as the next version.
  void Store(corev1::Node node, const std::string& uid) {
    node.mutable_metadata()->set_uid(uid);
    node.mutable_metadata()->set_resourceversion(std::to_string(++version));
    stored = std::move(node);
  }
  void Answer(int code) {
    ApiReply reply;
    reply.code = code;
    if (code < 300) reply.body = kube::EncodeEnvelope(stored);
    api.Answer(Asked(), reply);
  }
  // The server takes the patch: the conditions are what counts here.
  std::string TakePatch(bool ready, const std::string& message = "") {
    EXPECT_EQ(Asked().call.verb, ApiVerb::kPatch);
    EXPECT_EQ(Asked().call.path, "/api/v1/nodes/n1/status");
    EXPECT_EQ(Asked().call.content_type, "application/strategic-merge-patch+json");
    const std::string body = Asked().call.body;
    corev1::Node node = stored;
    *node.mutable_status() =
        BuildNodeStatus(facts, ReadyState{ready, message}, node.status(), clock.Wall());
    Store(node, stored.metadata().uid());
    Answer(200);
    return body;
  }

  void RegisterNew() {
    Start();
    Store(Posted(), "u1");
    Answer(201);
  }
  void Adopt(bool ready) {
    Start();
    Store(BuildNode(facts, {}, {ready, ready ? "" : "before"}, WallTime{seconds(1)}), "u1");
    Answer(409);
    Answer(200);
  }
  void BeReady() {
    registrar->SetReadyInput("runtime", "");
    registrar->SetReadyInput("network", "");
    api.RunPosted();
  }
  void Tell(const std::string& type) { api.Send(Watch(), type, kube::EncodeEnvelope(stored)); }
  void EndOfList() {
    corev1::Node mark;
    mark.mutable_metadata()->set_resourceversion(std::to_string(version));
    (*mark.mutable_metadata()->mutable_annotations())["k8s.io/initial-events-end"] = "true";
    api.Send(Watch(), "BOOKMARK", kube::EncodeEnvelope(mark));
  }
  void Delete() {
    ++version;
    Tell("DELETED");
    api.Advance(milliseconds(1));
  }

  fakes::FakeApi api;
  test::ApiClock clock{api};
  NodeDescription facts = test::Facts();
  Events events;
  corev1::Node stored;
  int version = 9;  // so that versions grow by a digit
  int news = 0;
  std::vector<std::string> lines;
  std::unique_ptr<NodeRegistrar> registrar;
};

TEST_F(NodeRegistrarTest, ANewNodeIsRegisteredWithAllThatIsKnown) {
  Start();
  EXPECT_EQ(registrar->Get(), nullptr);
  EXPECT_EQ(Asked().call.verb, ApiVerb::kPost);
  EXPECT_EQ(Asked().call.path, "/api/v1/nodes");
  EXPECT_EQ(Asked().call.lane, ApiLane::kPods);
  EXPECT_FALSE(Asked().call.repeatable);
  const corev1::Node node = Posted();
  EXPECT_EQ(node.spec().taints(0).key(), "dedicated");
  EXPECT_EQ(FindCondition(node.status(), "Ready")->message(),
            "[runtime not checked, network not checked]");
  Store(node, "u1");
  Answer(201);
  ASSERT_NE(registrar->Get(), nullptr);
  EXPECT_EQ(registrar->Get()->uid, "u1");
  EXPECT_EQ(registrar->Get()->labels.at("disk"), "ssd");
  EXPECT_EQ(news, 1);
  EXPECT_TRUE(Idle());
  EXPECT_THAT(events.Take(), ElementsAre("NodeHasSufficientMemory", "NodeHasNoDiskPressure",
                                         "NodeHasSufficientPID"));
  EXPECT_THAT(Watch().call.path, StartsWith("/api/v1/nodes?fieldSelector=metadata.name%3Dn1&"));
}

TEST_F(NodeRegistrarTest, ReadyIsToldAtOnce) {
  RegisterNew();
  events.Take();
  registrar->SetReadyInput("runtime", "");
  api.RunPosted();
  EXPECT_TRUE(Idle()) << "the network was not heard of";
  registrar->SetReadyInput("network", "");
  api.RunPosted();
  EXPECT_THAT(TakePatch(true), HasSubstr(R"("reason":"KubeletReady")"));
  EXPECT_THAT(events.Take(), ElementsAre("NodeReady"));
  EXPECT_TRUE(Idle());
}

TEST_F(NodeRegistrarTest, NotReadyOnlyWhenItLasts) {
  RegisterNew();
  BeReady();
  TakePatch(true);
  events.Take();
  registrar->SetReadyInput("runtime", "runtime is down");
  api.Advance(seconds(29));
  registrar->SetReadyInput("runtime", "");
  api.Advance(seconds(5));
  EXPECT_TRUE(Idle()) << "it was short";
  registrar->SetReadyInput("runtime", "runtime is down");
  api.Advance(seconds(29));
  EXPECT_TRUE(Idle());
  api.Advance(seconds(1));
  EXPECT_THAT(TakePatch(false, "runtime is down"), HasSubstr(R"("message":"runtime is down")"));
  EXPECT_THAT(events.Take(), ElementsAre("NodeNotReady"));
  registrar->SetReadyInput("runtime", "");
  api.RunPosted();
  TakePatch(true);
}

TEST_F(NodeRegistrarTest, StatusIsSentWhenItChangedAndEveryFiveMinutes) {
  RegisterNew();
  BeReady();
  TakePatch(true);
  api.Advance(minutes(2));
  EXPECT_TRUE(Idle()) << "nothing changed";
  facts.host_ips = {"192.0.2.9"};
  api.Advance(seconds(10));
  EXPECT_THAT(TakePatch(true), HasSubstr(R"("address":"192.0.2.9")"));
  api.Advance(seconds(149));
  EXPECT_TRUE(Idle()) << "half of five minutes at least";
  api.Advance(minutes(5) + seconds(11));
  EXPECT_THAT(TakePatch(true), Not(HasSubstr("lastTransitionTime"))) << "heartbeats only";
  api.Advance(minutes(5) - seconds(1));
  EXPECT_TRUE(Idle());
  api.Advance(seconds(11));
  TakePatch(true);
}

TEST_F(NodeRegistrarTest, AnAdoptedNodeStaysReadyUntilMoreIsKnown) {
  Adopt(true);
  EXPECT_THAT(TakePatch(true), Not(HasSubstr(R"("type":"Ready","status")")));
  api.Advance(minutes(1));
  EXPECT_TRUE(Idle());
  registrar->SetReadyInput("runtime", "runtime is down");
  api.Advance(minutes(1));
  EXPECT_TRUE(Idle()) << "the network was not heard of";
  registrar->SetReadyInput("network", "");
  api.Advance(seconds(29));
  EXPECT_TRUE(Idle());
  api.Advance(seconds(1));
  EXPECT_THAT(TakePatch(false, "runtime is down"), HasSubstr("runtime is down"));
}

TEST_F(NodeRegistrarTest, AnAdoptedNodeGetsItsLabelsOnceAndKeepsWhatOthersGaveIt) {
  Start();
  corev1::Node there = BuildNode(facts, {}, {}, WallTime{seconds(1)});
  there.mutable_metadata()->mutable_labels()->erase("disk");
  there.mutable_spec()->add_podcidrs("10.1.0.0/24");
  there.mutable_spec()->add_podcidrs("nonsense");
  there.mutable_spec()->add_taints()->set_key("admin");
  (*there.mutable_metadata()->mutable_labels())["topology.kubernetes.io/zone"] = "z1";
  there.mutable_status()->mutable_nodeinfo()->set_bootid("before");
  Store(there, "u1");
  Answer(409);
  EXPECT_EQ(Asked().call.path, "/api/v1/nodes/n1");
  Answer(200);
  EXPECT_EQ(registrar->Get()->zone, "z1");
  ASSERT_EQ(registrar->Get()->pod_ranges.size(), 1u);
  EXPECT_EQ(registrar->Get()->pod_ranges[0].ToString(), "10.1.0.0/24");
  EXPECT_THAT(events.Take(), ElementsAre("Rebooted"));
  const std::string body = TakePatch(true);
  EXPECT_THAT(body, StartsWith(R"({"metadata":{"labels":{"disk":"ssd"},"uid":"u1"},"status")"));
  EXPECT_THAT(body, HasSubstr(R"("nodeInfo":{"bootID":"b"})"));
  EXPECT_THAT(body, Not(HasSubstr("taints")));
  api.Advance(seconds(30));
  EXPECT_TRUE(Idle()) << "whoever changes a label later may";
}

TEST_F(NodeRegistrarTest, ALabelThatItMayNotHaveDoesNotCostTheStatus) {
  Adopt(true);
  Answer(403);
  EXPECT_THAT(lines.back(), HasSubstr("PATCH /api/v1/nodes/n1/status: the API server says 403"));
  (*stored.mutable_metadata()->mutable_labels()).erase("disk");
  Store(stored, "u1");
  api.Advance(seconds(1));
  Answer(200);
  EXPECT_THAT(Asked().call.body, Not(HasSubstr("disk")));
  TakePatch(true);
}

TEST_F(NodeRegistrarTest, RegistrationIsTriedUntilItWorks) {
  Start();
  api.Answer(Asked(), Unavailable("POST /api/v1/nodes: connection refused"));
  EXPECT_TRUE(Idle());
  api.Advance(milliseconds(200));
  for (int i = 0; i < 10; ++i) {
    Answer(500);
    api.Advance(seconds(7));
  }
  ASSERT_EQ(lines.size(), 2u) << "the same trouble is told once a minute";
  EXPECT_EQ(lines[0], "POST /api/v1/nodes: connection refused");
  ApiReply busy;
  busy.code = 429;
  busy.retry_after = seconds(20);
  api.Answer(Asked(), busy);
  api.Advance(seconds(19));
  EXPECT_TRUE(Idle());
  api.Advance(seconds(1));
  Store(Posted(), "u1");
  Answer(201);
  EXPECT_EQ(registrar->Get()->uid, "u1");
}

TEST_F(NodeRegistrarTest, APatchThatFailsIsMadeAnewFromAFreshCopy) {
  RegisterNew();
  BeReady();
  Answer(409);
  api.Advance(milliseconds(200));
  EXPECT_EQ(Asked().call.verb, ApiVerb::kGet);
  stored.mutable_status()->clear_images();
  Store(stored, "u1");
  Answer(200);
  EXPECT_THAT(Asked().call.body, HasSubstr("images"));
  for (int i = 0; i < 4; ++i) {
    api.Answer(Asked(), Unavailable("reset"));
    api.Advance(seconds(2));
  }
  EXPECT_TRUE(Idle()) << "five in a period";
  api.Advance(seconds(10));
  TakePatch(true);
}

TEST_F(NodeRegistrarTest, WhatChangesOnTheWayFollows) {
  RegisterNew();
  BeReady();
  *stored.mutable_status() = BuildNodeStatus(facts, ReadyState(), {}, clock.Wall());
  Store(stored, "u1");
  facts.port = 1;
  registrar->SetReadyInput("network", "");
  api.RunPosted();
  Answer(200);
  EXPECT_THAT(TakePatch(true), HasSubstr(R"("Port":1)"));
  EXPECT_TRUE(Idle());
}

TEST_F(NodeRegistrarTest, TheWatchMayBeFasterThanTheReply) {
  RegisterNew();
  events.Take();
  BeReady();
  *stored.mutable_status() = BuildNodeStatus(facts, ReadyState(), stored.status(), clock.Wall());
  Store(stored, "u1");
  Tell("MODIFIED");
  EXPECT_TRUE(events.Take().empty());
  Answer(200);
  EXPECT_THAT(events.Take(), ElementsAre("NodeReady"));
  EXPECT_TRUE(Idle());
}

TEST_F(NodeRegistrarTest, OthersChangesAreSeenAndOurConditionsPutBack) {
  RegisterNew();
  BeReady();
  TakePatch(true);
  events.Take();
  news = 0;
  const corev1::Node old = stored;
  stored.mutable_spec()->set_unschedulable(true);
  stored.mutable_spec()->set_podcidr("10.2.0.0/24");
  stored.mutable_status()->mutable_conditions(3)->set_status("Unknown");
  Store(stored, "u1");
  Tell("ADDED");
  EXPECT_EQ(news, 1);
  EXPECT_EQ(registrar->Get()->pod_ranges.at(0).ToString(), "10.2.0.0/24");
  EXPECT_THAT(events.Take(), ElementsAre("NodeNotSchedulable"));
  stored = old;
  Tell("MODIFIED");
  EXPECT_EQ(news, 1) << "it is older";
  api.Advance(seconds(10));
  EXPECT_THAT(TakePatch(true), HasSubstr(R"("type":"Ready","status":"True")"));
}

TEST_F(NodeRegistrarTest, AListIsBelievedWhereItsVersionHasGoneBack) {
  RegisterNew();
  BeReady();
  TakePatch(true);
  stored.mutable_spec()->set_unschedulable(true);
  stored.mutable_metadata()->set_resourceversion("3");  // the store was restored
  events.Take();
  Tell("MODIFIED");
  EXPECT_THAT(events.Take(), ElementsAre()) << "an earlier state, after a later answer";
  k8s::io::apimachinery::pkg::apis::meta::v1::Status expired;
  expired.set_code(410);
  api.Send(Watch(), "ERROR", kube::EncodeEnvelope(expired));
  api.Advance(seconds(2));
  Tell("ADDED");
  EXPECT_THAT(events.Take(), ElementsAre("NodeNotSchedulable"));
}

TEST_F(NodeRegistrarTest, ADeletedNodeIsRegisteredAgain) {
  RegisterNew();
  Tell("ADDED");
  Delete();
  EXPECT_EQ(Asked().call.verb, ApiVerb::kGet);
  Answer(404);
  EXPECT_EQ(registrar->Get()->uid, "u1") << "one answer may be from a server that is behind";
  api.Advance(seconds(2));
  Answer(404);
  EXPECT_EQ(registrar->Get()->uid, "");
  EXPECT_EQ(lines.back(), "Node n1 was deleted at the API server; it is registered again in 5 s");
  api.Advance(milliseconds(4999));
  EXPECT_TRUE(Idle());
  api.Advance(milliseconds(1));
  EXPECT_EQ(Posted().spec().taints_size(), 1);
  Store(Posted(), "u2");
  Answer(201);
  EXPECT_EQ(registrar->Get()->uid, "u2");
  // Again, and sooner than it took to settle.
  Tell("ADDED");
  Delete();
  Answer(404);
  api.Advance(seconds(2));
  Answer(404);
  EXPECT_THAT(lines.back(), HasSubstr("again in 10 s"));
}

TEST_F(NodeRegistrarTest, ANodeIsGoneOnlyWhenTheServerSaysSoTwice) {
  RegisterNew();
  BeReady();
  Answer(404);  // of the patch
  api.Advance(milliseconds(1));
  Answer(404);
  api.Advance(seconds(2));
  Answer(500);
  api.Advance(seconds(2));
  Answer(403);
  api.Advance(seconds(2));
  Answer(200);
  EXPECT_EQ(registrar->Get()->uid, "u1");
  TakePatch(true);
}

TEST_F(NodeRegistrarTest, ANodeThatSomebodyMadeInsteadIsAdopted) {
  RegisterNew();
  Tell("ADDED");
  Delete();
  Answer(404);
  Store(BuildNode(facts, {}, {}, WallTime{seconds(1)}), "u2");
  Tell("ADDED");
  EXPECT_EQ(registrar->Get()->uid, "u2");
  TakePatch(true);
  api.Advance(seconds(10));
  EXPECT_TRUE(Idle());
}

TEST_F(NodeRegistrarTest, WithoutRegistrationTheNodeIsWaitedFor) {
  Start(false);
  api.Advance(minutes(1));
  EXPECT_TRUE(Idle());
  Store(BuildNode(facts, {}, {}, WallTime{seconds(1)}), "u1");
  Tell("ADDED");
  EXPECT_EQ(registrar->Get()->uid, "u1");
  TakePatch(true);
  Delete();
  Answer(404);
  api.Advance(seconds(2));
  Answer(404);
  api.Advance(minutes(10));
  EXPECT_TRUE(Idle());
  EXPECT_EQ(lines.back(), "Node n1 was deleted at the API server");
}

TEST_F(NodeRegistrarTest, ItsEndIsTheEndOfAllRequests) {
  RegisterNew();
  BeReady();
  registrar.reset();
  EXPECT_TRUE(Idle());
  EXPECT_TRUE(fakes::FakeApi::Open(api.watches).empty());
  api.Advance(minutes(10));
  EXPECT_TRUE(Idle());
}

}  // namespace
}  // namespace holdfast::agent
