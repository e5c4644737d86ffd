// SPDX-License-Identifier: Apache-2.0
// Deletion of an object whose manifest lies in a file.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/operate/node_operations.h"
#include "agent/view/pod_view.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// What a deletion does.
struct DeletionSteps {
  // ManifestEditor::Delete.
  std::function<Result<EditedObject>(const std::string& kind, const std::string& object_namespace,
                                     const std::string& name)>
      remove_manifest;
  // PodTable::SetDeletionGrace. Empty: a deletion with a grace period is kUnsupported.
  std::function<void(const PodUid&, std::optional<std::chrono::seconds>)> set_grace;
};

// The running pod of a manifest: `name` with or without the node's suffix. Null: it does not run.
PodPtr FindPodOfManifest(const PodView& pods, const std::string& node_name,
                         const std::string& pod_namespace, const std::string& name);

// kInvalidArgument for a grace period that is negative, or not a pod's.
Result<EditedObject> DeleteObject(const PodView& pods, const std::string& node_name,
                                  const DeletionSteps& steps, const Deletion& deletion);

}  // namespace holdfast::agent
