// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/identity/certificate_plan.h"
#include "tests/unit/agent/identity/signer.h"

namespace holdfast::agent {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

WallTime At(int64_t second) { return {seconds(second)}; }

CertificateFacts Issued(const CertificatePlan& plan, WallTime from, WallTime until) {
  const auto key = NewPrivateKey();
  const auto request = MakeCertificateRequest(*key, plan.subject);
  const test::Signer signer;
  const auto facts = ReadCertificate(signer.Sign(*request, from, until));
  EXPECT_TRUE(facts) << facts.error().message();
  return *facts;
}

TEST(CertificateTest, ARequestSaysExactlyWhatASignerWantsOfANode) {
  const CertificateFacts facts = Issued(ClientPlan("n1"), At(1'000), At(2'000));
  EXPECT_EQ(facts.subject.common_name, "system:node:n1");
  EXPECT_THAT(facts.subject.organizations, ElementsAre("system:nodes"));
  EXPECT_TRUE(facts.subject.dns_names.empty() && facts.subject.ip_addresses.empty())
      << "a signer refuses a client's request with any";
  EXPECT_EQ(facts.not_before, At(1'000));
  EXPECT_EQ(facts.not_after, At(2'000));
}

TEST(CertificateTest, AServersRequestNamesItsAddresses) {
  const auto plan = ServingPlan("n1", {"192.0.2.7", "2001:db8::7"});
  ASSERT_TRUE(plan);
  const CertificateFacts facts = Issued(*plan, At(1'000), At(2'000));
  EXPECT_THAT(facts.subject.dns_names, ElementsAre("n1"));
  EXPECT_THAT(facts.subject.ip_addresses, ElementsAre("192.0.2.7", "2001:db8::7"));
  EXPECT_TRUE(Covers(facts, *plan));
  EXPECT_TRUE(Covers(facts, *ServingPlan("n1", {"192.0.2.7"}))) << "more is fine";
  EXPECT_FALSE(Covers(facts, *ServingPlan("n1", {"192.0.2.8"})));
  EXPECT_FALSE(Covers(facts, *ServingPlan("n2", {"192.0.2.7"})));
  EXPECT_FALSE(ServingPlan("n1", {}));
  EXPECT_FALSE(ServingPlan("n1", {"127.0.0.1"}));
}

TEST(CertificateTest, KeysBelongToTheirCertificates) {
  const auto key = NewPrivateKey();
  ASSERT_TRUE(key);
  EXPECT_THAT(*key, StartsWith("-----BEGIN EC PRIVATE KEY-----")) << "as a kubelet writes it";
  const auto request = MakeCertificateRequest(*key, ClientPlan("n1").subject);
  EXPECT_EQ(*PublicKeyOfKey(*key), *PublicKeyOfRequest(*request));
  const std::string certificate = test::Signer().Sign(*request, At(0), At(1));
  EXPECT_TRUE(CheckPair({certificate, *key}));
  EXPECT_FALSE(CheckPair({certificate, *NewPrivateKey()}));
  EXPECT_FALSE(CheckPair({certificate, certificate}));
  EXPECT_FALSE(CheckPair({"", *key}));
  EXPECT_FALSE(ReadCertificate(std::string("-----BEGIN CERTIFICATE-----\nAAAA\n") +
                               "-----END CERTIFICATE-----\n"));
}

TEST(CertificatePlanTest, TheNameOfARequestIsTheKeys) {
  const CertificatePlan client = ClientPlan("n1");
  const std::string name = RequestName(client, "key");
  EXPECT_THAT(name, StartsWith("node-csr-"));
  EXPECT_EQ(name.size(), 9u + 43u) << "256 bits in base 64";
  EXPECT_EQ(
      name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"),
      std::string::npos);
  EXPECT_EQ(RequestName(client, "key"), name);
  EXPECT_NE(RequestName(client, "other"), name);
  EXPECT_NE(RequestName(ClientPlan("n2"), "key"), name);
  EXPECT_NE(RequestName(*ServingPlan("n1", {"192.0.2.1"}), "key"),
            RequestName(*ServingPlan("n1", {"192.0.2.2"}), "key"));
}

TEST(CertificatePlanTest, WhatIsAskedFor) {
  const auto request = MakeRequest(ClientPlan("n1"), "key", "pem");
  EXPECT_EQ(request.spec().signername(), "kubernetes.io/kube-apiserver-client-kubelet");
  EXPECT_THAT(request.spec().usages(), ElementsAre("digital signature", "client auth"));
  EXPECT_EQ(request.spec().request(), "pem");
  EXPECT_FALSE(request.spec().has_username());
  const auto serving = MakeRequest(*ServingPlan("n1", {"192.0.2.1"}), "key", "pem");
  EXPECT_EQ(serving.spec().signername(), "kubernetes.io/kubelet-serving");
  EXPECT_THAT(serving.spec().usages(), ElementsAre("digital signature", "server auth"));
}

TEST(CertificatePlanTest, Verdicts) {
  certificatesv1::CertificateSigningRequest request;
  const auto add = [&](const char* type, const char* message) {
    auto& condition = *request.mutable_status()->add_conditions();
    condition.set_type(type);
    condition.set_status("True");
    condition.set_reason("Because");
    condition.set_message(message);
  };
  EXPECT_EQ(StateOfRequest(request).verdict, RequestVerdict::kPending);
  add("Approved", "");
  EXPECT_EQ(StateOfRequest(request).verdict, RequestVerdict::kApproved);
  request.mutable_status()->set_certificate("pem");
  EXPECT_EQ(StateOfRequest(request).verdict, RequestVerdict::kIssued);
  add("Failed", "usages did not match");
  EXPECT_EQ(StateOfRequest(request).verdict, RequestVerdict::kFailed);
  EXPECT_EQ(StateOfRequest(request).why, "Because: usages did not match");
  request.clear_status();
  add("Denied", "");
  EXPECT_EQ(StateOfRequest(request).verdict, RequestVerdict::kDenied);
  EXPECT_EQ(StateOfRequest(request).why, "Because");
}

TEST(CertificatePlanTest, RenewalsAreSpreadOverAFifthOfALife) {
  WallTime earliest = At(2'000'000), latest = At(0);
  for (int i = 0; i < 40; ++i) {
    const CertificateFacts facts = Issued(ClientPlan("n1"), At(1'000'000), At(1'001'000));
    const WallTime deadline = RotationDeadline(facts);
    EXPECT_GE(deadline, At(1'000'700));
    EXPECT_LT(deadline, At(1'000'900));
    earliest = std::min(earliest, deadline);
    latest = std::max(latest, deadline);
    EXPECT_EQ(RotationDeadline(facts), deadline) << "drawn once for each certificate";
  }
  EXPECT_GT(latest - earliest, seconds(60));
}

TEST(CertificatePlanTest, Delays) {
  EXPECT_EQ(RetryDelay(1), seconds(2));
  EXPECT_EQ(RetryDelay(2), seconds(4));
  EXPECT_EQ(RetryDelay(5), seconds(32));
  EXPECT_EQ(RetryDelay(1'000'000), seconds(32));
  EXPECT_EQ(RefusedDelay(1), milliseconds(300'000));
  EXPECT_EQ(RefusedDelay(2), milliseconds(600'000));
  EXPECT_EQ(RefusedDelay(99), hours(1));
}

}  // namespace
}  // namespace holdfast::agent
