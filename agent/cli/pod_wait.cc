// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/pod_wait.h"

#include <grpcpp/grpcpp.h>

#include <cstdio>

#include "agent/cli/lists.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

void SetDeadline(grpc::ClientContext& context, std::chrono::nanoseconds timeout) {
  if (timeout.count() == 0) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::duration_cast<std::chrono::system_clock::duration>(timeout));
}

int ReportEnd(const grpc::Status& status, const std::string& pod) {
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) return Report(status);
  std::fprintf(stderr, "error: timed out waiting for the condition on pods/%s\n", pod.c_str());
  return kFailed;
}

bool IsNamed(const core::Pod& pod, const PodName& name) {
  return NameFit(pod, name) >= Fit::kWithoutNode;
}

}  // namespace

std::vector<core::Pod> ListAll(Session& session) {
  const GlobalOptions& options = session.options();
  auto [status, pods] = ListPods(session, options.all_namespaces ? "" : options.name_space);
  if (!status.ok()) (void)Report(status);  // said; the wait goes on until its time is over
  return std::move(pods);
}

std::optional<core::Pod> FindRunning(Session& session, const PodName& name) {
  auto listed = ListPods(session, name.name_space);
  for (core::Pod& pod : listed.objects) {
    if (IsNamed(pod, name)) return std::move(pod);
  }
  return std::nullopt;
}

int WaitUntil(Session& session, const PodName& name, std::chrono::nanoseconds timeout,
              const PodPredicate& met) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  v1::WatchPodsRequest request;
  request.set_namespace_(name.name_space);
  const auto reader = session.stub().WatchPods(&context, request);
  v1::PodChange change;
  bool seen = false;
  while (reader->Read(&change)) {
    if (change.type() != v1::ADDED && change.type() != v1::MODIFIED) continue;
    if (!IsNamed(change.pod(), name)) continue;
    seen = true;
    if (!met(change.pod())) continue;
    context.TryCancel();
    return kOk;
  }
  const grpc::Status status = reader->Finish();
  if (!seen && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Report({grpc::StatusCode::NOT_FOUND, StrCat("pods \"", name.name, "\" not found")});
  }
  return ReportEnd(status, name.name);
}

int WaitUntilGone(Session& session, const core::Pod& pod, std::chrono::nanoseconds timeout) {
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  v1::WatchPodsRequest request;
  request.set_namespace_(pod.metadata().namespace_());
  request.set_name(pod.metadata().name());
  const auto reader = session.stub().WatchPods(&context, request);
  v1::PodChange change;
  bool there = false;
  while (reader->Read(&change)) {
    const bool same = change.pod().metadata().uid() == pod.metadata().uid();
    if (same && change.type() != v1::BOOKMARK) there = change.type() != v1::DELETED;
    const bool gone = (change.type() == v1::BOOKMARK || change.type() == v1::DELETED) && !there;
    if (!gone) continue;
    context.TryCancel();
    return kOk;
  }
  return ReportEnd(reader->Finish(), pod.metadata().name());
}

}  // namespace holdfast::agent::cli
