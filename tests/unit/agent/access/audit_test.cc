// SPDX-License-Identifier: Apache-2.0
#include "agent/access/audit.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/text_file.h"

namespace holdfast::agent::access {
namespace {

using test_support::ReadText;

TEST(AuditTest, LineIsJsonWhateverACallerSends) {
  AuditEntry entry{.stage = "begin", .id = 7, .uid = 1000, .pid = 12, .method = "Exec"};
  entry.target = "default/we\"b\n/app";
  entry.detail = "\x1b[31m\xff";
  EXPECT_EQ(FormatAuditLine(entry, WallTime{std::chrono::seconds(1)}, 0),
            "{\"time\":\"1970-01-01T00:00:01.000000000Z\",\"stage\":\"begin\",\"id\":7,"
            "\"uid\":1000,\"pid\":12,\"method\":\"Exec\",\"target\":\"default/we\\\"b\\u000a/app\","
            "\"detail\":\"\\u001b[31m\\u00ff\",\"decision\":\"allow\"}");
  entry.stage = "end";
  entry.duration = std::chrono::milliseconds(3);
  const std::string line = FormatAuditLine(entry, {}, 4);
  EXPECT_NE(line.find("\"durationMicros\":3000,\"dropped\":4}"), std::string::npos) << line;
}

TEST(AuditTest, WhoCameOverTheNetworkHasANameInPlaceOfAUid) {
  AuditEntry entry{.stage = "begin", .id = 7, .user = "system:\"x\"", .from = "192.0.2.1:4711"};
  EXPECT_EQ(FormatAuditLine(entry, WallTime{std::chrono::seconds(1)}, 0),
            "{\"time\":\"1970-01-01T00:00:01.000000000Z\",\"stage\":\"begin\",\"id\":7,"
            "\"user\":\"system:\\\"x\\\"\",\"from\":\"192.0.2.1:4711\",\"decision\":\"allow\"}");
}

TEST(AuditTest, RotatesAndCountsWhatItDropped) {
  std::string root = std::filesystem::temp_directory_path() / "holdfast-audit-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  const SystemClock clock;
  const std::string directory = root + "/audit";
  AuditLog log(directory + "/audit.log", 1000, 3, clock);
  // A file where the directory should be: nothing can be written.
  std::ofstream(directory) << "x";
  log.Write({.stage = "begin"});
  EXPECT_EQ(log.dropped(), 1u);
  std::filesystem::remove(directory);
  log.Write({.stage = "begin"});
  EXPECT_NE(ReadText(directory + "/audit.log").find("\"dropped\":1"), std::string::npos);
  for (int i = 0; i < 100; ++i) log.Write({.stage = "begin", .id = 1});
  EXPECT_TRUE(std::filesystem::exists(directory + "/audit.log.2"));
  EXPECT_FALSE(std::filesystem::exists(directory + "/audit.log.3"));
  EXPECT_LE(std::filesystem::file_size(directory + "/audit.log"), 1000u);
  EXPECT_EQ(log.dropped(), 1u);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace holdfast::agent::access
