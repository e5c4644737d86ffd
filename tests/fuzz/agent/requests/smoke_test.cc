// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/agent/requests/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, Query) {
  Replay(FuzzQuery,
         {"follow=true&tailLines=12&limitBytes=1&sinceSeconds=9223372036854775807",
          "sinceTime=2026-11-22T10:00:00.5%2B02:00&stream=Stderr&tail=all&previous"},
         "&=%+0123456789-:TZ");
}

TEST(FuzzSmokeTest, Path) {
  Replay(FuzzPath, {"/containerLogs/a/%2e%2e/c", "/exec/a/b", "Bearer abc", "/metrics/resource"},
         "/%. ");
}

}  // namespace
}  // namespace holdfast::fuzz
