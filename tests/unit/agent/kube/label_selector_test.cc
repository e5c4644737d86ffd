// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/label_selector.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace holdfast::agent::kube {
namespace {

TEST(LabelSelectorTest, Matches) {
  const std::map<std::string, std::string> labels = {{"app", "web"}, {"tier", "front"}, {"e", ""}};
  for (const char* yes : {"", "app=web", "app==web", "app!=db", "app", "!gone", "gone!=x",
                          "e=", "tier in (front, back)", "tier notin (back)",
                          "app = web , tier=front", "gone notin (a)"}) {
    const auto selector = LabelSelector::Parse(yes);
    ASSERT_TRUE(selector.has_value()) << yes;
    EXPECT_TRUE(selector->Matches(labels)) << yes;
  }
  for (const char* no : {"app=db", "!app", "gone", "app!=web", "tier in (back)", "app=web,gone",
                         "tier notin (front,back)", "gone in (a)"}) {
    const auto selector = LabelSelector::Parse(no);
    ASSERT_TRUE(selector.has_value()) << no;
    EXPECT_FALSE(selector->Matches(labels)) << no;
  }
}

TEST(LabelSelectorTest, RefusesWhatIsNoSelector) {
  for (const char* bad : {"=x", "app=web,", "app in", "app in (a", "app like b", "!", "a b", ","}) {
    EXPECT_FALSE(LabelSelector::Parse(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace holdfast::agent::kube
