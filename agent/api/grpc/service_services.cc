// SPDX-License-Identifier: Apache-2.0
// Services: reads of what the service proxy knows.
#include "agent/api/grpc/explain_service.h"
#include "agent/api/grpc/in_namespace.h"
#include "agent/api/grpc/service.h"
#include "agent/kube/label_selector.h"
#include "agent/proxy/service_view.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::api {
namespace {

bool IsOf(const SlicePtr& slice, const std::string& service) {
  if (service.empty()) return true;
  const auto& labels = slice->metadata().labels();
  const auto label = labels.find("kubernetes.io/service-name");
  return label != labels.end() && label->second == service;
}

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::ListServices(grpc::CallbackServerContext* context,
                                                         const v1::ListServicesRequest* request,
                                                         v1::ListServicesResponse* response) {
  return Answer(context, Method::kListServices, *response, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const kube::LabelSelector selector,
                     kube::LabelSelector::Parse(request->label_selector()));
    for (const ServicePtr& service : core_.node.services().ListServices()) {
      if (!InNamespace(request->namespace_(), service->metadata().namespace_())) continue;
      if (selector.Matches(service->metadata().labels())) *response->add_services() = *service;
    }
    return {};
  });
}

grpc::ServerUnaryReactor* NodeAgentService::ListEndpointSlices(
    grpc::CallbackServerContext* context, const v1::ListEndpointSlicesRequest* request,
    v1::ListEndpointSlicesResponse* response) {
  return Answer(context, Method::kListEndpointSlices, *response, [&]() -> Result<void> {
    for (const SlicePtr& slice : core_.node.services().ListSlices()) {
      if (!InNamespace(request->namespace_(), slice->metadata().namespace_())) continue;
      if (IsOf(slice, request->service())) *response->add_slices() = *slice;
    }
    return {};
  });
}

grpc::ServerUnaryReactor* NodeAgentService::ExplainService(grpc::CallbackServerContext* context,
                                                           const v1::ExplainServiceRequest* request,
                                                           v1::ExplainServiceResponse* response) {
  return Answer(context, Method::kExplainService, *response, [&]() -> Result<void> {
    if (request->namespace_().empty() || request->name().empty()) {
      return InvalidArgument("namespace and name are required");
    }
    std::optional<IpAddress> from;
    if (!request->from().empty()) {
      ASSIGN_OR_RETURN(from, IpAddress::Parse(request->from()));
    }
    ASSIGN_OR_RETURN(const ExplainedService explained,
                     core_.node.services().Explain({request->namespace_(), request->name()}));
    FillExplanation(explained, from, *response);
    return {};
  });
}

}  // namespace holdfast::agent::api
