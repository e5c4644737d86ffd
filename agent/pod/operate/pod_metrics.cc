// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/operate/pod_metrics.h"

#include "agent/kube/pod_resources.h"
#include "agent/pod/decide/memory.h"
#include "agent/pod/decide/spec_containers.h"
#include "agent/pod/operate/hook.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

constexpr uint64_t kMebibyte = 1u << 20;
constexpr struct {
  uint64_t above_mebibytes;
  const char* name;
} kImageSizes[] = {{100 * 1024, "GT100GB"},  {60 * 1024, "60GB-100GB"}, {40 * 1024, "40GB-60GB"},
                   {30 * 1024, "30GB-40GB"}, {20 * 1024, "20GB-30GB"},  {10 * 1024, "10GB-20GB"},
                   {5 * 1024, "5GB-10GB"},   {1024, "1GB-5GB"},         {500, "500MB-1GB"},
                   {100, "100MB-500MB"},     {10, "10MB-100MB"},        {0, "0-10MB"}};

const char* SizeName(uint64_t bytes) {
  for (const auto& [above_mebibytes, name] : kImageSizes) {
    if (bytes > above_mebibytes * kMebibyte) return name;
  }
  return "N/A";
}

// What a kubelet asks a runtime for instead; nullptr for what it does itself.
const char* OperationType(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::kEnsureSandbox:
      return "run_podsandbox";
    case Action::Kind::kPull:
      return "pull_image";
    case Action::Kind::kStart:
      return "start_container";
    case Action::Kind::kSignal:
    case Action::Kind::kKill:
      return "stop_container";
    case Action::Kind::kRemove:
      return "remove_container";
    case Action::Kind::kRemoveSandbox:
      return "remove_podsandbox";
    default:
      return nullptr;
  }
}

const char* ContainerType(const corev1::Pod& pod, const std::string& name) {
  const SpecContainer container = ContainerNamed(pod, name);
  if (container.in_init_list()) return "init_container";
  return container.role == Role::kEphemeral || container.spec == nullptr ? "ephemeral_container"
                                                                         : "container";
}

const char* CodeOf(const OperationEnd& end) {
  return ReasonOf(end.start_failure ? end.start_failure->phase : StartFailure::Phase::kStart);
}

kube::Amount AmountIn(const kube::ResourceList& list, const char* resource) {
  const auto amount = list.find(resource);
  return amount == list.end() ? kube::Amount() : amount->second;
}

// nullptr: none.
const char* ChangeOf(const kube::Amount& old, const kube::Amount& fresh) {
  if (fresh == old) return nullptr;
  if (fresh.IsZero()) return "remove";
  if (old.IsZero()) return "add";
  return fresh < old ? "decrease" : "increase";
}

double ToSeconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

PodMetrics::PodMetrics()
    : pulls_(
          "kubelet_image_pull_duration_seconds", "[ALPHA] Duration in seconds to pull an image.",
          {1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}),
      pod_starts_("kubelet_pod_start_duration_seconds",
                  "[ALPHA] Duration in seconds from kubelet seeing a pod for the first time to the "
                  "pod starting to run",
                  {0.5, 1,   2,   3,   4,   5,   6,   8,   10,   20,   30,   45,  60,
                   120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}),
      turns_("kubelet_pod_worker_duration_seconds",
             "[ALPHA] Duration in seconds to sync a single pod. Broken down by operation type: "
             "create, update, or sync",
             DefaultBuckets()),
      sandboxes_("kubelet_run_podsandbox_duration_seconds",
                 "[ALPHA] Duration in seconds of the run_podsandbox operations. Broken down by "
                 "RuntimeClass.Handler.",
                 DefaultBuckets()),
      operations_("kubelet_runtime_operations_total",
                  "[ALPHA] Cumulative number of runtime operations by operation type."),
      operation_errors_("kubelet_runtime_operations_errors_total",
                        "[ALPHA] Cumulative number of runtime operation errors by operation type."),
      operation_durations_("kubelet_runtime_operations_duration_seconds",
                           "[ALPHA] Duration in seconds of runtime operations. Broken down by "
                           "operation type.",
                           ExponentialBuckets(.005, 2.5, 14)),
      started_pods_("kubelet_started_pods_total", "[ALPHA] Cumulative number of pods started"),
      started_pod_errors_("kubelet_started_pods_errors_total",
                          "[ALPHA] Cumulative number of errors when starting pods"),
      started_containers_("kubelet_started_containers_total",
                          "[ALPHA] Cumulative number of containers started"),
      started_container_errors_("kubelet_started_containers_errors_total",
                                "[ALPHA] Cumulative number of errors when starting containers"),
      evictions_("kubelet_evictions",
                 "[ALPHA] Cumulative number of pod evictions by eviction signal"),
      preemptions_("kubelet_preemptions",
                   "[ALPHA] Cumulative number of pod preemptions by preemption resource"),
      hook_fallbacks_("kubelet_lifecycle_handler_http_fallbacks_total",
                      "[ALPHA] The number of times lifecycle handlers successfully fell back to "
                      "http from https."),
      sleeps_given_up_("kubelet_sleep_action_terminated_early_total",
                       "[ALPHA] The number of times lifecycle sleep handler got terminated before "
                       "it finishes"),
      requested_resizes_(
          "kubelet_container_requested_resizes_total",
          "[ALPHA] Number of requested resizes, counted at the container level. "
          "Different resources on the same container are counted separately. The "
          "'requirement' label refers to 'memory' or 'limits'; the 'operation' label "
          "can be one of 'add', 'remove', 'increase' or 'decrease'."),
      infeasible_resizes_("kubelet_pod_infeasible_resizes_total",
                          "[ALPHA] Number of infeasible resizes for pods."),
      accepted_resizes_("kubelet_pod_deferred_accepted_resizes_total",
                        "[ALPHA] Cumulative number of resizes that were accepted after being "
                        "deferred."),
      resize_durations_("kubelet_pod_resize_duration_milliseconds",
                        "[ALPHA] Duration in milliseconds to actuate a pod resize",
                        {10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000,
                         300000, 600000}) {}

