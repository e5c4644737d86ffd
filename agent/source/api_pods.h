// SPDX-License-Identifier: Apache-2.0
// ApiPods: hands the pods that an API server has bound to this node to the registry, as what came, what changed and
// what went. Nothing of them is defaulted or validated: the server did both. Only what becomes names of directories is
// looked at. On the API thread. Source: control-plane.md 5.1, 5.5.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/cluster/reflector.h"
#include "agent/source/pod_registry.h"

namespace holdfast::agent {

// What to reflect: the pods of one node.
ReflectorOptions PodsOfNode(const std::string& node_name);

struct ApiPodsCallbacks {
  std::function<void(const std::string&)> log;   // one line per failure
  std::function<void(const PodUid&)> seen = {};  // the server's copy of a pod is new, or gone
  ObjectHandler* mirrors = nullptr;   // gets the images of this node's static pods; borrowed
  std::function<void()> listed = {};  // a list is whole
};

class ApiPods : public ObjectHandler {
 public:
  // `registry` is borrowed and has kApi among its origins.
  ApiPods(PodRegistry& registry, ApiPodsCallbacks callbacks);

  void ListBegins() override;
  void Put(kube::ObjectPtr object) override;
  void Gone(kube::ObjectPtr last) override;
  void ListEnds() override;
  void Trouble(const Error& error) override;

 private:
  bool IsMirror(const k8s::io::api::core::v1::Pod& pod) const;
  bool MayRun(const k8s::io::api::core::v1::Pod& pod);
  void Drop(const PodUid& uid);

  PodRegistry& registry_;
  const ApiPodsCallbacks callbacks_;
  std::map<PodUid, std::string> names_;  // of the registry's, "namespace/name"
  std::map<std::string, PodUid> uids_;   // the same, the other way round
  std::set<PodUid> refused_;             // that was told
  std::string trouble_;                  // as it was told
};

}  // namespace holdfast::agent
