// SPDX-License-Identifier: Apache-2.0
// What reaches stderr when a message holds text of an image or of a manifest.
#include "agent/base/logging.h"

#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <stdlib.h>

#include <algorithm>
#include <string>

namespace holdfast::agent {
namespace {

class LoggingTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      ::setenv("JOURNAL_STREAM", "8:1", 1);
    } else {
      ::unsetenv("JOURNAL_STREAM");
    }
    SetUpLogging("info");
  }
  void TearDown() override { ::unsetenv("JOURNAL_STREAM"); }

  static std::string Written(const std::string& text) {
    ::testing::internal::CaptureStderr();
    spdlog::warn("{}", text);
    return ::testing::internal::GetCapturedStderr();
  }
};

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7F;
}

TEST_P(LoggingTest, AMessageIsOneLineWithoutControlCharacters) {
  const std::string attacks[] = {
      // an ENTRYPOINT that is not there, and a USER
      "pod default/web: start app: exec \"/x\n<0>2026 error FORGED LINE\x1b]0;pwned\a\"",
      "unable to find user a\r\n<1>b: no matching entries in passwd file\x9b"
      "31m",
      // file names in the manifest directory
      "manifest /etc/manifests/a\n<0>b.yaml: \xc2\x9b"
      "2J is not UTF-8: \xff\xfe\x85",
      std::string("nul \0 del \x7f vt \v ff \f", 22)};
  for (const std::string& attack : attacks) {
    std::string line = Written(attack);
    ASSERT_TRUE(line.ends_with('\n'));
    line.pop_back();
    EXPECT_TRUE(std::ranges::none_of(line, IsControl)) << line;
    EXPECT_EQ(line.find("\xc2\x9b"), std::string::npos) << line;
    EXPECT_EQ(line.find('\x9b'), std::string::npos) << line;
    EXPECT_EQ(line.starts_with(GetParam() ? "<4>" : "20"), true) << line;
  }
}

TEST_P(LoggingTest, WhatIsHarmlessStaysAsItIs) {
  const std::string text = "pod \"n\xc3\xa4h\"\t\xe2\x82\xac \xf0\x9f\x90\xb3 back\\slash <0> done";
  EXPECT_TRUE(Written(text).ends_with(text + "\n"));
}

TEST_P(LoggingTest, EscapesSayWhatStoodThere) {
  EXPECT_TRUE(Written("a\nb\rc\x1b[1m\xc2\x85\xff").ends_with("a\\nb\\rc\\x1b[1m\\u0085\\xff\n"));
}

INSTANTIATE_TEST_SUITE_P(Journal, LoggingTest, ::testing::Bool());

}  // namespace
}  // namespace holdfast::agent
