// SPDX-License-Identifier: Apache-2.0
// NodeAgentService: the methods of holdfast.v1.NodeAgent for callers with one set of permissions.
// Handlers run on gRPC's threads and never block: they read snapshots, or post to ServerCore's
// workers. Every method asks Refusal() first.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/access/roles.h"
#include "agent/api/grpc/server_core.h"
#include "holdfast/v1/node_agent.grpc.pb.h"

namespace holdfast::agent::api {

class NodeAgentService final : public v1::NodeAgent::CallbackService {
 public:
  NodeAgentService(ServerCore& core, access::OperationSet permitted);

  grpc::ServerUnaryReactor* ListPods(grpc::CallbackServerContext* context,
                                     const v1::ListPodsRequest* request,
                                     v1::ListPodsResponse* response) override;
  grpc::ServerUnaryReactor* GetPod(grpc::CallbackServerContext* context,
                                   const v1::GetPodRequest* request,
                                   k8s::io::api::core::v1::Pod* response) override;
  grpc::ServerWriteReactor<v1::PodChange>* WatchPods(grpc::CallbackServerContext* context,
                                                     const v1::WatchPodsRequest* request) override;
  grpc::ServerUnaryReactor* ListEvents(grpc::CallbackServerContext* context,
                                       const v1::ListEventsRequest* request,
                                       v1::ListEventsResponse* response) override;
  grpc::ServerWriteReactor<v1::EventChange>* WatchEvents(
      grpc::CallbackServerContext* context, const v1::WatchEventsRequest* request) override;
  grpc::ServerUnaryReactor* GetNode(grpc::CallbackServerContext* context,
                                    const v1::GetNodeRequest* request,
                                    k8s::io::api::core::v1::Node* response) override;
  grpc::ServerUnaryReactor* ListServices(grpc::CallbackServerContext* context,
                                         const v1::ListServicesRequest* request,
                                         v1::ListServicesResponse* response) override;
  grpc::ServerUnaryReactor* ListEndpointSlices(grpc::CallbackServerContext* context,
                                               const v1::ListEndpointSlicesRequest* request,
                                               v1::ListEndpointSlicesResponse* response) override;
  grpc::ServerUnaryReactor* ExplainService(grpc::CallbackServerContext* context,
                                           const v1::ExplainServiceRequest* request,
                                           v1::ExplainServiceResponse* response) override;
  grpc::ServerWriteReactor<v1::DumpProxyResponse>* DumpProxy(
      grpc::CallbackServerContext* context, const v1::DumpProxyRequest* request) override;
  grpc::ServerUnaryReactor* ListImages(grpc::CallbackServerContext* context,
                                       const v1::ListImagesRequest* request,
                                       v1::ListImagesResponse* response) override;
  grpc::ServerUnaryReactor* GetImage(grpc::CallbackServerContext* context,
                                     const v1::GetImageRequest* request,
                                     v1::Image* response) override;
  grpc::ServerReadReactor<v1::ImportImageRequest>* ImportImage(
      grpc::CallbackServerContext* context, v1::ImportImageResponse* response) override;
  grpc::ServerWriteReactor<v1::PullImageResponse>* PullImage(
      grpc::CallbackServerContext* context, const v1::PullImageRequest* request) override;
  grpc::ServerWriteReactor<v1::ExportImageResponse>* ExportImage(
      grpc::CallbackServerContext* context, const v1::ExportImageRequest* request) override;
  grpc::ServerUnaryReactor* RemoveImage(grpc::CallbackServerContext* context,
                                        const v1::RemoveImageRequest* request,
                                        v1::RemoveImageResponse* response) override;
  grpc::ServerWriteReactor<v1::LogsResponse>* Logs(grpc::CallbackServerContext* context,
                                                   const v1::LogsRequest* request) override;
  grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecResponse>* Exec(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::AttachRequest, v1::AttachResponse>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::PortForwardRequest, v1::PortForwardResponse>* PortForward(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* AddEphemeralContainer(grpc::CallbackServerContext* context,
                                                  const v1::AddEphemeralContainerRequest* request,
                                                  k8s::io::api::core::v1::Pod* response) override;
  grpc::ServerUnaryReactor* Apply(grpc::CallbackServerContext* context,
                                  const v1::ApplyRequest* request,
                                  v1::ApplyResponse* response) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context,
                                   const v1::DeleteRequest* request,
                                   v1::DeleteResponse* response) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const v1::CheckRequest* request,
                                  v1::CheckResponse* response) override;
  grpc::ServerUnaryReactor* Version(grpc::CallbackServerContext* context,
                                    const v1::VersionRequest* request,
                                    v1::VersionResponse* response) override;
  grpc::ServerUnaryReactor* GetStats(grpc::CallbackServerContext* context,
                                     const v1::GetStatsRequest* request,
                                     v1::GetStatsResponse* response) override;
  grpc::ServerWriteReactor<v1::PushImageResponse>* PushImage(
      grpc::CallbackServerContext* context, const v1::PushImageRequest* request) override;
  grpc::ServerUnaryReactor* TagImage(grpc::CallbackServerContext* context,
                                     const v1::TagImageRequest* request,
                                     v1::TagImageResponse* response) override;
  grpc::ServerUnaryReactor* PruneImages(grpc::CallbackServerContext* context,
                                        const v1::PruneImagesRequest* request,
                                        v1::PruneImagesResponse* response) override;
  grpc::ServerUnaryReactor* ImageUsage(grpc::CallbackServerContext* context,
                                       const v1::ImageUsageRequest* request,
                                       v1::ImageUsageResponse* response) override;
  grpc::ServerUnaryReactor* ListPulls(grpc::CallbackServerContext* context,
                                      const v1::ListPullsRequest* request,
                                      v1::ListPullsResponse* response) override;
  grpc::ServerUnaryReactor* ListConfigMaps(grpc::CallbackServerContext* context,
                                           const v1::ListConfigMapsRequest* request,
                                           v1::ListConfigMapsResponse* response) override;
  grpc::ServerUnaryReactor* ListSecrets(grpc::CallbackServerContext* context,
                                        const v1::ListSecretsRequest* request,
                                        v1::ListSecretsResponse* response) override;

