// SPDX-License-Identifier: Apache-2.0
// An event: what is told about an object, and how it is shown to who watches. Values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "k8s/core/v1/event.pb.h"

namespace holdfast::agent {

// What an event is about, and who says it.
struct EventSubject {
  std::string kind;  // of core/v1
  std::string object_namespace;
  std::string name;
  std::string uid;
  std::string component;
};

// A node's uid in its events is its name, as a kubelet has it.
inline EventSubject NodeSubject(const std::string& name) {
  return {"Node", "", name, name, "kubelet"};
}

struct EventNote {
  bool warning = false;
  std::string reason;
  std::string message;
  std::string container;  // "" concerns the pod; otherwise involvedObject.fieldPath
  bool init = false;      // the container is an init container
  bool ephemeral = false;
  std::map<std::string, std::string> annotations = {};
  bool operator==(const EventNote&) const = default;
};

using EventPtr = std::shared_ptr<const k8s::io::api::core::v1::Event>;

// Of something that is shown, in the order in which it happens.
enum class ChangeType : uint8_t { kAdded, kModified, kDeleted };

struct EventChange {
  ChangeType type;
  EventPtr event;
};

}  // namespace holdfast::agent
