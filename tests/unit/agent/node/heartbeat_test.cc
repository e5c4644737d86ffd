// SPDX-License-Identifier: Apache-2.0
#include "agent/node/heartbeat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "agent/kube/times.h"
#include "agent/node/node_lease.h"
#include "tests/fakes/fake_api.h"
#include "tests/unit/agent/node/api_clock.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using Lease = k8s::io::api::coordination::v1::Lease;

constexpr char kLeases[] = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

class HeartbeatTest : public testing::Test {
 protected:
  HeartbeatTest() {
    HeartbeatOptions options;
    options.node_name = "n1";
    options.others = {&other};
    options.log = [this](const std::string& line) { lines.push_back(line); };
    heartbeat = std::make_unique<Heartbeat>(api, clock, std::move(options));
  }

  void SetUid(const std::string& uid) {
    heartbeat->SetNodeUid(uid);
    api.RunPosted();
  }
  fakes::FakeApi::Call& Asked() {
    const auto open = fakes::FakeApi::Open(api.sent);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  bool Idle() { return fakes::FakeApi::Open(api.sent).empty(); }
  std::string What() {
    const agent::ApiCall& call = Asked().call;
    const char* verb = call.verb == ApiVerb::kGet    ? "GET "
                       : call.verb == ApiVerb::kPost ? "POST "
                       : call.verb == ApiVerb::kPut  ? "PUT "
                                                     : "? ";
    return verb + call.path;
  }
  Lease Written() {
    const auto object = kube::DecodeEnvelope(Asked().call.body);
    EXPECT_TRUE(object);
    return dynamic_cast<const Lease&>(**object);
  }
  void Answer(int code, std::optional<seconds> retry_after = std::nullopt) {
    ApiReply reply;
    reply.code = code;
    reply.retry_after = retry_after;
    api.Answer(Asked(), reply);
  }
  // The server stores what was written.
  void Take() {
    Lease lease = Written();
    lease.mutable_metadata()->set_resourceversion(std::to_string(++version));
    AnswerWith(lease);
  }
  void AnswerWith(const Lease& lease) {
    ApiReply reply;
    reply.code = 200;
    reply.body = kube::EncodeEnvelope(lease);
    api.Answer(Asked(), reply);
  }
  void BeginBeating() {
    SetUid("u1");
    Answer(404);
    Take();
  }

  fakes::FakeApi api, other;
  test::ApiClock clock{api};
  int version = 0;
  std::vector<std::string> lines;
  std::unique_ptr<Heartbeat> heartbeat;
};

TEST_F(HeartbeatTest, ALeaseOfTheNodeIsMadeAndRenewedEachTenSeconds) {
  api.Advance(seconds(60));
  EXPECT_TRUE(Idle()) << "there is no Node yet";
  SetUid("u1");
  EXPECT_EQ(What(), std::string("GET ") + kLeases + "/n1?timeout=10s");
  EXPECT_EQ(Asked().call.lane, ApiLane::kHeartbeat);
  EXPECT_EQ(Asked().call.limit, seconds(10));
  Answer(404);
  EXPECT_EQ(What(), std::string("POST ") + kLeases + "?timeout=10s");
  EXPECT_EQ(kube::EncodeJson(Written()),
            R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"n1",)"
            R"("namespace":"kube-node-lease","ownerReferences":[{"apiVersion":"v1","kind":"Node",)"
            R"("name":"n1","uid":"u1"}]},"spec":{"holderIdentity":"n1","leaseDurationSeconds":40,)"
            R"("renewTime":"1970-01-12T13:47:40.000000Z"}})");
  Take();
  for (int beat = 1; beat <= 3; ++beat) {
    api.Advance(milliseconds(9'999 - 400 * (beat - 1)));
    EXPECT_TRUE(Idle()) << beat;
    api.Advance(milliseconds(401 + 400 * (beat - 1)));
    EXPECT_EQ(What(), std::string("PUT ") + kLeases + "/n1?timeout=10s");
    EXPECT_EQ(Written().metadata().resourceversion(), std::to_string(version));
    EXPECT_LE(clock.Wall() - kube::ToWallTime(Written().spec().renewtime()), milliseconds(1200));
    Take();
  }
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(api.closed.empty());
}

TEST_F(HeartbeatTest, ALeaseThatIsThereIsTakenOver) {
  SetUid("u2");
  Lease there = RenewedLease({}, "n1", "u1", clock.Wall());
  there.mutable_metadata()->set_resourceversion("7");
  there.mutable_spec()->set_leasetransitions(3);
  AnswerWith(there);
  EXPECT_EQ(Asked().call.verb, ApiVerb::kPut);
  const Lease lease = Written();
  ASSERT_EQ(lease.metadata().ownerreferences_size(), 1);
  EXPECT_EQ(lease.metadata().ownerreferences(0).uid(), "u2");
  EXPECT_EQ(lease.metadata().resourceversion(), "7");
  EXPECT_EQ(lease.spec().leasetransitions(), 3);
}

TEST_F(HeartbeatTest, AConflictIsReadAgain) {
  BeginBeating();
  api.Advance(milliseconds(10'400));
  Answer(409);
  api.Advance(milliseconds(400));
  EXPECT_EQ(Asked().call.verb, ApiVerb::kGet);
  AnswerWith(RenewedLease({}, "n1", "u1", clock.Wall()));
  Take();
  api.Advance(milliseconds(10'400));
  Answer(404);
  api.Advance(milliseconds(400));
  Answer(404);
  EXPECT_EQ(Asked().call.verb, ApiVerb::kPost);
  EXPECT_EQ(Written().metadata().resourceversion(), "");
  EXPECT_TRUE(lines.empty());
}

TEST_F(HeartbeatTest, TwoLostHeartbeatsCloseEveryConnection) {
  BeginBeating();
  api.Advance(milliseconds(10'400));
  api.Answer(Asked(), Unavailable("PUT the Lease: no answer"));
  EXPECT_TRUE(api.closed.empty());
  api.Advance(milliseconds(400));
  EXPECT_EQ(Asked().call.verb, ApiVerb::kPut);
  api.Answer(Asked(), Unavailable("PUT the Lease: no answer"));
  other.RunPosted();
  const std::string why = "two heartbeats did not arrive: PUT the Lease: no answer";
  EXPECT_THAT(api.closed, ElementsAre(why));
  EXPECT_THAT(other.closed, ElementsAre(why));
  api.Advance(milliseconds(800));
  Take();
  EXPECT_THAT(lines,
              ElementsAre("heartbeat: PUT the Lease: no answer", "heartbeat: it arrives again"));
}

TEST_F(HeartbeatTest, AnAnswerOfTheServerIsNoLoss) {
  BeginBeating();
  for (int i = 0; i < 4; ++i) {
    api.Advance(milliseconds(10'400));
    api.Answer(Asked(), Unavailable("PUT the Lease: no answer"));
    api.Advance(milliseconds(400));
    Answer(500);
    api.Advance(milliseconds(800));
    Take();
  }
  EXPECT_TRUE(api.closed.empty());
}

TEST_F(HeartbeatTest, FiveTriesAreEnoughForABeat) {
  BeginBeating();
  api.Advance(milliseconds(10'400));
  for (int i = 0; i < 5; ++i) {
    Answer(500);
    if (i < 4) api.Advance(milliseconds(200 << (i + 1)));
  }
  EXPECT_TRUE(Idle());
  EXPECT_EQ(lines.size(), 1u);
  api.Advance(seconds(5));
  Answer(429, seconds(3));
  api.Advance(milliseconds(2'999));
  EXPECT_TRUE(Idle());
  api.Advance(milliseconds(1));
  Take();
}

TEST_F(HeartbeatTest, AnHourWithoutAnswersIsToldOnceAndOverWithTheFirstOne) {
  BeginBeating();
  const size_t before = api.sent.size();
  api.AdvanceWithoutAnswers(std::chrono::hours(1));
  other.RunPosted();
  EXPECT_THAT(api.sent.size() - before, testing::AllOf(testing::Ge(180u), testing::Le(400u)));
  EXPECT_GE(other.closed.size(), 2u) << "every connection is made anew, again and again";
  EXPECT_EQ(lines.size(), 1u);
  for (int i = 0; Idle() && i < 30; ++i) api.Advance(seconds(1));
  if (Asked().call.verb == ApiVerb::kGet) AnswerWith(RenewedLease({}, "n1", "u1", clock.Wall()));
  EXPECT_LE(clock.Wall() - kube::ToWallTime(Written().spec().renewtime()), seconds(10));
  Take();
  EXPECT_THAT(lines, ElementsAre(testing::_, "heartbeat: it arrives again"));
}

TEST_F(HeartbeatTest, ThereIsNoLeaseWithoutANode) {
  BeginBeating();
  api.Advance(milliseconds(10'400));
  SetUid("");
  EXPECT_TRUE(Idle());
  api.Advance(seconds(60));
  EXPECT_TRUE(Idle());
  SetUid("u2");
  EXPECT_EQ(Asked().call.verb, ApiVerb::kGet) << "of the new Node";
  Answer(404);
  EXPECT_EQ(Written().metadata().ownerreferences(0).uid(), "u2");
  Take();
  heartbeat.reset();
  api.Advance(seconds(60));
  EXPECT_TRUE(Idle());
}

}  // namespace
}  // namespace holdfast::agent
