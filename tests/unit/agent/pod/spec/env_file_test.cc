// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/env_file.h"

#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

std::string Value(const std::string& text, const std::string& name = "A") {
  const auto value = ValueInEnvFile(text, name);
  return value ? *value : value.error().message();
}

std::string At(int line, const std::string& what) {
  return "invalid environment variable format at line " + std::to_string(line) + ": " + what;
}

TEST(EnvFileTest, ValuesAsTheyStandBetweenQuotes) {
  EXPECT_EQ(Value("A='1'"), "1");
  EXPECT_EQ(Value("\n# A='no'\n \tB='2'\r\nA='$x \\n \"y\"' # why\n"), "$x \\n \"y\"");
  EXPECT_EQ(Value("B='first\n\nA=3'\nA='last\r\nline'"), "last\nline");
  EXPECT_EQ(Value("A='1'\nA='2'"), "1") << "the first one";
  EXPECT_EQ(Value("A='1'\nwhat follows is not read"), "1");
  EXPECT_EQ(Value("a='1'"), "");
  EXPECT_EQ(Value(""), "");
  EXPECT_EQ(Value("A= '1'"), "") << "as in a shell";
  EXPECT_EQ(Value("B= '1'\nA='2'"), "2");
}

TEST(EnvFileTest, WhatIsWrongIsToldWithItsLine) {
  EXPECT_EQ(Value("B='1'\nA"), At(2, "missing '='"));
  EXPECT_EQ(Value("='1'"), At(1, "empty variable name"));
  EXPECT_EQ(Value("A ='1'"), At(1, "whitespace before '=' is not allowed"));
  EXPECT_EQ(Value("A=1"), At(1, "value must be enclosed in single quotes"));
  EXPECT_EQ(Value("A="), At(1, "value must be enclosed in single quotes"));
  EXPECT_EQ(Value("A='1'2"), At(1, "unexpected content after closing quote"));
  EXPECT_EQ(Value("\nA='1\n2"),
            "invalid environment variable format starting at line 2: unclosed single quote");
  EXPECT_EQ(Value("A='" + std::string(64 << 10, 'x') + "'"), At(1, "more than 64 KiB"));
  EXPECT_EQ(Value("A='\n" + std::string(64 << 10, 'x') + "'"), At(2, "more than 64 KiB"));
}

}  // namespace
}  // namespace holdfast::agent
