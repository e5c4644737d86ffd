// SPDX-License-Identifier: Apache-2.0
#include "agent/source/defined_objects.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace holdfast::agent {
namespace {

const ObjectIdentity kWeb{"Pod", "default", "web"};
const ObjectIdentity kData{"ConfigMap", "default", "data"};

DefinedObjects::File FileOf(std::vector<DefinedObject> objects, bool is_link = false) {
  return {{}, is_link, std::move(objects)};
}

std::vector<std::string> FilesOf(const std::vector<const DefinedObject*>& objects) {
  std::vector<std::string> files;
  for (const DefinedObject* object : objects) files.push_back(object->file);
  return files;
}

using Files = std::vector<std::string>;

TEST(DefinedObjectsTest, AnObjectIsFoundInEachFileThatDefinesIt) {
  DefinedObjects defined;
  defined.Set("b", FileOf({{kWeb, "b"}, {kData, "b"}}));
  defined.Set("a", FileOf({{kWeb, "a", true, "u1"}}));
  EXPECT_EQ(FilesOf(defined.Named(kWeb)), (Files{"a", "b"}));
  EXPECT_EQ(FilesOf(defined.Named(kData)), (Files{"b"}));
  EXPECT_TRUE(defined.Named({"Secret", "default", "data"}).empty());
  EXPECT_EQ(FilesOf(defined.WithUid("u1")), (Files{"a"}));
  EXPECT_TRUE(defined.WithUid("").empty());
  EXPECT_EQ(defined.Files(), (std::set<std::string>{"a", "b"}));
}

TEST(DefinedObjectsTest, ANewVersionOfAFileTakesThePlaceOfTheOld) {
  DefinedObjects defined;
  defined.Set("a", FileOf({{kWeb, "a", true, "u1"}, {kWeb, "a"}}, true));
  EXPECT_EQ(FilesOf(defined.Named(kWeb)), (Files{"a", "a"}));
  EXPECT_EQ(defined.Links(), (std::set<std::string>{"a"}));
  defined.Set("a", FileOf({{kData, "a"}}));
  EXPECT_TRUE(defined.Named(kWeb).empty());
  EXPECT_TRUE(defined.WithUid("u1").empty());
  EXPECT_TRUE(defined.Links().empty());
  EXPECT_EQ(FilesOf(defined.Named(kData)), (Files{"a"}));
  defined.Remove("a");
  defined.Remove("a");
  EXPECT_TRUE(defined.Named(kData).empty());
  EXPECT_TRUE(defined.Files().empty());
}

}  // namespace
}  // namespace holdfast::agent
