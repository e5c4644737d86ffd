// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/node_rights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "agent/kube/codec.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {
namespace {

namespace authorizationv1 = ::k8s::io::api::authorization::v1;
using testing::HasSubstr;
using testing::Not;

// Answers at once, by a rule.
class RulingApi : public fakes::FakeApi {
 public:
  TicketPtr Send(ApiCall call, Done done) override {
    const auto object = kube::DecodeEnvelope(call.body);
    EXPECT_TRUE(object);
    auto& review = dynamic_cast<authorizationv1::SelfSubjectAccessReview&>(**object);
    const auto& attributes = review.spec().resourceattributes();
    ApiReply reply;
    reply.code = code;
    review.mutable_status()->set_allowed(allows(attributes));
    reply.body = kube::EncodeEnvelope(review);
    done(std::move(reply));
    return nullptr;
  }
  int code = 201;
  std::function<bool(const authorizationv1::ResourceAttributes&)> allows = [](const auto&) {
    return true;
  };
};

std::string Packaged(const std::string& name) {
  std::ifstream file(std::string(HOLDFAST_SOURCE_DIR) + "/packaging/kubernetes/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(NodeRightsTest, NothingIsMissingWhereAllIsAllowed) {
  RulingApi api;
  const RightsReview review = ReviewRights(api, RightsOfNode("n1", true));
  EXPECT_TRUE(review.missing.empty());
  EXPECT_EQ(review.manifest + review.advice + review.unknown, "");
}

TEST(NodeRightsTest, TheProxysBindingIsNamedWithWhatItIsGoodFor) {
  RulingApi api;
  api.allows = [](const auto& a) {
    return a.resource() != "endpointslices" && (a.resource() != "nodes" || a.has_name());
  };
  const RightsReview review = ReviewRights(api, RightsOfNode("n1", true));
  ASSERT_EQ(review.missing.size(), 4u);
  EXPECT_EQ(review.missing[0].verb + " " + review.missing[0].resource,
            "list endpointslices.discovery.k8s.io");
  EXPECT_EQ(review.missing[1].resource, "nodes");
  EXPECT_EQ(review.missing[1].without, "there are no routes to pods of other nodes");
  EXPECT_EQ(review.manifest, ProxierManifest());
  EXPECT_EQ(review.advice, "");
}

TEST(NodeRightsTest, WhatTheNodeAuthorizerGrantsNoBindingDoes) {
  RulingApi api;
  api.allows = [](const auto& a) { return a.resource() != "leases"; };
  const RightsReview review = ReviewRights(api, RightsOfNode("n1", false));
  ASSERT_EQ(review.missing.size(), 1u);
  EXPECT_EQ(review.manifest, "");
  EXPECT_THAT(review.advice, HasSubstr("--authorization-mode=Node,RBAC"));
}

TEST(NodeRightsTest, RenewalsAreAskedForByWhoRenews) {
  RulingApi api;
  api.allows = [](const auto& a) { return a.subresource() != "selfnodeclient"; };
  EXPECT_TRUE(ReviewRights(api, RightsOfNode("n1", false)).missing.empty());
  const RightsReview review = ReviewRights(api, RightsOfNode("n1", true));
  ASSERT_EQ(review.missing.size(), 1u);
  EXPECT_EQ(review.missing[0].resource,
            "certificatesigningrequests/selfnodeclient.certificates.k8s.io");
  EXPECT_EQ(review.manifest, RenewalManifest());
}

TEST(NodeRightsTest, AServerThatDoesNotAnswerIsNoMissingRight) {
  RulingApi api;
  api.code = 503;
  const RightsReview review = ReviewRights(api, RightsOfNode("n1", true));
  EXPECT_TRUE(review.missing.empty());
  EXPECT_THAT(review.unknown, HasSubstr("503"));
}

TEST(NodeRightsTest, ThePackageHasWhatIsPrinted) {
  EXPECT_THAT(Packaged("node-proxier.yaml"), HasSubstr(ProxierManifest()));
  EXPECT_THAT(Packaged("csr-approval.yaml"), HasSubstr(RenewalManifest()));
  EXPECT_THAT(Packaged("bootstrap.yaml"), Not(HasSubstr("system:nodes")));
}

}  // namespace
}  // namespace holdfast::agent
