// SPDX-License-Identifier: Apache-2.0
// Pods, events and the node: reads of immutable snapshots.
#include <sys/utsname.h>

#include <utility>

#include "agent/api/grpc/in_namespace.h"
#include "agent/api/grpc/service.h"
#include "agent/api/grpc/status_map.h"
#include "agent/api/grpc/watch_stream.h"
#include "agent/kube/containers_of.h"
#include "agent/kube/label_selector.h"
#include "agent/view/find_container.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent::api {
namespace {

namespace core = ::k8s::io::api::core::v1;

// Environment variables may hold secrets; a viewer sees none.
void HideEnvironment(core::Pod& pod) {
  const auto clear = [](kube::ContainerList /*list*/, auto& container) {
    container.clear_env();
    container.clear_envfrom();
  };
  kube::ForEachContainer(*pod.mutable_spec(), clear);
}

void CopyPod(const core::Pod& from, bool with_environment, core::Pod& to) {
  to = from;
  if (!with_environment) HideEnvironment(to);
}

// Request: ListEventsRequest or WatchEventsRequest.
template <class Request>
bool Wants(const Request& request, const core::Event& event) {
  const auto& object = event.involvedobject();
  return InNamespace(request.namespace_(), event.metadata().namespace_()) &&
         (request.involved_kind().empty() || request.involved_kind() == object.kind()) &&
         (request.involved_name().empty() || request.involved_name() == object.name()) &&
         (request.involved_uid().empty() || request.involved_uid() == object.uid());
}

using PodStream = WatchStream<v1::PodChange, PodPtr>;
using EventStream = WatchStream<v1::EventChange, EventPtr>;

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::ListPods(grpc::CallbackServerContext* context,
                                                     const v1::ListPodsRequest* request,
                                                     v1::ListPodsResponse* response) {
  return Answer(context, Method::kListPods, *response, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const kube::LabelSelector selector,
                     kube::LabelSelector::Parse(request->label_selector()));
    for (const PodPtr& pod : core_.node.pods().ListPods()) {
      if (!InNamespace(request->namespace_(), pod->metadata().namespace_())) continue;
      if (!selector.Matches(pod->metadata().labels())) continue;
      CopyPod(*pod, ShowsEnvironment(), *response->add_pods());
    }
    return {};
  });
}

grpc::ServerUnaryReactor* NodeAgentService::GetPod(grpc::CallbackServerContext* context,
                                                   const v1::GetPodRequest* request,
                                                   core::Pod* response) {
  return Answer(context, Method::kGetPod, *response, [&]() -> Result<void> {
    ASSIGN_OR_RETURN(const PodPtr pod,
                     FindPod(core_.node.pods(), request->namespace_(), request->name()));
    CopyPod(*pod, ShowsEnvironment(), *response);
    return {};
  });
}

grpc::ServerWriteReactor<v1::PodChange>* NodeAgentService::WatchPods(
    grpc::CallbackServerContext* context, const v1::WatchPodsRequest* request) {
  using Refused = RefusedStream<grpc::ServerWriteReactor<v1::PodChange>>;
  if (const auto refusal = Refusal(*context, Method::kWatchPods)) return new Refused(*refusal);
  auto selector = kube::LabelSelector::Parse(request->label_selector());
  if (!selector) return new Refused(ToStatus(selector.error()));
  const auto filter = [wanted = *request, selector = std::move(*selector)](const PodPtr& pod) {
    const auto& meta = pod->metadata();
    return InNamespace(wanted.namespace_(), meta.namespace_()) &&
           (wanted.name().empty() || wanted.name() == meta.name()) &&
           selector.Matches(meta.labels());
  };
  const auto fill = [shows = ShowsEnvironment()](const PodPtr& pod, v1::PodChange& message) {
    CopyPod(*pod, shows, *message.mutable_pod());
  };
  return PodStream::Start(core_, context->peer(), filter, fill,
                          [&pods = core_.node.pods()](std::weak_ptr<PodStream> to) {
                            return pods.WatchPods([to = std::move(to)](const PodChange& change) {
                              if (const auto stream = to.lock()) {
                                stream->Offer(change.type, change.pod->metadata().uid(),
                                              change.pod);
                              }
                            });
                          });
}

grpc::ServerUnaryReactor* NodeAgentService::ListEvents(grpc::CallbackServerContext* context,
                                                       const v1::ListEventsRequest* request,
                                                       v1::ListEventsResponse* response) {
  return Answer(context, Method::kListEvents, *response, [&]() -> Result<void> {
    for (const EventPtr& event : core_.node.pods().ListEvents()) {
      if (Wants(*request, *event)) *response->add_events() = *event;
    }
    return {};
  });
}

grpc::ServerWriteReactor<v1::EventChange>* NodeAgentService::WatchEvents(
    grpc::CallbackServerContext* context, const v1::WatchEventsRequest* request) {
  if (const auto refusal = Refusal(*context, Method::kWatchEvents)) {
    return new RefusedStream<grpc::ServerWriteReactor<v1::EventChange>>(*refusal);
  }
  const auto filter = [wanted = *request](const EventPtr& event) { return Wants(wanted, *event); };
  const auto fill = [](const EventPtr& event, v1::EventChange& message) {
    *message.mutable_event() = *event;
  };
  return EventStream::Start(
      core_, context->peer(), filter, fill,
      [&pods = core_.node.pods()](std::weak_ptr<EventStream> to) {
        return pods.WatchEvents([to = std::move(to)](const EventChange& change) {
          if (const auto stream = to.lock()) {
            const auto& meta = change.event->metadata();
            stream->Offer(change.type, meta.namespace_() + "/" + meta.name(), change.event);
          }
        });
      });
}

grpc::ServerUnaryReactor* NodeAgentService::GetNode(grpc::CallbackServerContext* context,
                                                    const v1::GetNodeRequest* /*request*/,
                                                    core::Node* response) {
  return AnswerBlocking(context, Method::kGetNode, *response, [this, response]() -> Result<void> {
    *response = core_.node.DescribeNode();
    return {};
  });
}

grpc::ServerUnaryReactor* NodeAgentService::Version(grpc::CallbackServerContext* context,
                                                    const v1::VersionRequest* /*request*/,
                                                    v1::VersionResponse* response) {
  return Answer(context, Method::kVersion, *response, [&]() -> Result<void> {
    utsname kernel{};
    if (::uname(&kernel) != 0) return Error::FromErrno(errno, "uname");
    response->set_version(core_.node.version());
    response->set_api_version("holdfast.v1");
    response->set_node_name(core_.instance.node_name);
    response->set_kernel(kernel.release);
    return {};
  });
}

}  // namespace holdfast::agent::api
