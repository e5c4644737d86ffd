// SPDX-License-Identifier: Apache-2.0
// Random pods through random orders of events (world.h): every rule is kept at every step (rules.h), and the end is that
// of the model (end_model.h). HOLDFAST_ORDERS=100000 tries so many, HOLDFAST_ORDERS_FROM=n begins with that seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/unit/agent/pod/orders/world.h"

namespace holdfast::agent::orders {
namespace {

constexpr uint64_t kSeeds = 3000;
constexpr int kMostFaults = 5;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = ::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// The pod and the last of what happened to it.
std::string Story(uint64_t seed) {
  World world(seed, true);
  (void)world.Live();  // the same again
  std::string out = world.random().pod.DebugString();
  const auto& story = world.story();
  for (size_t i = story.size() > 120 ? story.size() - 120 : 0; i < story.size(); ++i) {
    out += story[i] + "\n";
  }
  return out;
}

TEST(OrdersTest, EveryOrderOfEventsEndsAsTheModel) {
  const uint64_t from = FromEnvironment("HOLDFAST_ORDERS_FROM", 1);
  const uint64_t all = FromEnvironment("HOLDFAST_ORDERS", kSeeds);
  int faults = 0;
  for (uint64_t seed = from; seed < from + all && faults < kMostFaults; ++seed) {
    World world(seed, false);
    const std::string fault = world.Live();
    if (fault.empty()) continue;
    ++faults;
    ADD_FAILURE() << "seed " << seed << ": " << fault << "\n" << Story(seed);
  }
}

}  // namespace
}  // namespace holdfast::agent::orders
