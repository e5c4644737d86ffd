// SPDX-License-Identifier: Apache-2.0
// Kernel parameters and IPVS timeouts that the mode needs. What they were before is kept in a file
// before they change, and comes back with Restore(), by whatever process. Of the calling thread's
// network namespace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "netproxy/services/ipvs/kernel.h"
#include "netproxy/services/ipvs/options.h"

namespace holdfast::netproxy::ipvs {

class Parameters {
 public:
  // `directory` "": nothing is remembered and nothing restored.
  explicit Parameters(std::string directory) : directory_(std::move(directory)) {}

  Result<void> Set(const IpvsOptions& options, IpvsKernel& kernel);
  // `kernel` null: there is no IPVS, and none of its parameters.
  Result<void> Restore(IpvsKernel* kernel);

 private:
  using Saved = std::vector<std::pair<std::string, std::string>>;
  Result<void> SetSysctl(const std::string& name, const std::string& value, Saved& saved);
  Result<Saved> Load() const;
  // The first value that was seen stays.
  Result<void> Remember(const std::string& name, const std::string& value, Saved& saved);

  std::string directory_;
};

}  // namespace holdfast::netproxy::ipvs
