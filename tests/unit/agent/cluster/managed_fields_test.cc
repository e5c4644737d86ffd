// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/managed_fields.h"

#include <gtest/gtest.h>

#include "agent/kube/codec.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

corev1::Pod PodNamed(const std::string& name, bool managed) {
  corev1::Pod pod;
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_generation(-1);  // ten bytes of varint
  pod.mutable_spec()->add_containers()->set_image(std::string(300, 'i'));
  if (managed) {
    for (int i = 0; i < 3; ++i) {
      auto* entry = pod.mutable_metadata()->add_managedfields();
      entry->set_manager("kubectl");
      entry->mutable_fieldsv1()->set_raw(std::string(1000, '{'));
    }
  }
  return pod;
}

corev1::PodList ListOfTwo(bool managed) {
  corev1::PodList list;
  list.mutable_metadata()->set_resourceversion("7");
  *list.add_items() = PodNamed("a", managed);
  *list.add_items() = PodNamed("b", managed);
  return list;
}

TEST(ManagedFieldsTest, NothingElseIsCutOutOfAnObject) {
  EXPECT_EQ(WithoutManagedFields(kube::EncodeEnvelope(PodNamed("a", true)), EnvelopeHolds::kObject),
            kube::EncodeEnvelope(PodNamed("a", false)));
  const std::string without = kube::EncodeEnvelope(PodNamed("a", false));
  EXPECT_EQ(WithoutManagedFields(without, EnvelopeHolds::kObject), without);
}

TEST(ManagedFieldsTest, EachItemOfAListLosesItsOwn) {
  EXPECT_EQ(WithoutManagedFields(kube::EncodeEnvelope(ListOfTwo(true)), EnvelopeHolds::kList),
            kube::EncodeEnvelope(ListOfTwo(false)));
}

TEST(ManagedFieldsTest, UnknownFieldsOfAnyTypeStay) {
  using namespace std::string_literals;  // NOLINT: bytes with zeros
  const std::string unknown =
      "\xf8\x3f\x01"s + "\xf9\x3f"s + "12345678"s + "\xfd\x3f"s + "1234"s + "\xfa\x3f\x02hi"s;
  const std::string object = unknown + "\x0a\x02\x0a\x00"s + unknown;
  const std::string envelope = "k8s\0\x12"s + static_cast<char>(object.size()) + object + unknown;
  EXPECT_EQ(WithoutManagedFields(envelope, EnvelopeHolds::kObject), envelope);
}

TEST(ManagedFieldsTest, WhatDoesNotReadComesBackAsItIs) {
  const std::string whole = kube::EncodeEnvelope(PodNamed("a", true));
  for (const size_t size : {size_t{0}, size_t{3}, size_t{5}, whole.size() / 2, whole.size() - 1}) {
    const std::string cut = whole.substr(0, size);
    EXPECT_EQ(WithoutManagedFields(cut, EnvelopeHolds::kObject), cut) << size;
  }
  const std::string json = R"({"metadata":{"managedFields":[{}]}})";
  EXPECT_EQ(WithoutManagedFields(json, EnvelopeHolds::kObject), json);
  const std::string endless = std::string("k8s\0", 4) + std::string(11, '\xff');
  EXPECT_EQ(WithoutManagedFields(endless, EnvelopeHolds::kObject), endless);
}

}  // namespace
}  // namespace holdfast::agent
