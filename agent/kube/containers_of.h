// SPDX-License-Identifier: Apache-2.0
// The containers of a pod, whichever of its three lists they are in: one walk, in the order in
// which they start. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {

enum class ContainerList : uint8_t { kInit, kMain, kEphemeral };

// Calls visit(list, container) for the containers of `spec`: init, main, ephemeral. A container is
// a Container or, of the last list, an EphemeralContainerCommon: the same fields. `spec` may be
// const.
template <class Spec, class Visit>
void ForEachContainer(Spec& spec, Visit&& visit) {
  if constexpr (std::is_const_v<Spec>) {
    for (const auto& container : spec.initcontainers()) visit(ContainerList::kInit, container);
    for (const auto& container : spec.containers()) visit(ContainerList::kMain, container);
    for (const auto& container : spec.ephemeralcontainers()) {
      visit(ContainerList::kEphemeral, container.ephemeralcontainercommon());
    }
  } else {
    for (auto& container : *spec.mutable_initcontainers()) visit(ContainerList::kInit, container);
    for (auto& container : *spec.mutable_containers()) visit(ContainerList::kMain, container);
    for (auto& container : *spec.mutable_ephemeralcontainers()) {
      visit(ContainerList::kEphemeral, *container.mutable_ephemeralcontainercommon());
    }
  }
}

inline std::vector<std::string> ContainerNames(const k8s::io::api::core::v1::Pod& pod) {
  std::vector<std::string> names;
  ForEachContainer(pod.spec(), [&names](ContainerList /*list*/, const auto& container) {
    names.push_back(container.name());
  });
  return names;
}

// An init or main container; nullptr: none of that name.
inline const k8s::io::api::core::v1::Container* FindContainer(
    const k8s::io::api::core::v1::Pod& pod, const std::string& name) {
  for (const auto* list : {&pod.spec().initcontainers(), &pod.spec().containers()}) {
    for (const auto& container : *list) {
      if (container.name() == name) return &container;
    }
  }
  return nullptr;
}

// Whether the container of that name runs on a terminal; false also where there is none.
inline bool HasTerminal(const k8s::io::api::core::v1::Pod& pod, const std::string& name) {
  bool tty = false;
  ForEachContainer(pod.spec(), [&](ContainerList /*list*/, const auto& container) {
    if (container.name() == name) tty = container.tty();
  });
  return tty;
}

// nullptr: no status yet.
inline const k8s::io::api::core::v1::ContainerStatus* StatusOf(
    const k8s::io::api::core::v1::Pod& pod, const std::string& container) {
  const auto& status = pod.status();
  for (const auto* list : {&status.initcontainerstatuses(), &status.containerstatuses(),
                           &status.ephemeralcontainerstatuses()}) {
    for (const auto& candidate : *list) {
      if (candidate.name() == container) return &candidate;
    }
  }
  return nullptr;
}

}  // namespace holdfast::agent::kube
