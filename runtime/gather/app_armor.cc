// SPDX-License-Identifier: Apache-2.0
#include "runtime/gather/app_armor.h"

#include <fcntl.h>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::runtime {
namespace {

constexpr char kLoadedProfiles[] = "/sys/kernel/security/apparmor/profiles";
constexpr size_t kMaxLoadedProfiles = 4 << 20;

}  // namespace

bool ListsAppArmorProfile(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t end = list.find('\n');
    const std::string_view line = list.substr(0, end);
    list = end == std::string_view::npos ? std::string_view() : list.substr(end + 1);
    // A name may have blanks and brackets of its own.
    if (line.substr(0, line.rfind(" (")) == name) return true;
  }
  return false;
}

Result<void> FindAppArmorProfile(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string list,
                   sys::ReadFileAt(AT_FDCWD, kLoadedProfiles, kMaxLoadedProfiles));
  if (ListsAppArmorProfile(list, name)) return {};
  return NotFound(StrCat("apparmor profile not found ", name));
}

}  // namespace holdfast::runtime
