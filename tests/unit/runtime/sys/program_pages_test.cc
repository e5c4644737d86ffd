// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/program_pages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

namespace holdfast::sys {
namespace {

// KiB of files that are mapped.
long MappedFiles() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssFile:")) return std::stol(line.substr(8));
  }
  return -1;
}

struct Shape {
  virtual ~Shape() = default;
  virtual int Corners() const = 0;
};
struct Square : Shape {
  int Corners() const override { return 4; }
};

int g_written = 1;
const char* const volatile g_relocated = "relocated";

TEST(ProgramPagesTest, OnlyWhatIsUsedAgainComesBack) {
  g_written = 2;
  const std::unique_ptr<Shape> shape = std::make_unique<Square>();
  const long before = MappedFiles();
  UnmapProgramPages();
  const long after = MappedFiles();
  EXPECT_GT(before, 0);
  EXPECT_LT(after, before * 3 / 4);
  // Nothing that was written since the start, by the loader or by us, is gone.
  EXPECT_EQ(g_written, 2);
  EXPECT_STREQ(g_relocated, "relocated");
  EXPECT_EQ(shape->Corners(), 4);
  EXPECT_THROW(throw std::string("unwinds"), std::string);
}

}  // namespace
}  // namespace holdfast::sys
