// SPDX-License-Identifier: Apache-2.0
// What the parts of the runtime share. Made once, before any of them; each member is thread-safe.
#pragma once

#include <memory>

#include "holdfast/base/clock.h"
#include "holdfast/sys/probe.h"
#include "runtime/cgroup/tree.h"
#include "runtime/containers/options.h"
#include "runtime/containers/pod_locks.h"
#include "runtime/containers/table.h"
#include "runtime/gather/prepare.h"
#include "runtime/keeper/client/client.h"
#include "runtime/state/store.h"

namespace holdfast::runtime {

struct Parts {
  RuntimeOptions options;
  sys::HostFacts facts;
  StateStore state;
  std::unique_ptr<CgroupTree> cgroups;
  keeper::KeeperClient keeper;
  IdRanges ids;
  SystemClock clock;
  ContainerTable table;
  PodLocks pod_locks;
};

// Descriptors as a plan wants them: of `cgroup`, and of `container` in the hierarchies where `cgroup` is not.
// `owned` keeps what had to be opened for it alive; the rest borrows from these two.
Result<void> AddCgroup(const CgroupLayout& layout, const Cgroup& cgroup, const Cgroup& container,
                       PodDescriptors& pod, std::vector<UniqueFd>& owned);

// With a user namespace the process cannot take what another user made: the pipes of `pod` become
// its own here, so that it may open /dev/stdin and its like.
Result<void> GiveStreams(const PodDescriptors& pod, const PreparedPlan& prepared);

// A launch that failed for want of processes (EAGAIN) says whose limit it was.
Error ExplainLaunch(Parts& parts, const PodUid& uid, model::QosClass qos,
                    const keeper::LaunchFailure& failure);

// Where the keeper holds the write end of a container's standard input.
std::string StdinKey(const ContainerId& id);

// What the first process of a container is in ("net", as below /proc/PID/ns): that process', if it runs still afterwards
// (HasEnded).
Result<UniqueFd> OpenNamespace(const TableEntry& container, const char* name);

// A plan as the keeper takes it.
Result<UniqueFd> SealPlan(const model::Plan& plan);

}  // namespace holdfast::runtime
