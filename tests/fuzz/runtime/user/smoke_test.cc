// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/runtime/user/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

using namespace std::string_literals;  // NOLINT: bytes with zeros

TEST(FuzzSmokeTest, UserFiles) {
  const std::string files =
      "\0root:x:0:0:root:/root:/bin/sh\nweb:x:1001:1002::/srv/web:/bin/sh\n00:x:0:0::/evil:\n"s +
      "\0root:x:0:\nstaff:x:50:someone,web\nweb:x:1002:\n"s;
  Replay(FuzzUserFiles, {"web" + files, "1001:staff" + files, "0" + files, "" + files},
         ":,\n\0+-0123456789"s);
}

}  // namespace
}  // namespace holdfast::fuzz
