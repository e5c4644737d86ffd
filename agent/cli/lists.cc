// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/lists.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Slice = ::k8s::io::api::discovery::v1::EndpointSlice;

template <class Object>
std::vector<Object> Taken(google::protobuf::RepeatedPtrField<Object>& objects) {
  return {std::make_move_iterator(objects.begin()), std::make_move_iterator(objects.end())};
}

}  // namespace

Listed<core::Pod> ListPods(Session& session, const std::string& name_space,
                           const std::string& selector) {
  grpc::ClientContext context;
  v1::ListPodsRequest request;
  request.set_namespace_(name_space);
  request.set_label_selector(selector);
  v1::ListPodsResponse response;
  grpc::Status status = session.stub().ListPods(&context, request, &response);
  return {std::move(status), Taken(*response.mutable_pods())};
}

Listed<core::Service> ListServices(Session& session, const std::string& name_space,
                                   const std::string& selector) {
  grpc::ClientContext context;
  v1::ListServicesRequest request;
  request.set_namespace_(name_space);
  request.set_label_selector(selector);
  v1::ListServicesResponse response;
  grpc::Status status = session.stub().ListServices(&context, request, &response);
  return {std::move(status), Taken(*response.mutable_services())};
}

Listed<Slice> ListSlices(Session& session, const std::string& name_space,
                         const std::string& service) {
  grpc::ClientContext context;
  v1::ListEndpointSlicesRequest request;
  request.set_namespace_(name_space);
  request.set_service(service);
  v1::ListEndpointSlicesResponse response;
  grpc::Status status = session.stub().ListEndpointSlices(&context, request, &response);
  return {std::move(status), Taken(*response.mutable_slices())};
}

Listed<core::Event> ListEvents(Session& session, const v1::ListEventsRequest& request) {
  grpc::ClientContext context;
  v1::ListEventsResponse response;
  grpc::Status status = session.stub().ListEvents(&context, request, &response);
  return {std::move(status), Taken(*response.mutable_events())};
}

Listed<core::Node> ListNodes(Session& session) {
  grpc::ClientContext context;
  Listed<core::Node> nodes{.status = {}, .objects = std::vector<core::Node>(1)};
  nodes.status = session.stub().GetNode(&context, v1::GetNodeRequest(), &nodes.objects.front());
  return nodes;
}

Result<const core::Pod*> PickPod(const std::vector<core::Pod>& pods, const PodName& name) {
  const std::vector<const core::Pod*> fits = BestFits(pods, name);
  if (fits.size() == 1) return fits.front();
  if (fits.empty()) return NotFound(StrCat("pods \"", name.name, "\" not found"));
  std::string candidates;
  for (const core::Pod* pod : fits) {
    candidates += (candidates.empty() ? "" : ", ") + pod->metadata().name();
  }
  return InvalidArgument(
      StrCat("\"", name.name, "\" is the beginning of several pods: ", candidates));
}

grpc::Status FindPod(Session& session, const std::string& text, core::Pod& pod) {
  const PodName name = ParsePodName(text, session.options().name_space);
  const auto [status, pods] = ListPods(session, name.name_space);
  if (!status.ok()) return status;
  const auto found = PickPod(pods, name);
  if (!found) {
    const bool missing = found.error().code() == Code::kNotFound;
    return {missing ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::INVALID_ARGUMENT,
            found.error().message()};
  }
  pod = **found;
  return grpc::Status::OK;
}

}  // namespace holdfast::agent::cli
