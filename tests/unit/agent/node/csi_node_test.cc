// SPDX-License-Identifier: Apache-2.0
#include "agent/node/csi_node.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "k8s/storage/v1/csi.pb.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;
using std::chrono::seconds;

class CsiNodeTest : public ::testing::Test {
 protected:
  std::vector<fakes::FakeApi::CallPtr> Waiting() { return fakes::FakeApi::Open(api_.sent); }
  void Answer(int code, const std::string& owner = "") {
    ASSERT_EQ(Waiting().size(), 1u);
    ApiReply reply;
    reply.code = code;
    if (!owner.empty()) {
      storagev1::CSINode node;
      node.mutable_metadata()->add_ownerreferences()->set_uid(owner);
      reply.body = kube::EncodeEnvelope(node);
    }
    api_.Answer(*Waiting().front(), reply);
  }

  fakes::FakeApi api_;
  std::vector<std::string> log_;
  CsiNode csi_{api_, "n1", [this](const std::string& line) { log_.push_back(line); }};
};

TEST_F(CsiNodeTest, ItIsMadeOncePerNodeWhichOwnsIt) {
  csi_.SetNodeUid("");
  EXPECT_TRUE(Waiting().empty());
  csi_.SetNodeUid("u1");
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.path, "/apis/storage.k8s.io/v1/csinodes");
  const auto sent = kube::DecodeEnvelope(Waiting()[0]->call.body);
  ASSERT_TRUE(sent);
  EXPECT_EQ(kube::EncodeJson(**sent),
            R"({"kind":"CSINode","apiVersion":"storage.k8s.io/v1","metadata":{"name":"n1",)"
            R"("ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u1"}]},)"
            R"("spec":{"drivers":null}})");
  Answer(201);
  csi_.SetNodeUid("u1");
  api_.Advance(seconds(600));
  EXPECT_EQ(api_.sent.size(), 1u);
  csi_.SetNodeUid("u2");
  EXPECT_EQ(Waiting().size(), 1u);
}

TEST_F(CsiNodeTest, OneThatIsThereIsTakenWhenItIsOurs) {
  csi_.SetNodeUid("u1");
  Answer(409);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kGet);
  Answer(200, "u1");
  api_.Advance(seconds(600));
  EXPECT_EQ(api_.sent.size(), 2u);
}

TEST_F(CsiNodeTest, ThatOfAFormerNodeIsWaitedOut) {
  csi_.SetNodeUid("u2");
  Answer(409);
  Answer(200, "u1");
  api_.Advance(seconds(1));
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPost);
}

TEST_F(CsiNodeTest, ARefusalIsToldOnceAndTriedAgain) {
  csi_.SetNodeUid("u1");
  Answer(403);
  api_.Advance(seconds(1));
  Answer(403);
  EXPECT_EQ(log_.size(), 1u);
  api_.Advance(seconds(1));
  EXPECT_TRUE(Waiting().empty()) << "each wait is twice the former one";
  api_.Advance(seconds(1));
  EXPECT_EQ(Waiting().size(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
