// SPDX-License-Identifier: Apache-2.0
// Whether the kernel can do IPVS with this scheduler, found by trying: a list of loaded modules
// tells neither what is built in nor what the kernel loads by itself.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "netproxy/services/ipvs/options.h"

namespace holdfast::netproxy::ipvs {

// Makes a virtual server of the scheduler in an empty network namespace, which is gone afterwards.
// kNotFound names each missing module, tells whether this kernel has it, and what to write
// where.
Result<void> CheckKernel(const IpvsOptions& options);

// What the files of a kernel's modules say of one.
enum class ModuleFile { kPresent, kAbsent, kUnknown };
struct MissingModule {
  std::string name;  // "ip_vs_rr"
  ModuleFile file = ModuleFile::kUnknown;
};
std::string DescribeMissing(const std::vector<MissingModule>& modules, const std::string& release);

}  // namespace holdfast::netproxy::ipvs
