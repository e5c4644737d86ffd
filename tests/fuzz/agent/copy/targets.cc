// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/copy/targets.h"

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "agent/cli/tar_extract.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

namespace fs = std::filesystem;

void FuzzTarCopy(std::string_view input) {
  std::string top = fs::temp_directory_path() / "holdfast-fuzz-copy-XXXXXX";
  Require(::mkdtemp(top.data()) != nullptr, "a directory", input);
  fs::create_directory(top + "/to");
  std::string_view left = input;
  const auto next = [&left]() -> Result<std::string_view> {
    const std::string_view piece = left.substr(0, 512);
    left.remove_prefix(piece.size());
    return piece;
  };
  // Whatever becomes of it.
  (void)agent::cli::ExtractTar(
      next, {.prefix = "d", .destination = top + "/to", .warn = [](const std::string&) {}});
  for (const auto& entry : fs::directory_iterator(top)) {
    Require(entry.path().filename() == "to", "nothing is beside the destination", input);
  }
  for (const auto& entry : fs::recursive_directory_iterator(top + "/to")) {
    const auto status = entry.symlink_status();
    Require(fs::is_regular_file(status) || fs::is_directory(status), "files and directories only",
            input);
  }
  fs::remove_all(top);
}

}  // namespace holdfast::fuzz
