// SPDX-License-Identifier: Apache-2.0
// Families of counters and histograms, as Prometheus reads them.
#include "agent/base/metric_family.h"

#include <gtest/gtest.h>

#include "tests/support/metrics_fault.h"

namespace holdfast::agent {
namespace {

using test_support::MetricsFault;

TEST(MetricFamilyTest, PrintsWhatWasCounted) {
  CounterFamily counts("a_total", "Counts.");
  HistogramFamily times("b_seconds", "Times.", ExponentialBuckets(.5, 2, 2));
  MetricsText nothing;
  counts.Print(nothing);
  times.Print(nothing);
  EXPECT_EQ(nothing.text(), "");
  counts.Add({{"k", "x\"\\\n"}});
  counts.Add({{"k", "x\"\\\n"}});
  counts.Add({{"k", "y"}});
  times.Observe(.5, {{"k", "x"}});
  times.Observe(7, {{"k", "x"}});
  times.Observe(1, {});
  times.Forget({});
  counts.Forget("k", "y");
  counts.Forget("x", "k");
  MetricsText text;
  counts.Print(text);
  times.Print(text);
  EXPECT_EQ(text.text(),
            "# HELP a_total Counts.\n# TYPE a_total counter\na_total{k=\"x\\\"\\\\\\n\"} 2\n"
            "# HELP b_seconds Times.\n# TYPE b_seconds histogram\n"
            "b_seconds_bucket{k=\"x\",le=\"0.5\"} 1\nb_seconds_bucket{k=\"x\",le=\"1\"} 1\n"
            "b_seconds_bucket{k=\"x\",le=\"+Inf\"} 2\nb_seconds_sum{k=\"x\"} 7.5\n"
            "b_seconds_count{k=\"x\"} 2\n");
  EXPECT_EQ(MetricsFault(text.text()), "");
}

// The reader that other tests rely on.
TEST(MetricsFaultTest, FindsWhatIsWrong) {
  const std::string head = "# HELP a A.\n# TYPE a gauge\n";
  EXPECT_EQ(MetricsFault(head + "a{k=\"v\",l=\"\\\"\"} 1 1700000000123\na 2e-05\n"), "");
  const std::string histogram = "# HELP h H.\n# TYPE h histogram\n";
  for (const std::string& bad :
       {std::string("a 1\n"), head + "b 1\n", head + "a{k=\"v\"\n", head + "a{k=\"v\"} x\n",
        head + "a{k=\"1\",k=\"2\"} 1\n", head + "a 1\na 1\n", head + head, head + "a 1",
        std::string("# TYPE a gauge\n"), std::string("# HELP a A.\n"), head + "a{le=\"1\"} 1\n",
        std::string("# HELP a A.\n# TYPE a counter\na 1\n"),
        histogram + "h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
        histogram + "h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n",
        histogram + "h_bucket{le=\"+Inf\"} 1\nh_count 1\n",
        histogram + "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n"}) {
    EXPECT_NE(MetricsFault(bad), "") << bad;
  }
}

}  // namespace
}  // namespace holdfast::agent
