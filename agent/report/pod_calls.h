// SPDX-License-Identifier: Apache-2.0
// What is asked of an API server about one pod, and what its answers hold. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/kube/types_fwd.h"
#include "holdfast/base/ids.h"

namespace holdfast::agent {

using PodPtr = std::shared_ptr<const corev1::Pod>;

// Its resourceVersion as a number; 0: none that is known.
uint64_t VersionOf(const corev1::Pod& pod);

std::string PathOf(const corev1::Pod& pod);

// The end of its object, at once, and of no other one of its name.
ApiCall DeleteNow(const std::string& path, const PodUid& uid);

// The pod in an answer, without what nobody asks of it here; null when there is none.
PodPtr PodIn(const ApiReply& reply);

// It may do later what it does not do now.
bool IsPassing(const ApiReply& reply);

// Another pod has the name.
bool IsOfAnother(const ApiReply& reply);

}  // namespace holdfast::agent
