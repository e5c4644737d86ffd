// SPDX-License-Identifier: Apache-2.0
// What is counted of operations and turns, by a kubelet's names.
#include "agent/pod/operate/pod_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
