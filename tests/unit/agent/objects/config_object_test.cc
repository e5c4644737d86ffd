// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/config_object.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "k8s/core/v1/config.pb.h"

namespace holdfast::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::map<std::string, std::string>;

ConfigObjectPtr Map(const Values& data, const Values& binary, bool immutable) {
  auto map = std::make_unique<corev1::ConfigMap>();
  map->mutable_metadata()->set_name("conf");
  map->mutable_metadata()->set_namespace_("shop");
  map->mutable_metadata()->set_uid("u");
  map->set_immutable(immutable);
  for (const auto& [key, value] : data) (*map->mutable_data())[key] = value;
  for (const auto& [key, value] : binary) (*map->mutable_binarydata())[key] = value;
  return TakeConfigObject(std::move(map));
}

std::vector<std::string> Faults(const ConfigObjectPtr& before, const ConfigObjectPtr& now) {
  std::vector<std::string> lines;
  for (const auto& error : CheckUpdate(*before, *now)) lines.push_back(error.ToString());
  return lines;
}

TEST(ConfigObjectTest, HasTheBytesOfBothKinds) {
  const ConfigObjectPtr map = Map({{"a", "1"}}, {{"b", std::string("\0\xff", 2)}}, true);
  EXPECT_EQ(map->ref, (ObjectRef{ObjectKind::kConfigMap, "shop", "conf"}));
  EXPECT_EQ(map->data->values, (Values{{"a", "1"}, {"b", std::string("\0\xff", 2)}}));
  EXPECT_THAT(map->data->binary, ElementsAre("b"));
  EXPECT_TRUE(map->data->immutable);
  EXPECT_EQ(map->data->uid, "") << "only a server gives those";
}

TEST(ConfigObjectTest, StringDataWinsOverData) {
  auto secret = std::make_unique<corev1::Secret>();
  secret->set_type("Opaque");
  (*secret->mutable_data())["a"] = "of data";
  (*secret->mutable_data())["b"] = "of data";
  (*secret->mutable_stringdata())["b"] = "of stringData";
  (*secret->mutable_stringdata())["c"] = "of stringData";
  TakeStringData(secret.get());
  EXPECT_EQ(secret->stringdata_size(), 0);
  const ConfigObjectPtr taken = TakeConfigObject(std::move(secret));
  EXPECT_EQ(taken->type, "Opaque");
  EXPECT_EQ(taken->data->values,
            (Values{{"a", "of data"}, {"b", "of stringData"}, {"c", "of stringData"}}));
}

TEST(ConfigObjectTest, WhatIsImmutableStaysAsItIs) {
  const ConfigObjectPtr sealed = Map({{"a", "1"}}, {{"b", "2"}}, true);
  EXPECT_THAT(Faults(sealed, Map({{"a", "1"}}, {{"b", "2"}}, true)), IsEmpty());
  EXPECT_THAT(Faults(Map({}, {}, false), sealed), IsEmpty());
  EXPECT_THAT(Faults(sealed, Map({{"a", "2"}}, {{"b", "2"}}, true)),
              ElementsAre("data: Forbidden: field is immutable when `immutable` is set"));
  EXPECT_THAT(Faults(sealed, Map({{"a", "1"}, {"b", "2"}}, {}, false)),
              ElementsAre("immutable: Forbidden: field is immutable when `immutable` is set",
                          "data: Forbidden: field is immutable when `immutable` is set",
                          "binaryData: Forbidden: field is immutable when `immutable` is set"));
}

TEST(ConfigObjectTest, ASecretKeepsItsType) {
  const auto of_type = [](const char* type) {
    auto secret = std::make_unique<corev1::Secret>();
    secret->set_type(type);
    return TakeConfigObject(std::move(secret));
  };
  EXPECT_THAT(Faults(of_type("a/b"), of_type("a/b")), IsEmpty());
  EXPECT_THAT(Faults(of_type("a/b"), of_type("Opaque")),
              ElementsAre("type: Invalid value: \"Opaque\": field is immutable"));
}

TEST(ConfigObjectTest, IsShownWithoutWhatOnlyAServerSetsAndWithoutValues) {
  auto secret = std::make_unique<corev1::Secret>();
  metav1::ObjectMeta& meta = *secret->mutable_metadata();
  meta.set_namespace_("shop");
  meta.set_name("key");
  meta.set_uid("of-a-file");
  meta.set_resourceversion("7");
  meta.mutable_creationtimestamp()->set_seconds(7);
  meta.add_managedfields()->set_manager("kubectl");
  (*meta.mutable_annotations())["note"] = "kept";
  (*meta.mutable_annotations())["kubectl.kubernetes.io/last-applied-configuration"] = "swordfish";
  const ConfigObjectPtr taken = TakeConfigObject(std::move(secret));
  const metav1::ObjectMeta& shown = *taken->metadata;
  EXPECT_EQ(shown.name(), "key");
  EXPECT_EQ(shown.annotations_size(), 1);
  EXPECT_EQ(shown.annotations().at("note"), "kept");
  EXPECT_FALSE(shown.has_creationtimestamp() || shown.has_resourceversion());
  EXPECT_EQ(shown.managedfields_size(), 0);
  EXPECT_EQ(shown.uid().size(), 32u);
  EXPECT_EQ(shown.SerializeAsString().find("swordfish"), std::string::npos);
  EXPECT_NE(shown.uid(), Map({}, {}, false)->metadata->uid());
  EXPECT_EQ(Map({}, {}, false)->metadata->uid(), Map({{"a", "1"}}, {}, true)->metadata->uid());
}

TEST(ConfigObjectTest, SameContentIsAllOfIt) {
  const ConfigObjectPtr map = Map({{"a", "1"}}, {}, false);
  EXPECT_TRUE(HasSameContent(*map, *Map({{"a", "1"}}, {}, false)));
  EXPECT_FALSE(HasSameContent(*map, *Map({{"a", "1"}}, {}, true)));
  EXPECT_FALSE(HasSameContent(*map, *Map({}, {{"a", "1"}}, false)));
  EXPECT_FALSE(HasSameContent(*map, *Map({{"a", "2"}}, {}, false)));
}

}  // namespace
}  // namespace holdfast::agent
