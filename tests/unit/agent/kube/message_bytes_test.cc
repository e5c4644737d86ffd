// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/message_bytes.h"

#include <gtest/gtest.h>

#include <ranges>
#include <string>
#include <vector>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;

corev1::Pod PodWithLabels(const auto& names) {
  corev1::Pod pod;
  for (const std::string& name : names) (*pod.mutable_metadata()->mutable_labels())[name] = "x";
  return pod;
}

TEST(SameMessageTest, TheOrderInWhichAMapWasMadeDoesNotCount) {
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("label-" + std::to_string(i));
  const corev1::Pod forth = PodWithLabels(names);
  EXPECT_TRUE(SameMessage(forth, PodWithLabels(names | std::views::reverse)));
  names.back() = "label-xx";
  EXPECT_FALSE(SameMessage(forth, PodWithLabels(names))) << "of the same size";
  names.pop_back();
  EXPECT_FALSE(SameMessage(forth, PodWithLabels(names)));
}

TEST(SameMessageTest, AFieldThatIsEmptyIsNotOneThatIsAbsent) {
  corev1::Pod absent;
  corev1::Pod empty;
  empty.mutable_status();
  EXPECT_FALSE(SameMessage(absent, empty));
  absent.mutable_status();
  EXPECT_TRUE(SameMessage(absent, empty));
}

TEST(SameMessageTest, NothingIsToldOfTextsThatAreNotUtf8) {
  corev1::Pod pod;
  pod.mutable_status()->set_message("\xff");
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(SameMessage(pod, corev1::Pod(pod)));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace holdfast::agent::kube
