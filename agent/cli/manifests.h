// SPDX-License-Identifier: Apache-2.0
// -f: the files that its values name, in order.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

struct ManifestText {
  std::string origin;  // as messages call it
  std::string text;
};

// Each of `names`: a file, "-" (stdin), or a directory: its *.yaml, *.yml and *.json, sorted, and
// with `recursive` those of its sub-directories. kResourceExhausted above 4 MiB per file.
Result<std::vector<ManifestText>> ReadManifests(const std::vector<std::string>& names,
                                                bool recursive);

}  // namespace holdfast::agent::cli
