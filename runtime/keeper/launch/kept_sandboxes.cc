// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/launch/kept_sandboxes.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/process.h"

namespace holdfast::runtime::keeper {
namespace {

// By this thread, the only one, which then goes back to `own`: a process that could not would start all that follows in a pod's
// namespace, so it ends instead, and another launcher comes.
Result<void> NameHostIn(int uts, int own, const std::string& name) {
  RETURN_IF_ERROR(sys::JoinNamespace(uts, CLONE_NEWUTS, "to a member's uts namespace"));
  const int failed = ::sethostname(name.data(), name.size()) == 0 ? 0 : errno;
  if (::setns(own, CLONE_NEWUTS) != 0) ::_exit(1);
  if (failed == 0) return {};
  return Error::FromErrno(failed, StrCat("sethostname ", name));
}

}  // namespace

bool KeptSandboxes::Has(const SandboxName& sandbox) const {
  const std::vector<std::string> keys = store_.Keys(SandboxPrefix(sandbox));
  const auto first = keys.empty() ? std::nullopt : ParseSandboxKey(keys.front());
  return first && first->total == keys.size();
}

// Its own copies first: the successor of a holder that dies finds them here by their new name, and
// that of a launcher that dies before the holder was told finds them there by the old one.
bool KeptSandboxes::TakeMember(const SandboxName& member, const SandboxName& pod,
                               const std::string& hostname) {
  if (!Has(member)) return false;
  if (!NameHost(member, hostname)) return false;
  HOLDFAST_PAUSE_POINT("launcher.member-named");
  const std::string from = SandboxPrefix(member);
  const std::string to = SandboxPrefix(pod);
  store_.Rename(from, to);
  HOLDFAST_PAUSE_POINT("launcher.member-taken");
  holder_.Rename(from, to);
  HOLDFAST_PAUSE_POINT("launcher.member-given");
  return true;
}

Result<void> KeptSandboxes::NameHost(const SandboxName& sandbox,
                                     const std::string& hostname) const {
  if (hostname.empty()) return {};
  const Parts parts = PartsOf(sandbox);
  const auto uts = std::ranges::find(parts.names, "uts");
  if (uts == parts.names.end()) return NotFound("sandbox: it has no uts namespace");
  return NameHostIn(parts.fds[static_cast<size_t>(uts - parts.names.begin())], own_uts_.get(),
                    hostname);
}

void KeptSandboxes::Keep(const SandboxName& sandbox, SandboxFds made, PidFd init) {
  std::vector<std::pair<const char*, UniqueFd>> parts;
  const auto add = [&parts](const char* name, UniqueFd fd) {
    if (fd) parts.emplace_back(name, std::move(fd));
  };
  add("net", std::move(made.network));
  add("ipc", std::move(made.ipc));
  add("uts", std::move(made.uts));
  add("user", std::move(made.user));
  add("init", std::move(init));
  add("pid", std::move(made.pid));
  add("shm", std::move(made.shm));
  add("proc", std::move(made.proc));
  for (auto& [name, fd] : parts) {
    const std::string key = MakeSandboxKey({sandbox, parts.size(), name});
    FdStore::Fds fds;
    fds.push_back(std::move(fd));
    if (!store_.Put(key, std::move(fds))) continue;  // keys made here are valid
    HOLDFAST_PAUSE_POINT("launcher.namespace-kept");
    holder_.Put(key, Borrow(*store_.Find(key)));
  }
}

KeptSandboxes::Parts KeptSandboxes::PartsOf(const SandboxName& sandbox) const {
  Parts parts;
  for (const std::string& key : store_.Keys(SandboxPrefix(sandbox))) {
    auto parsed = ParseSandboxKey(key);
    if (!parsed) continue;
    parts.names.push_back(std::move(parsed->name));
    parts.fds.push_back(store_.Find(key)->front().get());
  }
  return parts;
}

}  // namespace holdfast::runtime::keeper