void PodMetrics::NoteTurn(const char* type, std::chrono::nanoseconds took) {
  turns_.Observe(ToSeconds(took), {{"operation_type", type}});
}

void PodMetrics::NotePodRunning(std::chrono::nanoseconds took) {
  pod_starts_.Observe(ToSeconds(took), {});
}

void PodMetrics::NoteOperation(const corev1::Pod& pod, const Action& action,
                               const OperationEnd& end, std::chrono::nanoseconds took) {
  for (const EventNote& event : end.events) {
    if (event.reason == kHookFellBack) hook_fallbacks_.Add({});
  }
  if (action.kind == Action::Kind::kResize && end.how != OperationEnd::How::kCancelled) {
    const bool done = end.how == OperationEnd::How::kDone;
    resize_durations_.Observe(
        static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()),
        {{"success", done ? "true" : "false"}});
  }
  const char* const type = OperationType(action.kind);
  if (type == nullptr || end.how == OperationEnd::How::kCancelled) return;
  const bool failed = end.how == OperationEnd::How::kFailed;
  const MetricLabels labels = {{"operation_type", type}};
  operations_.Add(labels);
  operation_durations_.Observe(ToSeconds(took), labels);
  if (failed) operation_errors_.Add(labels);
  if (action.kind == Action::Kind::kStart) NoteStart(pod, action, end);
  if (action.kind == Action::Kind::kEnsureSandbox) {
    sandboxes_.Observe(ToSeconds(took), {{"runtime_handler", ""}});
    started_pods_.Add({});
    if (failed) started_pod_errors_.Add({});
  }
  if (end.pulled) {
    pulls_.Observe(ToSeconds(took), {{"image_size_in_bytes", SizeName(end.pulled->size_bytes)}});
  }
}

void PodMetrics::NoteStart(const corev1::Pod& pod, const Action& action, const OperationEnd& end) {
  const char* const type = ContainerType(pod, action.container);
  started_containers_.Add({{"container_type", type}});
  if (end.how != OperationEnd::How::kFailed) return;
  started_container_errors_.Add({{"code", CodeOf(end)}, {"container_type", type}});
}

void PodMetrics::NoteSleepGivenUp() { sleeps_given_up_.Add({}); }

void PodMetrics::NoteChange(const corev1::Pod& before, const corev1::Pod& after) {
  const auto compare = [this](const kube::ResourceList& old, const kube::ResourceList& fresh,
                              const char* requirement) {
    for (const char* resource : {"memory", "cpu"}) {
      const char* const change = ChangeOf(AmountIn(old, resource), AmountIn(fresh, resource));
      if (change == nullptr) continue;
      requested_resizes_.Add(
          {{"operation", change}, {"requirement", requirement}, {"resource", resource}});
    }
  };
  const auto compare_all = [&](const auto& olds, const auto& fresh) {
    for (const corev1::Container& old : olds) {
      for (const corev1::Container& now : fresh) {
        if (now.name() != old.name()) continue;
        compare(kube::Requests(old), kube::Requests(now), "requests");
        compare(kube::Limits(old), kube::Limits(now), "limits");
      }
    }
  };
  compare_all(before.spec().initcontainers(), after.spec().initcontainers());
  compare_all(before.spec().containers(), after.spec().containers());
}

void PodMetrics::NoteResizeVerdict(const ResizeVerdict& verdict) {
  if (verdict.cause.empty()) return;
  if (verdict.how == ResizeVerdict::How::kGiven) {
    accepted_resizes_.Add({{"retry_trigger", verdict.cause}});
  } else {
    infeasible_resizes_.Add({{"reason_detail", verdict.cause}});
  }
}

void PodMetrics::NoteEviction(const Eviction& eviction) {
  if (eviction.reason == kPreempting) {
    preemptions_.Add({{"preemption_signal", eviction.signal}});
  } else {
    evictions_.Add({{"eviction_signal", eviction.signal}});
  }
}

std::string PodMetrics::Text() const {
  MetricsText text;
  evictions_.Print(text);
  preemptions_.Print(text);
  hook_fallbacks_.Print(text);
  sleeps_given_up_.Print(text);
  requested_resizes_.Print(text);
  infeasible_resizes_.Print(text);
  accepted_resizes_.Print(text);
  resize_durations_.Print(text);
  pulls_.Print(text);
  pod_starts_.Print(text);
  turns_.Print(text);
  sandboxes_.Print(text);
  operation_durations_.Print(text);
  operation_errors_.Print(text);
  operations_.Print(text);
  started_container_errors_.Print(text);
  started_containers_.Print(text);
  started_pod_errors_.Print(text);
  started_pods_.Print(text);
  return text.text();
}

}  // namespace holdfast::agent
