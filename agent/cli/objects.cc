// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/objects.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "agent/cli/rows.h"
#include "agent/kube/label_selector.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

template <class Type>
Listed<Object> AsObjects(Resource resource, Listed<Type> listed) {
  Listed<Object> out{.status = std::move(listed.status), .objects = {}};
  for (Type& object : listed.objects) {
    out.objects.push_back(MakeObject(resource, std::move(object)));
  }
  return out;
}

Listed<core::Event> EventsByTime(Session& session, const std::string& name_space) {
  v1::ListEventsRequest request;
  request.set_namespace_(name_space);
  auto events = ListEvents(session, request);
  std::stable_sort(events.objects.begin(), events.objects.end(),
                   [](const auto& a, const auto& b) { return EventTime(a) < EventTime(b); });
  return events;
}

Listed<Object> ListUnselected(Session& session, Resource resource, const Query& query) {
  switch (resource) {
    case Resource::kPods:
      return AsObjects(resource, ListPods(session, query.name_space, query.label_selector));
    case Resource::kServices:
      return AsObjects(resource, ListServices(session, query.name_space, query.label_selector));
    case Resource::kEndpoints:
    case Resource::kEndpointSlices:
      return AsObjects(resource, ListSlices(session, query.name_space));
    case Resource::kEvents:
      return AsObjects(resource, EventsByTime(session, query.name_space));
    case Resource::kNodes:
      return AsObjects(resource, ListNodes(session));
    case Resource::kConfigMaps:
      return AsObjects(resource, ListConfigMaps(session, query.name_space, query.label_selector));
    case Resource::kSecrets:
      return AsObjects(resource, ListSecrets(session, query.name_space, query.label_selector));
    case Resource::kImages:
      break;
  }
  return {.status = {grpc::StatusCode::INVALID_ARGUMENT, "images are no Kubernetes objects"},
          .objects = {}};
}

}  // namespace

Listed<Object> ListObjects(Session& session, Resource resource, const Query& query) {
  Listed<Object> listed = ListUnselected(session, resource, query);
  if (!listed.status.ok() || query.label_selector.empty()) return listed;
  // The agent has chosen among most kinds already; once more does no harm.
  const auto selector = kube::LabelSelector::Parse(query.label_selector);
  if (!selector) {
    return {.status = {grpc::StatusCode::INVALID_ARGUMENT, selector.error().message()},
            .objects = {}};
  }
  std::erase_if(listed.objects,
                [&](const Object& object) { return !selector->Matches(object.meta->labels()); });
  return listed;
}

const Listed<Object>& Listings::Of(Resource resource, const std::string& name_space) {
  const auto [it, is_new] = listed_.try_emplace({resource, name_space});
  if (is_new) it->second = ListObjects(session_, resource, {name_space, ""});
  return it->second;
}

int ReportPick(const Error& error) {
  if (error.code() != Code::kNotFound) return Report(error);
  return Report(grpc::Status(grpc::StatusCode::NOT_FOUND, error.message()));
}

std::optional<core::Pod> FindPod(Session& session, const std::string& text) {
  const auto name = ReadPodName(text, session.options().name_space);
  if (!name) return Told(Report(name.error()));
  const auto listed = ListObjects(session, Resource::kPods, {name->name_space, {}});
  if (!listed.status.ok()) return Told(Report(listed.status));
  const auto found = PickObjects(listed.objects, Resource::kPods, *name);
  if (!found) return Told(ReportPick(found.error()));
  return found->front().As<core::Pod>();
}

}  // namespace holdfast::agent::cli
