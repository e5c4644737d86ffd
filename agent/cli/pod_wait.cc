// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/pod_wait.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "agent/cli/object.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

int ReportEnd(const grpc::Status& status, const std::string& pod) {
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) return Report(status);
  std::fprintf(stderr, "error: timed out waiting for the condition on pods/%s\n", pod.c_str());
  return kFailed;
}

// No more than these pods, as far as one watch can say it.
v1::WatchPodsRequest RequestFor(const std::vector<core::Pod>& pods) {
  v1::WatchPodsRequest request;
  const std::string& name_space = pods.front().metadata().namespace_();
  const bool same = std::all_of(pods.begin(), pods.end(), [&](const core::Pod& pod) {
    return pod.metadata().namespace_() == name_space;
  });
  if (same) request.set_namespace_(name_space);
  if (pods.size() == 1) request.set_name(pods.front().metadata().name());
  return request;
}

bool IsNamed(const core::Pod& pod, const PodName& name) {
  return NameFit(pod, name) >= Fit::kWithoutNode;
}

}  // namespace

const core::Pod* FindRunning(const std::vector<core::Pod>& pods, const PodName& name) {
  const auto found =
      std::find_if(pods.begin(), pods.end(), [&](const auto& pod) { return IsNamed(pod, name); });
  return found == pods.end() ? nullptr : &*found;
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
    GiveUp(context, *reader);
    return kOk;
  }
  const grpc::Status status = reader->Finish();
  if (!seen && status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return Report({grpc::StatusCode::NOT_FOUND, StrCat("pods \"", name.name, "\" not found")});
  }
  return ReportEnd(status, name.name);
}

int WaitUntilGone(Session& session, const std::vector<core::Pod>& pods,
                  std::chrono::nanoseconds timeout) {
  if (pods.empty()) return kOk;
  grpc::ClientContext context;
  SetDeadline(context, timeout);
  v1::WatchPodsRequest request = RequestFor(pods);
  const auto reader = session.stub().WatchPods(&context, request);
  std::map<std::string, bool> there;  // by UID; false: not seen
  for (const core::Pod& pod : pods) there[pod.metadata().uid()] = false;
  const auto all_gone = [&] {
    return std::none_of(there.begin(), there.end(), [](const auto& pod) { return pod.second; });
  };
  bool listed = false;
  v1::PodChange change;
  while (reader->Read(&change)) {
    const auto pod = there.find(change.pod().metadata().uid());
    if (change.type() == v1::BOOKMARK) {
      listed = true;  // what was not seen until now is gone
    } else if (pod != there.end()) {
      pod->second = change.type() != v1::DELETED;
    }
    if (!listed || !all_gone()) continue;
    GiveUp(context, *reader);
    return kOk;
  }
  const grpc::Status status = reader->Finish();
  if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) return Report(status);
  for (const core::Pod& pod : pods) {
    if (!listed || there[pod.metadata().uid()]) (void)ReportEnd(status, pod.metadata().name());
  }
  return kFailed;
}

}  // namespace holdfast::agent::cli
