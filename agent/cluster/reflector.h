// SPDX-License-Identifier: Apache-2.0
// A reflector keeps somebody informed of all objects of one kind: it lists (by a watch that sends the list first, where
// the server can do that), follows, resumes where a watch ended, lists anew when the server no longer knows the version
// or its connection broke, and slows down while the server is in trouble. Everything runs on the API thread. Source: join.md section 5,
// control-plane.md section 3.
#pragma once

#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/kube/scheme.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class ObjectHandler {
 public:
  virtual ~ObjectHandler() = default;
  // A list that was cut short begins again with another ListBegins(). What a complete one does not have is told Gone()
  // before ListEnds().
  virtual void ListBegins() = 0;
  virtual void Put(kube::ObjectPtr object) = 0;  // without managedFields
  // The last state where a watch told it; of what a new list no longer has, or has under another UID, only namespace,
  // name, UID and version. It comes before a Put() of its successor.
  virtual void Gone(kube::ObjectPtr last) = 0;
  virtual void ListEnds() = 0;  // complete and consistent
  // Each failure; it goes on trying. kPermissionDenied: a binding is missing.
  virtual void Trouble(const Error& error) = 0;
};

struct ReflectorOptions {
  std::string path;       // "/api/v1/pods"
  std::string selectors;  // "fieldSelector=spec.nodeName%3Dn1", or ""
  kube::TypeMeta type;    // of one object
  ApiLane lane = ApiLane::kPods;
};

// `api` and `handler` outlive the ticket, which is destroyed on the API thread (also by the handler) or after it ended.
[[nodiscard]] TicketPtr Reflect(Api& api, ReflectorOptions options, ObjectHandler& handler);

}  // namespace holdfast::agent
