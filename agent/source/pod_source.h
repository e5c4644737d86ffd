// SPDX-License-Identifier: Apache-2.0
// PodSource: where the desired pods come from. One interface for the manifest directory, and later
// for HTTP and the API server. Thread-safe: readers get an immutable snapshot.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/objects/config_object.h"
#include "holdfast/base/clock.h"

namespace k8s::io::api::core::v1 {
class Pod;
class Service;
}  // namespace k8s::io::api::core::v1

namespace k8s::io::api::discovery::v1 {
class EndpointSlice;
}

namespace holdfast::agent {

// A file name within the directory; one text for all that comes from the file, which is compared by its pointer.
using Origin = std::shared_ptr<const std::string>;

// One desired pod. The message is defaulted and validated, carries the final name
// ("<name>-<node>"), namespace, UID, nodeName and the kubernetes.io/config.* annotations.
struct DesiredPod {
  std::shared_ptr<const k8s::io::api::core::v1::Pod> pod;
  Origin origin;
  bool operator==(const DesiredPod&) const = default;
};

// A Service, an EndpointSlice, a ConfigMap or a Secret; defaulted, validated, with its namespace. Addresses and node ports
// that it leaves open are not filled in.
template <class Object>
struct DesiredObject {
  std::shared_ptr<const Object> object;
  Origin origin;
  bool operator==(const DesiredObject&) const = default;
};
using DesiredService = DesiredObject<k8s::io::api::core::v1::Service>;
using DesiredSlice = DesiredObject<k8s::io::api::discovery::v1::EndpointSlice>;
using DesiredConfig = DesiredObject<ConfigObject>;

// Why a file, or one document of it, is not (or no longer) what runs.
struct SourceError {
  std::string origin;   // file name within the directory; "" concerns the directory itself
  std::string pod;      // "namespace/name" of the object where it is known
  std::string message;  // "web.yaml:7:5: spec.containers[0].imagee: unknown field (…)"; every
                        // error, one per line
  WallTime since;       // when this very message first appeared
  bool last_good_runs = false;  // an earlier good version of the file is still desired
  std::string advice;           // what is in force now and what to do; "" where that is plain
  std::string content;          // which version of the file this is about; "" where it has none
  bool operator==(const SourceError&) const = default;
};

struct PodSnapshot {
  // False until the source was read once. Nothing may be deleted for want of a pod before that.
  bool complete = false;
  uint64_t generation = 0;       // grows with every change of pods or errors
  std::vector<DesiredPod> pods;  // by file name, then by place in the file; names are unique
  std::vector<DesiredService> services;  // as the pods
  std::vector<DesiredSlice> slices;      // as the pods
  std::vector<DesiredConfig> configs;    // as the pods; each name once per kind
  std::vector<SourceError> errors;       // by file name
};

class PodSource {
 public:
  virtual ~PodSource() = default;
  // Never null.
  virtual std::shared_ptr<const PodSnapshot> Snapshot() const = 0;
  // `changed` is called after each new snapshot, from a thread of the source; it must not block.
  // Set once, before or after Start; a snapshot that is already there is announced at once.
  virtual void SetChangeCallback(std::function<void()> changed) = 0;
};

}  // namespace holdfast::agent
