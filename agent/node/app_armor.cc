// SPDX-License-Identifier: Apache-2.0
#include "agent/node/app_armor.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "agent/base/bounded_program.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/gather/app_armor.h"

namespace holdfast::agent {
namespace {

constexpr char kSecurityFs[] = "/sys/kernel/security/apparmor";
constexpr char kEnabled[] = "/sys/module/apparmor/parameters/enabled";
constexpr std::chrono::seconds kParserTime{20};

// What a container may not do whatever its capabilities: mount, trace or signal what is not under the same profile, write
// to the node's switches below /proc and /sys. "unconfined" are the node's own processes. What is masked or read-only for
// a container (docs/launch.md) is refused here once more, wherever somebody mounts it anew.
constexpr char kText[] = R"(profile holdfast-default flags=(attach_disconnected, mediate_deleted) {
  network,
  unix,
  capability,
  file,
  umount,

  signal (receive) peer=unconfined,
  signal (send, receive) peer=holdfast-default,
  ptrace (trace, read, tracedby, readby) peer=holdfast-default,

  deny mount,

  # Of /proc: what is no process's, but for kernel/shm*, which is the pod's.
  deny /proc/* w,
  deny /proc/[^0-9s]*/** w,
  deny /proc/s[^y]*/** w,
  deny /proc/sy[^s]*/** w,
  deny /proc/sys[^/]*/** w,
  deny /proc/sys/[^k]** w,
  deny /proc/sys/kernel/[^s]** w,
  deny /proc/sys/kernel/s[^h]** w,
  deny /proc/sys/kernel/sh[^m]** w,
  deny /proc/{kcore,kmem,mem,sysrq-trigger} rwklx,

  # Of /sys: all but fs/cgroup.
  deny /sys/[^f]** wklx,
  deny /sys/f[^s]** wklx,
  deny /sys/fs/[^c]** wklx,
  deny /sys/fs/c[^g]** wklx,
  deny /sys/fs/cg[^r]** wklx,
  deny /sys/{firmware,devices/virtual/powercap,kernel/security}/** rwklx,
}
)";

bool IsLoaded() { return runtime::FindAppArmorProfile(kDefaultAppArmorProfile).has_value(); }

Result<void> LoadProfile(const std::string& parser) {
  // --skip-cache: what the kernel gets is made of this text and nothing else.
  const BoundedProgram program{parser, {"--replace", "--skip-cache", "--quiet"}, {}, kText, ""};
  ASSIGN_OR_RETURN(const sys::Wakeup never, sys::Wakeup::Make());
  auto done = RunBounded(program, never, {kParserTime});
  if (!done) return std::move(done.error()).Wrap(parser);
  return {};
}

}  // namespace

bool HasAppArmor() {
  const auto enabled = sys::ReadFileAt(AT_FDCWD, kEnabled, 64);
  return enabled && enabled->starts_with('Y') && ::access(kSecurityFs, F_OK) == 0;
}

DefaultAppArmor::DefaultAppArmor(std::function<void(const std::string&)> log, std::string parser)
    : log_(std::move(log)), parser_(std::move(parser)) {}

AppArmorOffer DefaultAppArmor::Keep() {
  if (!HasAppArmor()) return {};
  std::string trouble;
  if (!loaded_ || !IsLoaded()) {
    auto loaded = LoadProfile(parser_);
    loaded_ = loaded.has_value();
    if (!loaded) trouble = loaded.error().message();
  }
  // Where it cannot be loaded a former one does.
  const bool offered = loaded_ || IsLoaded();
  Tell(trouble.empty() ? ""
                       : StrCat("AppArmor profile ", kDefaultAppArmorProfile, ": ", trouble,
                                offered ? "; a former one stays in force"
                                        : "; containers that name no profile run unconfined"));
  return {true, offered ? kDefaultAppArmorProfile : "", offered ? "" : trouble};
}

void DefaultAppArmor::Tell(const std::string& line) {
  if (line != told_ && !line.empty()) log_(line);
  told_ = line;
}

}  // namespace holdfast::agent
