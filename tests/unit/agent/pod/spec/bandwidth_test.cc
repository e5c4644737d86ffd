// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/bandwidth.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace holdfast::agent {
namespace {

Result<PodBandwidth> Of(const std::map<std::string, std::string>& annotations) {
  corev1::Pod pod;
  pod.mutable_metadata()->mutable_annotations()->insert(annotations.begin(), annotations.end());
  return BandwidthOf(pod);
}

std::string ErrorOf(const std::string& rate) {
  const auto bandwidth = Of({{"kubernetes.io/ingress-bandwidth", rate}});
  return bandwidth ? "" : bandwidth.error().message();
}

TEST(BandwidthTest, AnnotationsAreBitsPerSecond) {
  EXPECT_EQ(*Of({}), PodBandwidth());
  EXPECT_EQ(
      *Of({{"kubernetes.io/ingress-bandwidth", "10M"}, {"kubernetes.io/egress-bandwidth", "1Gi"}}),
      (PodBandwidth{10'000'000, 1ull << 30}));
}

TEST(BandwidthTest, WhatIsNoRateIsRefusedInKubernetesWords) {
  EXPECT_EQ(ErrorOf("1k"), "");
  EXPECT_EQ(ErrorOf("999"),
            "annotation kubernetes.io/ingress-bandwidth: \"999\" is unreasonably small (< 1kbit)");
  EXPECT_EQ(ErrorOf("2P"),
            "annotation kubernetes.io/ingress-bandwidth: \"2P\" is unreasonably large (> 1Pbit)");
  EXPECT_NE(ErrorOf("fast"), "");
}

}  // namespace
}  // namespace holdfast::agent
