// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/capabilities.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

// By number, capabilities(7).
constexpr std::string_view kNames[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

// containerd's default set.
constexpr std::string_view kDefault[] = {
    "CHOWN",  "DAC_OVERRIDE", "FSETID",  "FOWNER",           "MKNOD",      "NET_RAW", "SETGID",
    "SETUID", "SETFCAP",      "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL",    "AUDIT_WRITE",
};

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return upper;
}

bool HasAll(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& name) { return Upper(name) == "ALL"; });
}

// The single names, without "ALL".
Result<uint64_t> Mask(const std::vector<std::string>& names) {
  uint64_t mask = 0;
  for (const std::string& name : names) {
    if (Upper(name) == "ALL") continue;
    const int number = CapabilityNumber(name);
    if (number < 0) return InvalidArgument(StrCat("unknown capability \"", name, "\""));
    mask |= 1ull << number;
  }
  return mask;
}

}  // namespace

int CapabilityNumber(std::string_view name) {
  const std::string upper = Upper(name);
  std::string_view bare = upper;
  if (bare.starts_with("CAP_")) bare.remove_prefix(4);
  const auto* found = std::ranges::find(kNames, bare);
  return found == std::end(kNames) ? -1 : static_cast<int>(found - std::begin(kNames));
}

std::string CapabilityName(int number) {
  return StrCat("CAP_", kNames[static_cast<size_t>(number)]);
}

uint64_t DefaultCapabilities() {
  uint64_t mask = 0;
  for (const std::string_view name : kDefault) mask |= 1ull << CapabilityNumber(name);
  return mask;
}

Result<uint64_t> CompileCapabilities(const model::SecuritySpec& security,
                                     const sys::HostFacts& facts,
                                     std::vector<std::string>& warnings) {
  if (security.privileged) return facts.capabilities;
  uint64_t set = DefaultCapabilities();
  if (HasAll(security.add_capabilities)) set = facts.capabilities;
  if (HasAll(security.drop_capabilities)) set = 0;
  ASSIGN_OR_RETURN(const uint64_t add, Mask(security.add_capabilities));
  ASSIGN_OR_RETURN(const uint64_t drop, Mask(security.drop_capabilities));
  set = (set | add) & ~drop;
  const uint64_t missing = add & ~drop & ~facts.capabilities;
  for (int number = 0; number < static_cast<int>(std::size(kNames)); ++number) {
    if ((missing >> number & 1) != 0) {
      warnings.push_back(
          StrCat("capability ", CapabilityName(number), ": not available on this host"));
    }
  }
  return set & facts.capabilities;
}

}  // namespace holdfast::runtime
