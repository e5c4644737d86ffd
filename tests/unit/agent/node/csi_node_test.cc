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

TEST_F(CsiNodeTest, StoragePluginsAreToldInItAndInTheNode) {
  csi_.SetNodeUid("u1");
  Answer(201);
  csi_.SetDrivers({{"disk.example", "node-7", 16, {{"topology.disk/zone", "z1"}}}});
  api_.RunPosted();
  EXPECT_EQ(Waiting().at(0)->call.verb, ApiVerb::kGet);
  storagev1::CSINode node;
  node.mutable_metadata()->add_ownerreferences()->set_uid("u1");
  node.mutable_metadata()->set_resourceversion("5");
  node.mutable_spec()->add_drivers()->set_name("heard.not.yet");
  ApiReply reply;
  reply.code = 200;
  reply.body = kube::EncodeEnvelope(node);
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.verb, ApiVerb::kPut);
  const auto sent = kube::DecodeEnvelope(Waiting()[0]->call.body);
  ASSERT_TRUE(sent);
  const auto& put = dynamic_cast<const storagev1::CSINode&>(**sent);
  EXPECT_EQ(put.metadata().resourceversion(), "5");
  ASSERT_EQ(put.spec().drivers_size(), 2);
  EXPECT_EQ(put.spec().drivers(0).nodeid(), "node-7");
  EXPECT_EQ(put.spec().drivers(0).topologykeys(0), "topology.disk/zone");
  EXPECT_EQ(put.spec().drivers(0).allocatable().count(), 16);
  EXPECT_EQ(put.spec().drivers(1).name(), "heard.not.yet");
  reply.body = kube::EncodeEnvelope(put);
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().size(), 1u);
  EXPECT_EQ(Waiting()[0]->call.path, "/api/v1/nodes/n1");
  EXPECT_EQ(Waiting()[0]->call.body,
            R"({"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":)"
            R"("{\"disk.example\":\"node-7\"}"},"labels":{"topology.disk/zone":"z1"}}})");
  csi_.SetDrivers({});
  api_.RunPosted();
  EXPECT_EQ(Waiting().size(), 1u) << "one after the other";
  api_.Answer(*Waiting().front(), reply);
  EXPECT_EQ(Waiting().at(0)->call.verb, ApiVerb::kGet);
  reply.body = kube::EncodeEnvelope(put);
  api_.Answer(*Waiting().front(), reply);
  const auto rest = kube::DecodeEnvelope(Waiting().at(0)->call.body);
  ASSERT_TRUE(rest);
  const auto& left = dynamic_cast<const storagev1::CSINode&>(**rest).spec();
  ASSERT_EQ(left.drivers_size(), 1);
  EXPECT_EQ(left.drivers(0).name(), "heard.not.yet");
}

// Plugins register one by one: what comes while the first is being told is told afterwards, to the CSINode too.
TEST_F(CsiNodeTest, ADriverThatComesWhileAnotherIsToldIsNotForgotten) {
  csi_.SetNodeUid("u1");
  Answer(201);
  csi_.SetDrivers({{"a.example", "node-7", 0, {}}});
  api_.RunPosted();
  storagev1::CSINode node;
  node.mutable_metadata()->add_ownerreferences()->set_uid("u1");
  ApiReply reply;
  reply.code = 200;
  reply.body = kube::EncodeEnvelope(node);
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().at(0)->call.verb, ApiVerb::kPut);
  reply.body = Waiting().at(0)->call.body;
  csi_.SetDrivers({{"a.example", "node-7", 0, {}}, {"b.example", "node-7", 0, {}}});
  api_.RunPosted();
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().at(0)->call.verb, ApiVerb::kPatch);
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().size(), 1u);
  ASSERT_EQ(Waiting().at(0)->call.verb, ApiVerb::kGet);
  api_.Answer(*Waiting().front(), reply);
  ASSERT_EQ(Waiting().at(0)->call.verb, ApiVerb::kPut);
  const auto sent = kube::DecodeEnvelope(Waiting().at(0)->call.body);
  ASSERT_TRUE(sent);
  EXPECT_EQ(dynamic_cast<const storagev1::CSINode&>(**sent).spec().drivers_size(), 2);
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
