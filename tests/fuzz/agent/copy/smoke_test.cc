// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/cli/tar_writer.h"
#include "tests/fuzz/agent/copy/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

namespace fs = std::filesystem;

std::string Tar(const std::string& path, const std::string& name) {
  std::string tar;
  EXPECT_TRUE(agent::cli::WriteTarAs(path, name, [&tar](std::string_view bytes) {
    tar += bytes;
    return true;
  }));
  return tar;
}

TEST(FuzzSmokeTest, TarCopy) {
  std::string top = fs::temp_directory_path() / "holdfast-fuzz-tar-XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  std::ofstream(top + "/f") << "text";
  fs::create_directory(top + "/d");
  fs::create_symlink("/etc", top + "/d/l");
  Replay(FuzzTarCopy,
         {Tar(top + "/f", "d/f") + Tar(top + "/f", "d/../../f"), Tar(top + "/d", "d"),
          Tar(top + "/f", "d/" + std::string(150, 'x'))},
         "./\0d5120");
  fs::remove_all(top);
}

}  // namespace
}  // namespace holdfast::fuzz
