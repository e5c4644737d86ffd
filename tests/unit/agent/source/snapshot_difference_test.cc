// SPDX-License-Identifier: Apache-2.0
#include "agent/source/snapshot_difference.h"

#include <gtest/gtest.h>

#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

template <class Object>
DesiredObject<Object> Make(const std::string& name) {
  auto object = std::make_shared<Object>();
  object->mutable_metadata()->set_namespace_("default");
  object->mutable_metadata()->set_name(name);
  return {std::move(object), std::make_shared<const std::string>(name + ".yaml")};
}

DesiredService Service(const std::string& name) {
  return Make<k8s::io::api::core::v1::Service>(name);
}
DesiredSlice Slice(const std::string& name) {
  return Make<k8s::io::api::discovery::v1::EndpointSlice>(name);
}

class SnapshotDifferenceTest : public ::testing::Test {
 protected:
  SnapshotDifferenceTest() {
    before_.services = {Service("a"), Service("b")};
    before_.slices = {Slice("a-1"), Slice("b-1")};
    after_ = before_;
  }
  PodSnapshot before_;
  PodSnapshot after_;
};

TEST_F(SnapshotDifferenceTest, NothingIsRenewedInTheSame) {
  const auto renewed = FindRenewed(before_, after_);
  ASSERT_TRUE(renewed);
  EXPECT_TRUE(renewed->services.empty());
  EXPECT_TRUE(renewed->slices.empty());
}

TEST_F(SnapshotDifferenceTest, ANewVersionIsNamed) {
  after_.services[1] = Service("b");
  after_.slices[0] = Slice("a-1");
  const auto renewed = FindRenewed(before_, after_);
  ASSERT_TRUE(renewed);
  EXPECT_EQ(renewed->services, std::vector<const DesiredService*>{&after_.services[1]});
  EXPECT_EQ(renewed->slices, std::vector<const DesiredSlice*>{&after_.slices[0]});
}

TEST_F(SnapshotDifferenceTest, WhatCameOrWentIsNoRenewal) {
  after_.services.pop_back();
  EXPECT_FALSE(FindRenewed(before_, after_));
  after_.services.push_back(Service("c"));
  EXPECT_FALSE(FindRenewed(before_, after_)) << "another one in its place";
  after_ = before_;
  after_.slices.push_back(Slice("c-1"));
  EXPECT_FALSE(FindRenewed(before_, after_));
}

}  // namespace
}  // namespace holdfast::agent
