// SPDX-License-Identifier: Apache-2.0
// Apply, Delete, AddEphemeralContainer, Check: what changes the node, each between two audit lines.
#include <chrono>
#include <optional>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/operate/delete_object.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr size_t kMaxManifestBytes = 4ull << 20;
constexpr size_t kMaxOriginBytes = 4096;  // a path; each fault of a manifest begins with it

v1::EditedObject::Outcome WireOutcome(EditOutcome outcome) {
  switch (outcome) {
    case EditOutcome::kCreated:
      return v1::EditedObject::CREATED;
    case EditOutcome::kConfigured:
      return v1::EditedObject::CONFIGURED;
    case EditOutcome::kUnchanged:
      return v1::EditedObject::UNCHANGED;
    case EditOutcome::kDeleted:
      return v1::EditedObject::DELETED;
  }
  return v1::EditedObject::OUTCOME_UNSPECIFIED;
}

void FillEdited(const EditedObject& from, v1::EditedObject& to) {
  to.set_kind(from.kind);
  to.set_namespace_(from.object_namespace);
  to.set_name(from.name);
  to.set_file(from.file);
  to.set_outcome(WireOutcome(from.outcome));
}

void FillRights(const RightsReview& review, v1::CheckResponse& response) {
  for (const MissingRight& right : review.missing) {
    v1::CheckResponse::MissingRight& out = *response.add_missing_rights();
    out.set_verb(right.verb);
    out.set_resource(right.resource);
    out.set_without(right.without);
  }
  response.set_rights_manifest(review.manifest);
  response.set_rights_advice(review.advice);
  response.set_rights_unknown(review.unknown);
}

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::Apply(grpc::CallbackServerContext* context,
                                                  const v1::ApplyRequest* request,
                                                  v1::ApplyResponse* response) {
  return AnswerChange(
      context, Method::kApply, *response, request->origin(), {},
      [this, request, response]() -> Result<void> {
        if (request->manifest().size() > kMaxManifestBytes) {
          return InvalidArgument("manifest: more than 4 MiB");
        }
        if (request->origin().size() > kMaxOriginBytes) {
          return InvalidArgument(StrCat("origin: more than ", kMaxOriginBytes, " bytes"));
        }
        const std::string origin = request->origin().empty() ? "manifest" : request->origin();
        ASSIGN_OR_RETURN(const std::vector<EditedObject> edited,
                         core_.node.Apply(request->manifest(), origin, request->dry_run(),
                                          request->namespace_()));
        for (const EditedObject& object : edited) FillEdited(object, *response->add_objects());
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::Delete(grpc::CallbackServerContext* context,
                                                   const v1::DeleteRequest* request,
                                                   v1::DeleteResponse* response) {
  const std::string kind = request->kind().empty() ? "Pod" : request->kind();
  const bool is_pod = kind == "Pod";
  const PodPtr pod = is_pod ? FindPodOfManifest(core_.node.pods(), core_.instance.node_name,
                                                request->namespace_(), request->name())
                            : nullptr;
  const std::string name = StrCat(request->namespace_(), "/", request->name());
  return AnswerChange(context, Method::kDelete, *response, is_pod ? name : StrCat(kind, " ", name),
                      pod ? pod->metadata().uid() : "",
                      [this, request, response, kind]() -> Result<void> {
                        if (request->namespace_().empty() || request->name().empty()) {
                          return InvalidArgument("namespace and name are required");
                        }
                        Deletion deletion{.kind = kind,
                                          .object_namespace = request->namespace_(),
                                          .name = request->name(),
                                          .grace = std::nullopt};
                        if (request->has_grace_period_seconds()) {
                          deletion.grace = std::chrono::seconds(request->grace_period_seconds());
                        }
                        ASSIGN_OR_RETURN(const EditedObject deleted, core_.node.Delete(deletion));
                        FillEdited(deleted, *response->mutable_object());
                        return {};
                      });
}

grpc::ServerUnaryReactor* NodeAgentService::AddEphemeralContainer(
    grpc::CallbackServerContext* context, const v1::AddEphemeralContainerRequest* request,
    k8s::io::api::core::v1::Pod* response) {
  const std::string name = StrCat(request->namespace_(), "/", request->pod());
  const PodPtr pod = FindPodOfManifest(core_.node.pods(), core_.instance.node_name,
                                       request->namespace_(), request->pod());
  const auto& container = request->container().ephemeralcontainercommon();
  return AnswerChange(
      context, Method::kAddEphemeralContainer, *response, StrCat(name, "/", container.name()),
      pod ? pod->metadata().uid() : "", [this, request, response]() -> Result<void> {
        ASSIGN_OR_RETURN(const auto wanted,
                         core_.node.AddEphemeralContainer(request->namespace_(), request->pod(),
                                                          request->container()));
        *response = *wanted;
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::Check(grpc::CallbackServerContext* context,
                                                  const v1::CheckRequest* request,
                                                  v1::CheckResponse* response) {
  const auto work = [this, request, response]() -> Result<void> {
    ASSIGN_OR_RETURN(const std::vector<Leftover> found, core_.node.Audit(request->repair()));
    for (const Leftover& leftover : found) {
      v1::CheckResponse::Leftover& out = *response->add_leftovers();
      out.set_kind(leftover.kind);
      out.set_object(leftover.object);
      out.set_reason(leftover.reason);
    }
    FillRights(core_.node.ReviewRights(), *response);
    return {};
  };
  if (!request->repair()) return AnswerBlocking(context, Method::kCheck, *response, work);
  return AnswerChange(context, Method::kCheckRepair, *response, core_.instance.node_name, {}, work);
}

}  // namespace holdfast::agent::api
