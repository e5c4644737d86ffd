// SPDX-License-Identifier: Apache-2.0
// SELinux labels of a pod's containers: what they ask for and the node's policy offers, put together. Pure. Sources:
// selinux(8); containerd 2.4, internal/cri/server; github.com/opencontainers/selinux 1.15, go-selinux.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/model/selinux.h"

namespace holdfast::runtime {

inline constexpr uint32_t kSelinuxCategories = 1024;

// Lines `KEY = "LABEL"` of the policy's lxc_contexts; others are left out.
model::SelinuxContexts ParseSelinuxContexts(std::string_view text);

// SELINUXTYPE of /etc/selinux/config; "targeted" where it names none.
std::string ParseSelinuxType(std::string_view config);

// The pod's level: what its options name, else "s0:cA,cB" of two categories that no other pod has. "" where the policy has
// no levels. `random` gives any number, `taken` tells whether another pod has a level.
Result<std::string> ChooseSelinuxLevel(const model::SelinuxContexts& node,
                                       const model::SelinuxOptions& pod,
                                       const std::function<uint32_t()>& random,
                                       const std::function<bool(const std::string&)>& taken);

// `asked`: the container's options; `level`: its pod's. A privileged container's processes are under no label of their own;
// its files are labelled. kInvalidArgument: a level of a wrong form, in containerd's words, or a part that no label can have;
// kUnsupported: options on a node whose policy has no labels for containers; kUnavailable: and
// on one whose policy had none when the pod got its level.
Result<model::SelinuxLabels> CompileSelinuxLabels(const model::SelinuxContexts& node,
                                                  const model::SelinuxOptions& asked,
                                                  const std::string& level, bool privileged);

}  // namespace holdfast::runtime