 private:
  // Set when the caller may not; a refused change or exec is also written to the audit log.
  std::optional<grpc::Status> Refusal(const grpc::CallbackServerContext& context, Method method);
  // Answers at once, from memory, with `response`, which `work` fills.
  grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, Method method,
                                   google::protobuf::Message& response,
                                   const std::function<Result<void>()>& work);
  // Runs `work` on a request worker, which may block.
  grpc::ServerUnaryReactor* AnswerBlocking(grpc::CallbackServerContext* context, Method method,
                                           google::protobuf::Message& response,
                                           std::function<Result<void>()> work);
  // The same between the two audit lines. `target_uid` may be empty.
  grpc::ServerUnaryReactor* AnswerChange(grpc::CallbackServerContext* context, Method method,
                                         google::protobuf::Message& response, std::string target,
                                         std::string target_uid,
                                         std::function<Result<void>()> work);
  // A Session (SessionStream), if the caller may.
  template <class Session, class Reactor>
  Reactor* Stream(const grpc::CallbackServerContext& context, Method method);
  bool ShowsEnvironment() const { return permitted_.Has(access::Operation::kReadData); }

  ServerCore& core_;
  const access::OperationSet permitted_;
};

// "OK", "NOT_FOUND", …
std::string StatusName(grpc::StatusCode code);

// The user behind a call; -1 when its connection is forgotten.
uid_t CallerUid(const ServerCore& core, const std::string& grpc_peer);
// What a caller is told whose user has too much to read (AnswerBudget).
grpc::Status UnreadAnswers();

// A stream that ends with `status` before anything is sent.
template <class Base>
class RefusedStream final : public Base {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

template <class Session, class Reactor>
Reactor* NodeAgentService::Stream(const grpc::CallbackServerContext& context, Method method) {
  if (const auto refusal = Refusal(context, method)) return new RefusedStream<Reactor>(*refusal);
  return Session::Start(std::make_shared<Session>(core_, context.peer()));
}

}  // namespace holdfast::agent::api
