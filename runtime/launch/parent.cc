// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/parent.h"

#include <fcntl.h>
#include <linux/sched.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"

namespace holdfast::runtime {
namespace {

int FdAt(std::span<const UniqueFd> fds, model::FdIndex index) {
  return index == model::kNoFd ? -1 : fds[static_cast<size_t>(index)].get();
}

std::string MapText(const std::vector<model::IdMapEntry>& map) {
  std::string text;
  for (const model::IdMapEntry& entry : map) {
    text += StrCat(entry.inside, " ", entry.outside, " ", entry.count, "\n");
  }
  return text;
}

}  // namespace

bool HasSuccessor(const model::Plan& plan) {
  const auto* container = std::get_if<model::LaunchPlan>(&plan);
  return container != nullptr && container->namespaces.user != model::kNoFd &&
         container->namespaces.pid == model::kNoFd;
}

bool IsBornLate(const model::Plan& plan) {
  if (const auto* container = std::get_if<model::LaunchPlan>(&plan)) {
    return container->namespaces.pid != model::kNoFd;
  }
  return std::holds_alternative<model::ExecPlan>(plan);
}

bool WaitsForGo(const model::Plan& plan) {
  const auto* sandbox = std::get_if<model::SandboxPlan>(&plan);
  return sandbox == nullptr || !sandbox->uid_map.empty() || sandbox->init_binary != model::kNoFd;
}

const model::CgroupPlan& CgroupOf(const model::Plan& plan) {
  if (const auto* container = std::get_if<model::LaunchPlan>(&plan)) return container->cgroup;
  if (const auto* exec = std::get_if<model::ExecPlan>(&plan)) return exec->cgroup;
  return std::get<model::SandboxPlan>(plan).init_cgroup;
}

bool MayRunAhead(const model::Plan& plan) {
  if (const auto* container = std::get_if<model::LaunchPlan>(&plan)) {
    return container->namespaces.user == model::kNoFd;
  }
  if (const auto* exec = std::get_if<model::ExecPlan>(&plan)) return !exec->join_user;
  const auto* sandbox = std::get_if<model::SandboxPlan>(&plan);
  return sandbox == nullptr || sandbox->uid_map.empty();
}

uint64_t CloneFlags(const model::Plan& plan) {
  uint64_t flags = 0;
  if (const auto* container = std::get_if<model::LaunchPlan>(&plan)) {
    if (container->namespaces.new_pid) flags |= CLONE_NEWPID;
    if (container->namespaces.new_time) flags |= CLONE_NEWTIME;
  } else if (const auto* sandbox = std::get_if<model::SandboxPlan>(&plan)) {
    if (!sandbox->uid_map.empty()) flags |= CLONE_NEWUSER;
    if (sandbox->init_binary != model::kNoFd) flags |= CLONE_NEWPID;
  }
  return flags;
}

int CgroupToEnter(const model::Plan& plan, std::span<const UniqueFd> fds) {
  return FdAt(fds, CgroupOf(plan).unified);
}

Result<void> WriteIdMaps(const LaunchContext& context, const model::Plan& plan, pid_t pid) {
  const auto* sandbox = std::get_if<model::SandboxPlan>(&plan);
  if (sandbox == nullptr || sandbox->uid_map.empty()) return {};
  const int proc = context.proc.get();
  RETURN_IF_ERROR(sys::WriteControlAt(proc, StrCat(pid, "/uid_map"), MapText(sandbox->uid_map)));
  return sys::WriteControlAt(proc, StrCat(pid, "/gid_map"), MapText(sandbox->gid_map));
}

}  // namespace holdfast::runtime
