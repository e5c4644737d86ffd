// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/proxy_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetricsTextTest, WritesPrometheusFormat) {
  MetricsText text;
  text.Begin("requests_total", "What was asked", "counter");
  text.Add(3, {{"path", "a\"b\\c\nd"}, {"code", "200"}});
  Histogram times({0.5, 1});
  for (const double value : {0.25, 0.5, 0.75, 8.0}) times.Observe(value);
  text.Begin("times_seconds", "How long", "histogram");
  text.Add(times);
  EXPECT_EQ(text.text(),
            "# HELP requests_total What was asked\n# TYPE requests_total counter\n"
            "requests_total{path=\"a\\\"b\\\\c\\nd\",code=\"200\"} 3\n"
            "# HELP times_seconds How long\n# TYPE times_seconds histogram\n"
            "times_seconds_bucket{le=\"0.5\"} 2\ntimes_seconds_bucket{le=\"1\"} 3\n"
            "times_seconds_bucket{le=\"+Inf\"} 4\ntimes_seconds_sum 9.5\ntimes_seconds_count 4\n");
}

ProxyMetrics::Now At(const std::string& mode) {
  ProxyMetrics::Now now;
  now.mode = mode;
  now.families = {"IPv4", "IPv6"};
  return now;
}

TEST(ProxyMetricsTest, CountsSyncsByKind) {
  ProxyMetrics metrics;
  metrics.NoteQueued({seconds(99)});
  metrics.NoteSync(true, milliseconds(3), {seconds(100)}, {});
  metrics.NoteSync(false, milliseconds(1), {seconds(101)}, {{seconds(100)}, {seconds(41)}});
  const std::string text = metrics.Text(At("nftables"));
  for (const char* line :
       {"kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.001\"} 1",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv6\",le=\"16.384\"} 2",
        "kubeproxy_sync_full_proxy_rules_duration_seconds_sum{ip_family=\"IPv4\"} 0.003",
        "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
        "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"1\"} 1",
        "kubeproxy_network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"60\"} 2",
        "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv6\"} 101",
        "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family=\"IPv4\"} 99"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(ProxyMetricsTest, NamesFailuresAfterTheMode) {
  ProxyMetrics metrics;
  metrics.NoteFailure("nftables", false);
  metrics.NoteFailure("iptables", true);
  metrics.NoteFailure("iptables", false);
  const std::string nft = metrics.Text(At("nftables"));
  EXPECT_THAT(nft, HasSubstr("rules_nftables_sync_failures_total{ip_family=\"IPv4\"} 1\n"));
  EXPECT_THAT(nft, Not(HasSubstr("iptables")));
  const std::string iptables = metrics.Text(At("iptables"));
  EXPECT_THAT(iptables, HasSubstr("rules_iptables_restore_failures_total{ip_family=\"IPv4\"} 2\n"));
  EXPECT_THAT(iptables,
              HasSubstr("rules_iptables_partial_restore_failures_total{ip_family=\"IPv4\"} 1\n"));
}

TEST(ProxyMetricsTest, CountsRulesWhereTheModeDoes) {
  ProxyMetrics metrics;
  metrics.NoteRules({{false, "nat", 120, 7}, {true, "filter", 9, 0}});
  ProxyMetrics::Now now = At("iptables");
  const std::string both = metrics.Text(now);
  EXPECT_THAT(both, HasSubstr("kubeproxy_sync_proxy_rules_iptables_total{ip_family=\"IPv4\","
                              "table=\"nat\"} 120\n"));
  EXPECT_THAT(both, HasSubstr("iptables_total{ip_family=\"IPv6\",table=\"filter\"} 9\n"));
  EXPECT_THAT(both, HasSubstr("iptables_last{ip_family=\"IPv4\",table=\"nat\"} 7\n"));
  now.families = {"IPv4"};
  EXPECT_THAT(metrics.Text(now), Not(HasSubstr("table=\"filter\"")));
  metrics.NoteRules({});
  EXPECT_THAT(metrics.Text(now), Not(HasSubstr("iptables_total")));
}

TEST(ProxyMetricsTest, TellsProbesFlowsAndTheMoment) {
  ProxyMetrics metrics;
  metrics.NoteHealthz(200);
  metrics.NoteHealthz(503);
  metrics.NoteLivez(200);
  metrics.NoteFlows(milliseconds(2), 5);
  ProxyMetrics::Now now = At("nftables");
  now.service_changes = 7;
  now.pending_endpoint_changes = 2;
  now.no_local_external["IPv4"] = 3;
  const std::string text = metrics.Text(now);
  for (const char* line :
       {"kubeproxy_proxy_healthz_total{code=\"503\"} 1",
        "kubeproxy_proxy_livez_total{code=\"200\"} 1",
        "kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 5",
        "kubeproxy_sync_proxy_rules_service_changes_total 7",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 2",
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"external\","
        "ip_family=\"IPv4\"} 3",
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total{traffic_policy=\"internal\","
        "ip_family=\"IPv4\"} 0"}) {
    EXPECT_THAT(text, HasSubstr(std::string(line) + "\n"));
  }
}

TEST(ProxyMetricsTest, TellsWhatIsAnnouncedWhereSomethingIs) {
  const ProxyMetrics metrics;
  ProxyMetrics::Now now = At("nftables");
  EXPECT_EQ(metrics.Text(now).find("holdfast_announced"), std::string::npos);
  now.announced = {{*IpAddress::Parse("198.51.100.7"), "eth0", true, "", 12, 2}};
  const std::string text = metrics.Text(now);
  const std::string labels = "{address=\"198.51.100.7\",interface=\"eth0\"} ";
  EXPECT_THAT(text, HasSubstr("holdfast_announced_address_held" + labels + "1\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_announced_address_taken_total" + labels + "2\n"));
  EXPECT_THAT(text, HasSubstr("holdfast_announced_address_answers_total" + labels + "12\n"));
}

}  // namespace
}  // namespace holdfast::agent
