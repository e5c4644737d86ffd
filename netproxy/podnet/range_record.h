// SPDX-License-Identifier: Apache-2.0
// RangeRecord: which address ranges the pods of this node have and had, and where they go with their own address; kept on
// disk, so that a start that cannot ask the API server knows them. A file of lines "own 10.244.1.0/24",
// "former 10.244.0.0/24", "direct 10.244.0.0/16".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::netproxy {

struct RangeRecord {
  std::vector<Cidr> own;     // new pods get addresses of these, at most one per family
  std::vector<Cidr> former;  // pods that are still there may have addresses of these
  std::vector<Cidr> direct;
  bool operator==(const RangeRecord&) const = default;
};

// `own` becomes what new pods get, and what it takes the place of is former.
RangeRecord Renewed(RangeRecord record, std::vector<Cidr> own);

std::string FormatRanges(const RangeRecord& record);
// kInvalidArgument names the line.
Result<RangeRecord> ParseRanges(std::string_view text);

// Nothing when there is none yet.
Result<RangeRecord> LoadRanges(const DirFd& directory);
Result<void> SaveRanges(const DirFd& directory, const RangeRecord& record);

}  // namespace holdfast::netproxy
