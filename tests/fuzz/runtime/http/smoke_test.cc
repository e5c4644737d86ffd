// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "tests/fuzz/runtime/http/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

std::string Frame(int type, int flags, int stream, const std::string& payload) {
  std::string out = {0,
                     static_cast<char>(payload.size() >> 8),
                     static_cast<char>(payload.size()),
                     static_cast<char>(type),
                     static_cast<char>(flags),
                     0,
                     0,
                     0,
                     static_cast<char>(stream)};
  return out + payload;
}

TEST(FuzzSmokeTest, H2Session) {
  const std::string settings = Frame(4, 0, 0, ""), ok = "\x88", not_found = "\x8d";
  const std::string early =
      "\x48\x03"
      "103";  // :status 103
  Replay(FuzzH2Session,
         {settings + Frame(1, 4, 1, ok) + Frame(0, 0, 1, "data") + Frame(0, 1, 1, "more"),
          settings + Frame(1, 4, 3, early) + Frame(1, 5, 3, not_found),
          settings + Frame(1, 0, 1, ok) + Frame(9, 4, 1, "\x5f\x01x") +
              Frame(0, 9, 1,
                    "\x02"
                    "a  "),
          settings + Frame(1, 4, 1, ok) + Frame(3, 0, 3, std::string("\0\0\0\7", 4)) +
              Frame(7, 0, 0, std::string("\0\0\0\1\0\0\0\0", 8)),
          settings + Frame(6, 0, 0, "12345678") + Frame(8, 0, 1, std::string("\0\0\1\0", 4)) +
              Frame(1, 4, 1, ok) + Frame(0, 1, 1, std::string(1001, 'x')),
          settings + Frame(5, 4, 1, std::string("\0\0\0\2", 4) + ok)},
         std::string("\0\1\3\4\5\7\x88", 7));
}

}  // namespace
}  // namespace holdfast::fuzz
