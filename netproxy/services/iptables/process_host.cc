// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/lock_file.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/sysctl.h"
#include "netproxy/services/iptables/command.h"
#include "netproxy/services/iptables/host.h"
#include "netproxy/services/iptables/saved.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr std::chrono::seconds kSaveLimit{300};
// A busy machine's slowest: 50 KB of rules a second.
std::chrono::seconds RestoreLimit(const std::string& text) {
  return std::chrono::seconds(60 + text.size() / 50'000);
}
constexpr const char* kLockSeconds = "5";  // how long the legacy programs wait for their lock
// For a program of a former agent to end.
constexpr std::chrono::seconds kFormerLimit{10};

bool IsOnPath(const std::string& program) {
  const char* path = ::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view dir = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), dir.size() + 1));
    if (::access(StrCat(dir, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

// Both programs of a family or none.
Programs Find(const std::string& name) {
  Programs programs;
  programs.name = name;
  const std::string infix = name.empty() ? "" : StrCat("-", name);
  for (const int v6 : {0, 1}) {
    const std::string base = StrCat(v6 ? "ip6tables" : "iptables", infix);
    if (!IsOnPath(base + "-restore") || !IsOnPath(base + "-save")) continue;
    programs.restore[v6] = base + "-restore";
    programs.save[v6] = base + "-save";
  }
  programs.nf_tables = name == "nft";
  return programs;
}

// The line that says what is wrong: the last one without advice how to use the program.
std::string Reason(const CommandOutput& output) {
  std::string reason;
  std::string_view rest = output.err;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.empty() || line.starts_with("Try `") || line.starts_with("# Warning")) continue;
    if (!reason.empty() && line.starts_with("Error occurred")) continue;
    reason = line;
  }
  return reason.empty() ? StrCat("status ", output.status) : reason;
}

class ProcessHost : public XtablesHost {
 public:
  ProcessHost(Programs programs, HostOptions options)
      : programs_(std::move(programs)), options_(std::move(options)) {}

  Result<std::string> Save(bool v6) override {
    const std::string& program = programs_.save[v6 ? 1 : 0];
    if (program.empty()) return Missing(v6);
    RETURN_IF_ERROR(Lock());
    if (options_.witness) options_.witness->Reading(v6);
    ASSIGN_OR_RETURN(CommandOutput output, RunCommand({program}, "", kSaveLimit));
    if (output.status != 0) return Internal(StrCat(program, ": ", Reason(output)));
    return std::move(output.out);
  }

  Result<void> Restore(bool v6, const std::string& text) override {
    ASSIGN_OR_RETURN(const UniqueFd lock, Lock());
    CommandExtras extras{lock.get(), {}};
    if (options_.witness) {
      extras.started = [&](pid_t pid) { options_.witness->Writing(v6, pid); };
    }
    HOLDFAST_PAUSE_POINT("iptables.restore.before");
    const auto restored = Run(v6, text, extras);
    if (options_.witness) options_.witness->Written(v6);
    RETURN_IF_ERROR(restored);
    HOLDFAST_PAUSE_POINT("iptables.restore.after");
    return {};
  }

  Result<void> Try(bool v6, const std::string& text) override {
    ASSIGN_OR_RETURN(const NsFd scratch, sys::NewNetworkNamespace());
    return sys::RunInNetworkNamespace(scratch.get(), [&] { return Run(v6, text, {}); });
  }

  Result<std::string> ReadSysctl(const std::string& name) override { return sys::ReadSysctl(name); }
  Result<void> WriteSysctl(const std::string& name, std::string_view value) override {
    return sys::WriteSysctl(name, value);
  }

 private:
  Error Missing(bool v6) const {
    return NotFound(StrCat(v6 ? "ip6tables" : "iptables", programs_.name.empty() ? "" : "-",
                           programs_.name, "-restore: not installed"));
  }

  // Held as long as the descriptor is open anywhere.
  Result<UniqueFd> Lock() const {
    if (options_.lock.empty()) return UniqueFd();
    auto lock = sys::TakeLock(AT_FDCWD, options_.lock, kFormerLimit);
    if (lock || lock.error().code() != Code::kConflict) return lock;
    return Unavailable("iptables: a program that a former agent started still changes rules");
  }

  Result<void> Run(bool v6, const std::string& text, const CommandExtras& extras) {
    const std::string& program = programs_.restore[v6 ? 1 : 0];
    if (program.empty()) return Missing(v6);
    ASSIGN_OR_RETURN(const CommandOutput output,
                     RunCommand({program, "--noflush", "--counters", "-w", kLockSeconds}, text,
                                RestoreLimit(text), extras));
    if (output.status == 0) return {};
    const std::string why = StrCat(program, ": ", Reason(output));
    if (why.find("xtables lock") != std::string::npos) return Unavailable(why);
    if (output.status >= 126) return Internal(why);  // killed, or not run
    return InvalidArgument(why);
  }

  const Programs programs_;
  const HostOptions options_;
};

struct Evidence {
  bool hint = false;
  size_t rules = 0;
};

Result<Evidence> Look(const Programs& programs) {
  Evidence evidence;
  for (const std::string& program : programs.save) {
    if (program.empty()) continue;
    ASSIGN_OR_RETURN(const CommandOutput output, RunCommand({program}, "", kSaveLimit));
    std::string_view rest = output.out;
    while (!rest.empty()) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(rest.size(), line.size() + 1));
      evidence.rules += line.starts_with("-");
      evidence.hint |= line.starts_with(":KUBE-IPTABLES-HINT ");
      evidence.hint |= line.starts_with(":KUBE-KUBELET-CANARY ");
    }
  }
  return evidence;
}

}  // namespace

std::vector<Programs> FindPrograms() {
  std::vector<Programs> out;
  for (const char* name : {"nft", "legacy"}) {
    Programs programs = Find(name);
    if (!programs.restore[0].empty()) out.push_back(std::move(programs));
  }
  if (!out.empty()) return out;
  Programs plain = Find("");
  if (plain.restore[0].empty()) return out;
  const auto version = RunCommand({plain.restore[0], "--version"}, "", kSaveLimit);
  plain.nf_tables = version && version->out.find("(nf_tables)") != std::string::npos;
  out.push_back(std::move(plain));
  return out;
}

Result<Programs> ChoosePrograms() {
  std::vector<Programs> found = FindPrograms();
  if (found.empty()) return NotFound("iptables-restore: not installed");
  Evidence best;
  size_t choice = 0;
  for (size_t i = 0; i < found.size() && found.size() > 1; ++i) {
    ASSIGN_OR_RETURN(const Evidence evidence, Look(found[i]));
    if (evidence.hint > best.hint || (evidence.hint == best.hint && evidence.rules > best.rules)) {
      best = evidence;
      choice = i;
    }
    if (best.hint) break;
  }
  return std::move(found[choice]);
}

std::unique_ptr<XtablesHost> NewProcessHost(Programs programs, HostOptions options) {
  return std::make_unique<ProcessHost>(std::move(programs), std::move(options));
}

}  // namespace holdfast::netproxy::iptables
