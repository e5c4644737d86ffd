// SPDX-License-Identifier: Apache-2.0
// Apply, Delete, Check: what changes the node, each between two audit lines.
#include <chrono>
#include <optional>
#include <utility>

#include "agent/api/grpc/service.h"
#include "agent/source/manifest_editor.h"
#include "agent/view/find_container.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

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

// The running pod of a manifest: `name` with or without the node's suffix. Null: it does not run.
PodPtr RunningPod(const ApiDependencies& deps, const std::string& pod_namespace,
                  const std::string& name) {
  if (PodPtr pod = deps.pods.FindPod(pod_namespace, name)) return pod;
  return deps.pods.FindPod(pod_namespace, StrCat(name, "-", deps.instance.node_name));
}

void Announce(const ApiDependencies& deps) {
  if (deps.manifests_changed) deps.manifests_changed();
}

Result<void> CheckGrace(const ApiDependencies& deps, const std::string& kind, int64_t seconds) {
  if (kind != "Pod") return InvalidArgument(StrCat("a grace period is for pods, not for a ", kind));
  if (seconds < 0) return InvalidArgument("grace_period_seconds: must not be negative");
  if (!deps.set_deletion_grace) return Unsupported("a grace period cannot be given on this agent");
  return {};
}

// What a delete without a grace period asks for.
std::chrono::seconds OwnGrace(const k8s::io::api::core::v1::Pod& pod) {
  const auto& spec = pod.spec();
  return std::chrono::seconds(
      spec.has_terminationgraceperiodseconds() ? spec.terminationgraceperiodseconds() : 30);
}

// A pod whose manifest is gone already and that is ending: its grace period becomes shorter, never
// longer (feature-map 1.8.5).
Result<EditedObject> Shorten(const ApiDependencies& deps, const PodPtr& pod,
                             std::optional<std::chrono::seconds> grace) {
  const auto& meta = pod->metadata();
  if (deps.set_deletion_grace) {
    deps.set_deletion_grace(PodUid(meta.uid()), grace.value_or(OwnGrace(*pod)));
  }
  return EditedObject{"Pod", meta.namespace_(), meta.name(), "", EditOutcome::kDeleted};
}

// The wish comes first, since the removal is noticed at once; one that is refused leaves none.
Result<EditedObject> DeleteObject(const ApiDependencies& deps, const v1::DeleteRequest& request,
                                  const std::string& kind, const PodPtr& pod) {
  std::optional<std::chrono::seconds> grace;
  if (request.has_grace_period_seconds()) {
    RETURN_IF_ERROR(CheckGrace(deps, kind, request.grace_period_seconds()));
    grace = std::chrono::seconds(request.grace_period_seconds());
    if (pod) deps.set_deletion_grace(PodUid(pod->metadata().uid()), grace);
  }
  auto deleted = deps.delete_object(kind, request.namespace_(), request.name());
  if (deleted || !pod) return deleted;
  if (deleted.error().code() == Code::kNotFound && pod->metadata().has_deletiontimestamp()) {
    return Shorten(deps, pod, grace);
  }
  if (grace) deps.set_deletion_grace(PodUid(pod->metadata().uid()), std::nullopt);
  return deleted;
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
                         core_.deps.apply(request->manifest(), origin, request->dry_run(),
                                          request->namespace_()));
        HOLDFAST_PAUSE_POINT("api.apply.written");
        for (const EditedObject& object : edited) FillEdited(object, *response->add_objects());
        if (!request->dry_run()) Announce(core_.deps);
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::Delete(grpc::CallbackServerContext* context,
                                                   const v1::DeleteRequest* request,
                                                   v1::DeleteResponse* response) {
  const std::string kind = request->kind().empty() ? "Pod" : request->kind();
  const bool is_pod = kind == "Pod";
  const PodPtr pod =
      is_pod ? RunningPod(core_.deps, request->namespace_(), request->name()) : nullptr;
  const std::string name = StrCat(request->namespace_(), "/", request->name());
  return AnswerChange(
      context, Method::kDelete, *response, is_pod ? name : StrCat(kind, " ", name),
      pod ? pod->metadata().uid() : "", [this, request, response, pod, kind]() -> Result<void> {
        if (request->namespace_().empty() || request->name().empty()) {
          return InvalidArgument("namespace and name are required");
        }
        ASSIGN_OR_RETURN(const EditedObject deleted, DeleteObject(core_.deps, *request, kind, pod));
        HOLDFAST_PAUSE_POINT("api.delete.removed");
        FillEdited(deleted, *response->mutable_object());
        Announce(core_.deps);
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::Check(grpc::CallbackServerContext* context,
                                                  const v1::CheckRequest* request,
                                                  v1::CheckResponse* response) {
  const auto work = [this, request, response]() -> Result<void> {
    ASSIGN_OR_RETURN(const std::vector<Leftover> found, core_.deps.audit(request->repair()));
    for (const Leftover& leftover : found) {
      v1::CheckResponse::Leftover& out = *response->add_leftovers();
      out.set_kind(leftover.kind);
      out.set_object(leftover.object);
      out.set_reason(leftover.reason);
    }
    return {};
  };
  if (!request->repair()) return AnswerBlocking(context, Method::kCheck, *response, work);
  return AnswerChange(context, Method::kCheckRepair, *response, core_.deps.instance.node_name, {},
                      work);
}

}  // namespace holdfast::agent::api
