// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/service.h"

#include <utility>

#include "agent/api/grpc/status_map.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

// One unary call. Its answer counts against the caller's budget until the call is over.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(ServerCore& core, const std::string& grpc_peer)
      : core_(core), uid_(CallerUid(core, grpc_peer)) {}
  void Conclude(const Result<void>& result, google::protobuf::Message& response) {
    if (!result) return Finish(ToStatus(result.error()));
    share_ = core_.unread_answers.Take(uid_, response.ByteSizeLong());
    if (share_) return Finish(grpc::Status::OK);
    // Freed now, not when gRPC is done with the call; Clear() would keep the memory.
    const std::unique_ptr<google::protobuf::Message> empty(response.New());
    response.GetReflection()->Swap(&response, empty.get());
    Finish(UnreadAnswers());
  }
  void OnDone() override { delete this; }

 private:
  ServerCore& core_;
  const uid_t uid_;
  std::optional<AnswerBudget::Share> share_;
};

}  // namespace

std::string StatusName(grpc::StatusCode code) {
  if (code == grpc::StatusCode::OK) return "OK";
  if (code == grpc::StatusCode::CANCELLED) return "CANCELLED";
  for (const Code each : {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists,
                          Code::kPermissionDenied, Code::kUnsupported, Code::kUnavailable,
                          Code::kConflict, Code::kResourceExhausted, Code::kDeadlineExceeded}) {
    if (StatusCodeOf(each) == code) return std::string(access::OutcomeName(each));
  }
  return "INTERNAL";
}

uid_t CallerUid(const ServerCore& core, const std::string& grpc_peer) {
  const auto peer = core.peer_of(grpc_peer);
  return peer ? peer->uid : static_cast<uid_t>(-1);
}

grpc::Status UnreadAnswers() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED,
          StrCat("answers of more than ", kUnreadAnswerBytes >> 20,
                 " MiB wait for your user to read them; read those first")};
}

NodeAgentService::NodeAgentService(ServerCore& core, access::OperationSet permitted)
    : core_(core), permitted_(permitted) {}

std::optional<grpc::Status> NodeAgentService::Refusal(const grpc::CallbackServerContext& context,
                                                      Method method) {
  const MethodRow& row = RowOf(method);
  if (permitted_.Has(row.operation)) return std::nullopt;
  access::AuditEntry entry = EntryOf(core_, context.peer(), method, "");
  entry.stage = "refused";
  entry.outcome = "no permission";
  AuditRefusal(core_, std::move(entry));
  return grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                      StrCat("your role does not allow ", row.name,
                             "; root may, and so may members of a group with that role "
                             "(see docs/api.md)"));
}

grpc::ServerUnaryReactor* NodeAgentService::Answer(grpc::CallbackServerContext* context,
                                                   Method method,
                                                   google::protobuf::Message& response,
                                                   const std::function<Result<void>()>& work) {
  auto* call = new UnaryCall(core_, context->peer());
  if (const auto refusal = Refusal(*context, method)) {
    call->Finish(*refusal);
  } else {
    call->Conclude(work(), response);
  }
  return call;
}

grpc::ServerUnaryReactor* NodeAgentService::AnswerBlocking(grpc::CallbackServerContext* context,
                                                           Method method,
                                                           google::protobuf::Message& response,
                                                           std::function<Result<void>()> work) {
  auto* call = new UnaryCall(core_, context->peer());
  if (const auto refusal = Refusal(*context, method)) {
    call->Finish(*refusal);
    return call;
  }
  // Request and response live until the reactor has finished.
  const auto posted = core_.requests.TryPost(
      [call, &response, work = std::move(work)] { call->Conclude(work(), response); });
  if (!posted) call->Finish(ToStatus(posted.error()));
  return call;
}

grpc::ServerUnaryReactor* NodeAgentService::AnswerChange(grpc::CallbackServerContext* context,
                                                         Method method,
                                                         google::protobuf::Message& response,
                                                         std::string target, std::string target_uid,
                                                         std::function<Result<void>()> work) {
  return AnswerBlocking(
      context, method, response,
      [&core = core_, peer = context->peer(), method, target = std::move(target),
       target_uid = std::move(target_uid), work = std::move(work)]() -> Result<void> {
        access::AuditScope audit = BeginAudit(core, peer, method, target, target_uid);
        Result<void> result = work();
        audit.Finish(
            StatusName(result ? grpc::StatusCode::OK : StatusCodeOf(result.error().code())));
        return result;
      });
}

}  // namespace holdfast::agent::api
