// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/probe.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/netns.h"
#include "holdfast/sys/spawn.h"
#include "netproxy/services/ipvs/kernel.h"

namespace holdfast::netproxy::ipvs {
namespace {

constexpr size_t kMaxList = 16 << 20;

std::string Release() {
  utsname name{};
  ::uname(&name);
  return name.release;
}

ModuleFile FindModule(const std::string& name, const std::string& release) {
  const std::string folder = StrCat("/lib/modules/", release, "/");
  bool listed = false;
  for (const char* list : {"modules.dep", "modules.builtin"}) {
    auto text = sys::ReadFileAt(AT_FDCWD, folder + list, kMaxList);
    if (!text) continue;
    listed = true;
    if (text->find(StrCat("/", name, ".ko")) != std::string::npos) return ModuleFile::kPresent;
  }
  return listed ? ModuleFile::kAbsent : ModuleFile::kUnknown;
}

// As the kernel does it by itself when a virtual server is added; but it does so with IPVS' lock held, and a network namespace
// that is taken down meanwhile waits for that lock while it holds the one that lblc and lblcr need: from then on no namespace
// goes on that machine (seen on 6.12). Ignored: where this fails the kernel tries.
void LoadModule(const std::string& name) {
  auto helper = sys::ReadFileAt(AT_FDCWD, "/proc/sys/kernel/modprobe", PATH_MAX);
  const UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!helper || !nowhere) return;
  while (helper->ends_with('\n')) helper->pop_back();
  if (helper->empty()) return;  // this node loads none
  char* const no_environment[] = {nullptr};
  const sys::ChildFds fds{.in = nowhere.get(), .out = nowhere.get(), .err = nowhere.get()};
  const auto pid = sys::Spawn({*helper, "-q", "--", name}, fds, no_environment);
  while (pid && ::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) continue;
}

// TEST-NET-2, as kube-proxy probes with.
Operation ProbeServer(const std::string& scheduler) {
  Operation operation;
  operation.key.protocol = 6;
  operation.key.address.bytes = {198, 51, 100, 0};
  operation.key.port = 20000;
  operation.config.scheduler = scheduler;
  return operation;
}

Result<std::vector<std::string>> MissingHere(const std::string& scheduler) {
  const std::string module = "ip_vs_" + scheduler;
  auto kernel = IpvsKernel::Open();
  if (!kernel && kernel.error().code() == Code::kNotFound) {
    return std::vector<std::string>{"ip_vs", module};
  }
  if (!kernel) return std::move(kernel.error());
  ASSIGN_OR_RETURN(const std::vector<int> errors, kernel->Send(std::array{ProbeServer(scheduler)}));
  if (errors[0] == ENOENT) return std::vector<std::string>{module};
  // At once, and not with the namespace some time later: whoever lists virtual servers meanwhile,
  // in whatever namespace, would miss one (IpvsKernel::ListVirtuals).
  Operation away = ProbeServer(scheduler);
  away.kind = Operation::Kind::kDeleteVirtual;
  auto deleted = kernel->Send(std::array{away});
  if (!deleted) return std::move(deleted.error());
  if (errors[0] != 0) {
    return Error::FromErrno(errors[0], "ipvs: add a virtual server with scheduler " + scheduler);
  }
  return std::vector<std::string>();
}

}  // namespace

std::string DescribeMissing(const std::vector<MissingModule>& modules, const std::string& release) {
  std::string not_loaded;
  std::string absent;
  std::string lines;
  for (const MissingModule& module : modules) {
    if (module.file == ModuleFile::kAbsent) {
      absent += StrCat(absent.empty() ? "" : ", ", module.name);
      continue;
    }
    not_loaded += StrCat(not_loaded.empty() ? "" : ", ", module.name);
    lines += StrCat(lines.empty() ? "" : "\\n", module.name);
  }
  std::string out;
  if (!absent.empty()) out = StrCat("not in this kernel (", release, "): ", absent);
  if (not_loaded.empty()) return out;
  return StrCat(out, out.empty() ? "" : "; ", "not loaded: ", not_loaded, " (printf '", lines,
                "\\n' > /etc/modules-load.d/holdfast-ipvs.conf, then restart "
                "systemd-modules-load)");
}

Result<void> CheckKernel(const IpvsOptions& options) {
  auto flags = SchedulerFlags(options);
  if (!flags) return std::move(flags.error());
  LoadModule("ip_vs_" + options.scheduler);
  ASSIGN_OR_RETURN(const NsFd empty, sys::NewNetworkNamespace());
  std::vector<std::string> missing;
  RETURN_IF_ERROR(sys::RunInNetworkNamespace(empty.get(), [&]() -> Result<void> {
    ASSIGN_OR_RETURN(missing, MissingHere(options.scheduler));
    return {};
  }));
  if (missing.empty()) return {};
  const std::string release = Release();
  std::vector<MissingModule> modules;
  for (const std::string& name : missing) modules.push_back({name, FindModule(name, release)});
  return NotFound(DescribeMissing(modules, release));
}

}  // namespace holdfast::netproxy::ipvs
