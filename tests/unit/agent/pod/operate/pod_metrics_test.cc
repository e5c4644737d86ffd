// SPDX-License-Identifier: Apache-2.0
// What is counted of operations and turns, by a kubelet's names.
#include "agent/pod/operate/pod_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/support/metrics_fault.h"

namespace holdfast::agent {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

class PodMetricsTest : public ::testing::Test {
 protected:
  PodMetricsTest() {
    pod_.mutable_spec()->add_containers()->set_name("app");
    pod_.mutable_spec()->add_initcontainers()->set_name("init");
  }
  void Note(Action::Kind kind, const std::string& container, OperationEnd end, seconds took) {
    Action action;
    action.kind = kind;
    action.container = container;
    metrics_.NoteOperation(pod_, action, end, took);
  }

  corev1::Pod pod_;
  PodMetrics metrics_;
};

TEST_F(PodMetricsTest, NothingIsShownOfWhatHasNotHappened) { EXPECT_EQ(metrics_.Text(), ""); }

corev1::Pod WithAmounts(const std::string& memory, const std::string& cpu_limit) {
  corev1::Pod pod;
  for (auto* container :
       {pod.mutable_spec()->add_containers(), pod.mutable_spec()->add_initcontainers()}) {
    container->set_name("app");
    auto* resources = container->mutable_resources();
    if (!memory.empty()) (*resources->mutable_requests())["memory"].set_string(memory);
    if (!cpu_limit.empty()) (*resources->mutable_limits())["cpu"].set_string(cpu_limit);
  }
  return pod;
}

TEST_F(PodMetricsTest, CountsWhatOfAPodsAmountsIsToChange) {
  metrics_.NoteChange(WithAmounts("1Mi", ""), WithAmounts("1024Ki", "0"));
  EXPECT_EQ(metrics_.Text(), "") << "the same, written in another way";
  metrics_.NoteChange(WithAmounts("1Mi", ""), WithAmounts("2Mi", "500m"));
  metrics_.NoteChange(WithAmounts("2Mi", "500m"), WithAmounts("1Mi", ""));
  const std::string text = metrics_.Text();
  const auto row = [](const char* operation, const char* requirement, const char* resource) {
    return StrCat("\nkubelet_container_requested_resizes_total{operation=\"", operation,
                  "\",requirement=\"", requirement, "\",resource=\"", resource, "\"} 2\n");
  };
  EXPECT_THAT(text, HasSubstr(row("increase", "requests", "memory")));
  EXPECT_THAT(text, HasSubstr(row("decrease", "requests", "memory")));
  EXPECT_THAT(text, HasSubstr(row("add", "limits", "cpu")));
  EXPECT_THAT(text, HasSubstr(row("remove", "limits", "cpu")));
  EXPECT_EQ(test_support::MetricsFault(text), "");
}

TEST_F(PodMetricsTest, CountsResizesAndWhatBecameOfThem) {
  using Verdict = ResizeVerdict::How;
  OperationEnd done, failed, cancelled;
  failed.how = OperationEnd::How::kFailed;
  cancelled.how = OperationEnd::How::kCancelled;
  Note(Action::Kind::kResize, "", done, seconds(2));
  Note(Action::Kind::kResize, "", failed, seconds(1));
  Note(Action::Kind::kResize, "", cancelled, seconds(1));
  metrics_.NoteResizeVerdict({Verdict::kGiven, "", ""});  // it had not waited
  metrics_.NoteResizeVerdict({Verdict::kGiven, "", "pods_removed"});
  metrics_.NoteResizeVerdict({Verdict::kInfeasible, "no", "qos_class"});
  metrics_.NoteSleepGivenUp();
  const std::string text = metrics_.Text();
  for (const char* line :
       {"\nkubelet_pod_resize_duration_milliseconds_bucket{success=\"true\",le=\"1000\"} 0\n",
        "\nkubelet_pod_resize_duration_milliseconds_bucket{success=\"true\",le=\"2000\"} 1\n",
        "\nkubelet_pod_resize_duration_milliseconds_sum{success=\"false\"} 1000\n",
        "\nkubelet_pod_resize_duration_milliseconds_count{success=\"false\"} 1\n",
        "\nkubelet_pod_deferred_accepted_resizes_total{retry_trigger=\"pods_removed\"} 1\n",
        "\nkubelet_pod_infeasible_resizes_total{reason_detail=\"qos_class\"} 1\n",
        "\nkubelet_sleep_action_terminated_early_total 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(test_support::MetricsFault(text), "");
}

TEST_F(PodMetricsTest, CountsOperationsThatAreOver) {
  OperationEnd done, failed, cancelled, pulled;
  failed.how = OperationEnd::How::kFailed;
  failed.start_failure = StartFailure{StartFailure::Phase::kConfig, Internal("no")};
  cancelled.how = OperationEnd::How::kCancelled;
  pulled.pulled = PulledFact{{}, {}, 11u << 20};
  Note(Action::Kind::kStart, "app", done, seconds(2));
  Note(Action::Kind::kStart, "init", failed, seconds(1));
  Note(Action::Kind::kStart, "app", cancelled, seconds(1));
  Note(Action::Kind::kPull, "app", pulled, seconds(7));
  Note(Action::Kind::kEnsureSandbox, "", done, seconds(1));
  Note(Action::Kind::kEnsureVolumes, "", done, seconds(1));  // a kubelet asks no runtime for it
  metrics_.NoteTurn("create", std::chrono::milliseconds(3));
  metrics_.NotePodRunning(seconds(4));
  metrics_.NoteEviction({.why = "", .signal = "memory.available"});
  metrics_.NoteEviction({.why = "", .signal = "cpu", .reason = kPreempting});
  OperationEnd fell_back;
  fell_back.events = {{true, "LifecycleHTTPFallback", "it was HTTP", "app", false}};
  Note(Action::Kind::kPreStop, "app", fell_back, seconds(1));
  const std::string text = metrics_.Text();
  for (const char* line :
       {"\nkubelet_lifecycle_handler_http_fallbacks_total 1\n",
        "kubelet_evictions{eviction_signal=\"memory.available\"} 1\n",
        "kubelet_preemptions{preemption_signal=\"cpu\"} 1\n",
        "kubelet_runtime_operations_total{operation_type=\"start_container\"} 2\n",
        "kubelet_runtime_operations_errors_total{operation_type=\"start_container\"} 1\n",
        "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"start_container\"} 3\n",
        "kubelet_started_containers_total{container_type=\"container\"} 1\n",
        "kubelet_started_containers_total{container_type=\"init_container\"} 1\n",
        "kubelet_started_containers_errors_total{code=\"CreateContainerConfigError\","
        "container_type=\"init_container\"} 1\n",
        "kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes=\"10MB-100MB\",le=\"10\"} "
        "1\n",
        "kubelet_run_podsandbox_duration_seconds_count{runtime_handler=\"\"} 1\n",
        "\nkubelet_started_pods_total 1\n",
        "kubelet_pod_worker_duration_seconds_bucket{operation_type=\"create\",le=\"0.005\"} 1\n",
        "kubelet_pod_start_duration_seconds_bucket{le=\"3\"} 0\n",
        "kubelet_pod_start_duration_seconds_bucket{le=\"4\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, Not(HasSubstr("volume")));
  EXPECT_EQ(test_support::MetricsFault(text), "");
}

}  // namespace
}  // namespace holdfast::agent
