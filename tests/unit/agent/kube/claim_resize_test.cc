// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/claim_resize.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace holdfast::agent::kube {
namespace {

using Json = nlohmann::json;

Claim Parsed(const std::string& status) {
  Claim claim;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "metadata { resourceVersion: '7' } status { capacity { key: 'storage' value { string: '1Gi' "
      "} } " +
          status + " }",
      &claim));
  return claim;
}

Claim Growing(const std::string& state, const std::string& more = "") {
  return Parsed(
      "allocatedResources { key: 'storage' value { string: '2Gi' } } "
      "allocatedResourceStatuses { key: 'storage' value: '" +
      state + "' } " + more);
}

TEST(ClaimResizeTest, TheControllerSaysWhenANodeIsToDoIt) {
  EXPECT_TRUE(AwaitsNodeResize(Growing("NodeResizePending")));
  EXPECT_TRUE(AwaitsNodeResize(Growing("NodeResizeInProgress"))) << "a node that was killed in it";
  EXPECT_FALSE(AwaitsNodeResize(Growing("ControllerResizeInProgress")));
  EXPECT_FALSE(AwaitsNodeResize(Growing("NodeResizeInfeasible")));
  EXPECT_FALSE(AwaitsNodeResize(Parsed("")));
  EXPECT_FALSE(
      AwaitsNodeResize(Parsed("allocatedResources { key: 'storage' value { string: '1Gi' } } "
                              "allocatedResourceStatuses { key: 'storage' value: "
                              "'NodeResizePending' }")))
      << "it has that already";
  EXPECT_EQ(SizeToBe(Growing("NodeResizePending")), "2Gi");
}

TEST(ClaimResizeTest, WhatANodeWritesOnTheWay) {
  EXPECT_EQ(Json::parse(ResizeBegun(Growing("NodeResizePending"))), Json::parse(R"(
      {"metadata": {"resourceVersion": "7"},
       "status": {"allocatedResourceStatuses": {"storage": "NodeResizeInProgress"}}})"));
  EXPECT_EQ(ResizeBegun(Growing("NodeResizeInProgress")), "");
  const Claim claim = Growing("NodeResizePending",
                              "conditions { type: 'FileSystemResizePending' status: 'True' } "
                              "conditions { type: 'SomebodyElses' status: 'True' }");
  EXPECT_EQ(Json::parse(ResizeDone(claim, "8")), Json::parse(R"(
      {"metadata": {"resourceVersion": "8"},
       "status": {"capacity": {"storage": "2Gi"}, "allocatedResourceStatuses": {"storage": null},
                  "conditions": [{"$patch": "delete", "type": "FileSystemResizePending"}]}})"));
}

TEST(ClaimResizeTest, WhatANodeWritesWhenItCannot) {
  const WallTime now{std::chrono::seconds(1'800'000'000)};
  const Claim claim = Growing("NodeResizeInProgress");
  const Json condition = {{"type", "NodeResizeError"},
                          {"status", "True"},
                          {"lastTransitionTime", "2027-01-15T08:00:00Z"},
                          {"message", "failed to expand pvc with no"}};
  EXPECT_EQ(Json::parse(ResizeFailed(claim, "no", false, now)),
            (Json{{"status", {{"conditions", Json::array({condition})}}}}));
  const Json infeasible = Json::parse(ResizeFailed(claim, "no", true, now));
  EXPECT_EQ(infeasible["status"]["allocatedResourceStatuses"]["storage"], "NodeResizeInfeasible");
  const Claim told =
      Growing("NodeResizeInProgress", "conditions { type: 'NodeResizeError' status: 'True' }");
  EXPECT_EQ(ResizeFailed(told, "no", false, now), "");
  EXPECT_FALSE(Json::parse(ResizeFailed(told, "no", true, now))["status"].contains("conditions"));
}

}  // namespace
}  // namespace holdfast::agent::kube
