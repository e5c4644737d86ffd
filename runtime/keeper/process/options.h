// SPDX-License-Identifier: Apache-2.0
// Command line of holdfast-keeper. The three subcommands share one set of options.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::keeper {

struct Options {
  std::string command;               // "hold", "launch", "log"
  std::string run_dir;               // --run-dir
  std::vector<std::string> visible;  // --visible, repeated: what the launcher's namespace shows
  unsigned generation = 0;           // --generation, launch only
  int resume = -1;                   // --resume, after an in-place upgrade

  // The same as a command line, --resume left out.
  std::vector<std::string> ToArguments() const;
};

Result<Options> ParseOptions(int argc, char** argv);

}  // namespace holdfast::runtime::keeper
