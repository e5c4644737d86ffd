// SPDX-License-Identifier: Apache-2.0
#include "agent/lease/lease_requests.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace holdfast::agent {
namespace {

using netproxy::announce::LeaseRecord;
using netproxy::announce::LeaseRequest;
using Kind = LeaseRequest::Kind;
using Json = nlohmann::json;

constexpr char kLeasePath[] =
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/holdfast-address-198.51.100.7";

const IpAddress kAddress = *IpAddress::Parse("198.51.100.7");

LeaseRecord Record() {
  LeaseRecord record;
  record.holder = "node-1/abc";
  record.acquired = {std::chrono::milliseconds(1'700'000'000'250)};
  record.renewed = {std::chrono::milliseconds(1'700'000'001'500)};
  record.transitions = 7;
  record.version = "42";
  return record;
}

TEST(LeaseRequestsTest, AnUpdateBuildsOnTheVersionThatWasSeen) {
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kUpdate, Record()});
  EXPECT_EQ(request.method, ApiMethod::kPut);
  EXPECT_EQ(request.path, kLeasePath);
  EXPECT_EQ(Json::parse(request.body), Json::parse(R"({
    "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
    "metadata": {
      "name": "holdfast-address-198.51.100.7", "namespace": "kube-system",
      "resourceVersion": "42",
      "labels": {"app.kubernetes.io/managed-by": "holdfast"},
      "annotations": {"holdfast.dev/address": "198.51.100.7"}},
    "spec": {
      "holderIdentity": "node-1/abc", "leaseDurationSeconds": 3, "leaseTransitions": 7,
      "acquireTime": "2023-11-14T22:13:20.250000Z",
      "renewTime": "2023-11-14T22:13:21.500000Z"}})"))
      << request.body;
}

TEST(LeaseRequestsTest, ANewOneHasNoVersion) {
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kCreate, Record()});
  EXPECT_EQ(request.method, ApiMethod::kPost);
  EXPECT_EQ(request.path, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases");
  EXPECT_FALSE(Json::parse(request.body)["metadata"].contains("resourceVersion"));
}

TEST(LeaseRequestsTest, IPv6AddressesHaveDnsNames) {
  const ApiRequest request = ToApiRequest(*IpAddress::Parse("2001:db8::7"), {Kind::kGet, {}});
  EXPECT_EQ(request.method, ApiMethod::kGet);
  EXPECT_TRUE(request.path.ends_with("/holdfast-address-2001-0db8-0000-0000-0000-0000-0000-0007"));
  EXPECT_EQ(request.body, "");
}

TEST(LeaseRequestsTest, WhatIsWrittenIsRead) {
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kUpdate, Record()});
  const auto read = ReadLease({200, request.body}, request);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, Record());
}

TEST(LeaseRequestsTest, OneWithoutAHolderWasGivenBack) {
  LeaseRecord record = Record();
  record.holder.clear();
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kUpdate, record});
  const auto read = ReadLease({200, request.body}, request);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, record);
}

TEST(LeaseRequestsTest, RefusalsAreTheElectionsCodesAndTheServersWords) {
  struct Case {
    int status;
    const char* body;
    Code code;
    const char* words;
  };
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kUpdate, Record()});
  for (const Case& c :
       {Case{404, R"({"kind":"Status","reason":"NotFound","message":"gone"})", Code::kNotFound,
             "gone"},
        Case{409, R"({"kind":"Status","reason":"Conflict","message":"modified"})", Code::kConflict,
             "modified"},
        Case{409, R"({"kind":"Status","reason":"AlreadyExists","message":"is there"})",
             Code::kAlreadyExists, "is there"},
        Case{403, R"({"kind":"Status","reason":"Forbidden","message":"you may not"})",
             Code::kUnavailable, "says 403 \"you may not\""},
        Case{401, R"({"message":"Unauthorized"})", Code::kUnavailable, "Unauthorized"},
        Case{500, "<html>\n", Code::kUnavailable, "<html>"},
        Case{301, "", Code::kUnavailable, "301"}}) {
    const auto read = ReadLease({c.status, c.body}, request);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), c.code) << c.body;
    EXPECT_NE(read.error().message().find(c.words), std::string::npos) << read.error().message();
    EXPECT_NE(read.error().message().find(kLeasePath), std::string::npos) << read.error().message();
  }
}

TEST(LeaseRequestsTest, WhatIsNoLeaseProvesNothing) {
  const ApiRequest request = ToApiRequest(kAddress, {Kind::kGet, {}});
  for (const char* body :
       {"", "{", "[]", "<html>", R"({"kind":"Status","apiVersion":"v1"})",
        R"({"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"}})",
        R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"x"}})",
        R"({"kind":"Lease","apiVersion":"coordination.k8s.io/v1",
            "metadata":{"resourceVersion":"1"},"spec":{"renewTime":"yesterday"}})"}) {
    const auto read = ReadLease({200, body}, request);
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code(), Code::kUnavailable) << body;
  }
}

}  // namespace
}  // namespace holdfast::agent
