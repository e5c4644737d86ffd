// SPDX-License-Identifier: Apache-2.0
// Objects of any kind, asked from the agent.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "agent/cli/lists.h"
#include "agent/cli/object.h"
#include "agent/cli/session.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::cli {

// What to ask for.
struct Query {
  std::string name_space;      // "": all
  std::string label_selector;  // "": whatever the labels
};

// Of any resource but images; events in the order in which they happened last.
Listed<Object> ListObjects(Session& session, Resource resource, const Query& query);

// The objects of whole namespaces, each asked for once.
class Listings {
 public:
  explicit Listings(Session& session) : session_(session) {}
  const Listed<Object>& Of(Resource resource, const std::string& name_space);

 private:
  Session& session_;
  std::map<std::pair<Resource, std::string>, Listed<Object>> listed_;
};

// Asks the agent for the pods of the name's namespace, and picks the one. Nothing: why was told.
std::optional<k8s::io::api::core::v1::Pod> FindPod(Session& session, const std::string& text);

// kNotFound as the agent would tell it, everything else as this program's own; returns kFailed.
int ReportPick(const Error& error);

}  // namespace holdfast::agent::cli
