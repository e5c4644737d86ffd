// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/lists.h"

#include <grpcpp/grpcpp.h>

#include <utility>

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Slice = ::k8s::io::api::discovery::v1::EndpointSlice;

template <class Object>
std::vector<Object> Taken(google::protobuf::RepeatedPtrField<Object>& objects) {
  return {std::make_move_iterator(objects.begin()), std::make_move_iterator(objects.end())};
}

// One of the lists that a namespace and labels choose from; `list` is the method of the client that
// gRPC generates, which it calls a stub.
template <class Request, class Response>
grpc::Status AskForList(Session& session,
                        grpc::Status (v1::NodeAgent::Stub::*list)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                        const std::string& name_space, const std::string& selector,
                        Response& response) {
  Request request;
  request.set_namespace_(name_space);
  request.set_label_selector(selector);
  return Ask(session,
             [&](Call& call) { return (session.stub().*list)(&call, request, &response); });
}

}  // namespace

Listed<core::Pod> ListPods(Session& session, const std::string& name_space,
                           const std::string& selector) {
  v1::ListPodsResponse response;
  grpc::Status status =
      AskForList(session, &v1::NodeAgent::Stub::ListPods, name_space, selector, response);
  return {std::move(status), Taken(*response.mutable_pods())};
}

Listed<core::Service> ListServices(Session& session, const std::string& name_space,
                                   const std::string& selector) {
  v1::ListServicesResponse response;
  grpc::Status status =
      AskForList(session, &v1::NodeAgent::Stub::ListServices, name_space, selector, response);
  return {std::move(status), Taken(*response.mutable_services())};
}

Listed<Slice> ListSlices(Session& session, const std::string& name_space,
                         const std::string& service) {
  v1::ListEndpointSlicesRequest request;
  request.set_namespace_(name_space);
  request.set_service(service);
  v1::ListEndpointSlicesResponse response;
  grpc::Status status = Ask(session, [&](Call& call) {
    return session.stub().ListEndpointSlices(&call, request, &response);
  });
  return {std::move(status), Taken(*response.mutable_slices())};
}

Listed<core::Event> ListEvents(Session& session, const v1::ListEventsRequest& request) {
  v1::ListEventsResponse response;
  grpc::Status status = Ask(
      session, [&](Call& call) { return session.stub().ListEvents(&call, request, &response); });
  return {std::move(status), Taken(*response.mutable_events())};
}

Listed<core::ConfigMap> ListConfigMaps(Session& session, const std::string& name_space,
                                       const std::string& selector) {
  v1::ListConfigMapsResponse response;
  grpc::Status status =
      AskForList(session, &v1::NodeAgent::Stub::ListConfigMaps, name_space, selector, response);
  return {std::move(status), Taken(*response.mutable_config_maps())};
}

Listed<SecretSummary> ListSecrets(Session& session, const std::string& name_space,
                                  const std::string& selector) {
  v1::ListSecretsResponse response;
  grpc::Status status =
      AskForList(session, &v1::NodeAgent::Stub::ListSecrets, name_space, selector, response);
  return {std::move(status), Taken(*response.mutable_secrets())};
}

Listed<core::Node> ListNodes(Session& session) {
  Listed<core::Node> nodes{.status = {}, .objects = std::vector<core::Node>(1)};
  nodes.status = Ask(session, [&](Call& call) {
    return session.stub().GetNode(&call, v1::GetNodeRequest(), &nodes.objects.front());
  });
  return nodes;
}

}  // namespace holdfast::agent::cli
