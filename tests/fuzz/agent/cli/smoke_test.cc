// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fuzz/agent/cli/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, JsonPath) {
  Replay(FuzzJsonPath,
         {"{.items[*].a['b','n']} {..n}", "{range .items[?(@.a.n>3)]}{.a.b}{\"\\t\"}{end}",
          "{.items[0,-1]}{.items[::2]}{@}x{.kind \"y\"}"},
         "{}[]()?@.*'\",:<>=!\\-0");
}

}  // namespace
}  // namespace holdfast::fuzz
