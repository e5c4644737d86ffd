// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/kernel_text/targets.h"

#include <set>
#include <string>

#include "agent/stats/machine_stats.h"
#include "runtime/cgroup/further.h"
#include "runtime/cgroup/naming.h"
#include "runtime/cgroup/statistics.h"
#include "runtime/plan/filesystem.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

void CheckHierarchies(std::string_view input) {
  const std::string_view mountinfo = input.substr(0, input.find('\0'));
  const std::string_view existing = input.substr(std::min(mountinfo.size() + 1, input.size()));
  for (const runtime::CgroupMount& mount : runtime::ParseCgroupMounts(mountinfo)) {
    Require(mount.mount_point.size() <= mountinfo.size(), "a place is a part of its line", input);
  }
  const auto found = runtime::FindFurther(
      mountinfo, existing, "/sys/fs/cgroup", {"0:30"},
      [](const runtime::CgroupMount& mount) { return mount.unified ? "" : "read-only"; });
  for (const runtime::CgroupHierarchy& hierarchy : found.joined) {
    Require(hierarchy.unified, "what cannot be used is not joined", input);
  }
}

void CheckOptions(std::string_view input) {
  const std::string options = runtime::Cgroup2Options(input);
  Require(options.size() <= input.size(), "options are those of the text", input);
  Require(options.find_first_of(" \n/") == std::string::npos, "only known words are taken", input);
}

void CheckNames(std::string_view input) {
  for (const auto naming : {runtime::CgroupNaming::kCgroupfs, runtime::CgroupNaming::kSystemd}) {
    if (const auto id = runtime::ParseContainerDirName(naming, input)) {
      Require(runtime::ContainerDirName(naming, *id) == input, "a name is made again", input);
    }
    (void)runtime::ParsePodDirName(naming, model::QosClass::kBurstable, input);
  }
}

}  // namespace

void FuzzKernelText(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<unsigned char>(input[0]) % 5;
  input.remove_prefix(1);
  switch (kind) {
    case 0:
      return CheckHierarchies(input);
    case 1:
      return CheckOptions(input);
    case 2:
      return CheckNames(input);
    case 3:
      (void)runtime::ParsePressure(std::string(input));
      return;
    default:
      (void)agent::ParseInterfaces(std::string(input));
      (void)agent::ParseMachineMemory(std::string(input));
      (void)agent::BusyNanos(std::string(input), 100);
  }
}

}  // namespace holdfast::fuzz
