// SPDX-License-Identifier: Apache-2.0
// What a pod was made from, as it is kept on the disk beside the pod's record, so that the pod can be made again while the
// API server cannot be asked: ConfigMaps, claims and their volumes, classes of runtime, variables of Services, which optional objects were absent; Secrets only where
// the configuration says so; tokens never. Pure; thread-safe. The text is trusted as the pod's record is: root's, 0600.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct KeptInputs {
  std::map<ObjectRef, std::shared_ptr<const ObjectData>> objects;
  std::set<ObjectRef> absent;
  std::optional<std::vector<std::string>> variables;
};

// Of a text that is kept.
inline constexpr size_t kMostKept = 4u << 20;

// What is known of the pod's references now; nullopt while some of it is not, or is itself of the disk.
std::optional<KeptInputs> CollectInputs(const corev1::Pod& pod, const PodInputs& inputs,
                                        bool with_secrets);

std::string EncodeKept(const KeptInputs& kept);
// kInvalidArgument for what EncodeKept() did not write whole.
Result<KeptInputs> DecodeKept(const std::string& text);

}  // namespace holdfast::agent
