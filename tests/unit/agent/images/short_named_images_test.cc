// SPDX-License-Identifier: Apache-2.0
#include "agent/images/short_named_images.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

using Names = std::vector<std::string>;

// `answers`: by name.
struct Registries {
  std::map<std::string, Code> refusals;
  Names asked;

  Result<PulledImage> operator()(const std::string& name) {
    asked.push_back(name);
    const auto refusal = refusals.find(name);
    if (refusal != refusals.end()) return Error(refusal->second, "refused " + name);
    PulledImage pulled;
    pulled.image.repo_tags = {name};
    return pulled;
  }
};

TEST(FirstPulledTest, EachIsAskedInItsOrderUntilOneHasIt) {
  Registries registries{{{"a/x", Code::kNotFound}, {"b/x", Code::kUnavailable}}, {}};
  const auto pulled = FirstPulled("x", {"a/x", "b/x", "c/x", "d/x"}, std::ref(registries), false);
  ASSERT_TRUE(pulled);
  EXPECT_EQ(pulled->image.repo_tags, Names{"c/x"});
  EXPECT_EQ(registries.asked, (Names{"a/x", "b/x", "c/x"}));
}

TEST(FirstPulledTest, WhenNobodyHasItEachIsNamed) {
  Registries registries{{{"a/x", Code::kNotFound}, {"b/x", Code::kNotFound}}, {}};
  auto pulled = FirstPulled("x", {"a/x", "b/x"}, std::ref(registries), false);
  EXPECT_EQ(pulled.error().code(), Code::kNotFound);
  EXPECT_EQ(pulled.error().message(),
            "short name \"x\": none of 2 registries gave it:\nrefused a/x\nrefused b/x");
  // One that did not answer may have it.
  registries.refusals["b/x"] = Code::kUnavailable;
  EXPECT_EQ(FirstPulled("x", {"a/x", "b/x"}, std::ref(registries), false).error().code(),
            Code::kUnavailable);
  EXPECT_EQ(FirstPulled("x", {"b/x", "a/x"}, std::ref(registries), false).error().code(),
            Code::kUnavailable);
  EXPECT_EQ(FirstPulled("a/x", {"a/x"}, std::ref(registries), false).error().message(),
            "refused a/x");
}

TEST(FirstPulledTest, WhoIsCancelledAsksNoOther) {
  Registries registries{{{"a/x", Code::kUnavailable}}, {}};
  EXPECT_FALSE(FirstPulled("x", {"a/x", "b/x"}, std::ref(registries), true));
  EXPECT_EQ(registries.asked, Names{"a/x"});
}

}  // namespace
}  // namespace holdfast::agent
