// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/containerd/choice.h"

#include <gtest/gtest.h>

#include "holdfast/base/strings.h"

namespace holdfast::agent::containerd {
namespace {

const std::string kOne = "sha256:" + std::string(64, '1');
const std::string kTwo = "sha256:" + std::string(64, '2');

// "one: a b | two: c | skipped: d | absent: e"
std::string Chosen(const std::vector<std::pair<std::string, std::string>>& images,
                   const std::vector<std::string>& wanted = {}) {
  std::vector<NamedImage> named;
  for (const auto& [name, digest] : images) named.push_back({name, {digest, "type", 1}});
  const Choice choice = ChooseImages(named, wanted);
  std::string text;
  for (const ChosenImage& image : choice.images) {
    text += image.target.digest == kOne ? "one:" : "two:";
    for (const std::string& name : image.names) text += " " + name;
    text += " | ";
  }
  for (const auto& [name, why] : choice.skipped)
    text += StrCat("skipped: ", name, ": ", why, " | ");
  for (const std::string& name : choice.absent) text += "absent: " + name + " | ";
  return text;
}

TEST(ContainerdChoiceTest, OneContentComesOnceWithAllItsNames) {
  EXPECT_EQ(Chosen({{"r.io/a:1", kOne}, {"r.io/b:1", kTwo}, {"r.io/c:1", kOne}}),
            "one: r.io/a:1 r.io/c:1 | two: r.io/b:1 | ");
}

TEST(ContainerdChoiceTest, NamesThatCriGivesBesideATagAreLeftOut) {
  const std::string id = "sha256:" + std::string(64, 'c');
  EXPECT_EQ(Chosen({{"r.io/a:1", kOne}, {"r.io/a@" + kOne, kOne}, {id, kOne}}), "one: r.io/a:1 | ");
  // The tag is another content's by now.
  EXPECT_EQ(Chosen({{"r.io/a:1", kTwo}, {"r.io/a@" + kOne, kOne}}),
            "two: r.io/a:1 | one: r.io/a@" + kOne + " | ");
  EXPECT_EQ(Chosen({{id, kOne}}), "skipped: " + id + ": it has no other name | ");
}

TEST(ContainerdChoiceTest, NamesThatCannotBeAreSkipped) {
  EXPECT_EQ(Chosen({{"r.io/A:1", kOne}}),
            "skipped: r.io/A:1: no name that an image can have here | ");
  EXPECT_EQ(Chosen({{"r.io/a@" + kTwo, kOne}}),
            "skipped: r.io/a@" + kTwo + ": its content is " + kOne + " | ");
}

TEST(ContainerdChoiceTest, WhatIsWantedMayBeWrittenShort) {
  const std::vector<std::pair<std::string, std::string>> images = {
      {"docker.io/library/a:latest", kOne},
      {"docker.io/library/a@" + kOne, kOne},
      {"docker.io/library/b:1", kTwo}};
  EXPECT_EQ(Chosen(images, {"a"}), "one: docker.io/library/a:latest | ");
  EXPECT_EQ(Chosen(images, {"a@" + kOne}), "one: docker.io/library/a@" + kOne + " | ");
  EXPECT_EQ(Chosen(images, {"docker.io/b:1", "b:2"}),
            "two: docker.io/library/b:1 | absent: b:2 | ");
  EXPECT_EQ(Chosen(images, {"no name"}), "absent: no name | ");
}

}  // namespace
}  // namespace holdfast::agent::containerd
