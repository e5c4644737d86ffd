// SPDX-License-Identifier: Apache-2.0
// The outer tar of an image archive (docker-archive, OCI layout): its files under plain numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::unpack {

struct SplitLimits {
  uint64_t members = 20'000;
  uint64_t bytes = 64ull << 30;
};

struct SplitArchive {
  std::vector<std::string> files;                          // name of the file "0", "1", …
  std::vector<std::pair<std::string, std::string>> links;  // name, target as written
};

// Whether the tar on `fd` is an image archive: has a file manifest.json or oci-layout at the top.
Result<bool> IsImageArchive(int fd);

// Writes every regular member into `directory` as "0", "1", …. Two members of one name, and every
// kind of member but files, directories and links, are kInvalidArgument.
Result<SplitArchive> SplitImageArchive(int fd, int directory, const SplitLimits& limits);

}  // namespace holdfast::runtime::unpack
