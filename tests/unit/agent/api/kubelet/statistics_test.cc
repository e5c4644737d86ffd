// SPDX-License-Identifier: Apache-2.0
// What metrics collectors and administrators read, in the forms of a kubelet.
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "agent/api/kubelet/agent_metrics.h"
#include "agent/api/kubelet/configz.h"
#include "agent/api/kubelet/node_logs.h"
#include "agent/api/kubelet/request_metrics.h"
#include "agent/api/kubelet/stats_metrics.h"
#include "agent/api/kubelet/stats_summary.h"
#include "agent/http/https_server.h"
#include "tests/support/metrics_fault.h"
#include "tests/unit/agent/api/kubelet/kubelet_fixture.h"

namespace holdfast::agent::api {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

NodeSample MakeSample() {
  NodeSample sample;
  sample.at = WallTime{std::chrono::milliseconds(1'700'000'000'123)};
  sample.node.at = sample.at;
  sample.node.used.cpu.nanos = 5'000'000'000;
  sample.node.used.memory.working_set = 1000;
  sample.node.used.memory.limit = 4000;
  sample.root_fs = FsUsage{10, 100, 90, 5, 50, 45};
  PodStats pod;
  pod.name = "p\"x";
  pod.pod_namespace = "ns";
  pod.uid = "u1";
  pod.cgroup = "/kubepods/podu1";
  pod.usage = UsageSample{sample.at, {}, 250'000'000};
  pod.usage->used.cpu.nanos = 2'500'000'000;
  pod.usage->used.threads = 7;
  pod.interfaces = {{.name = "eth0", .rx_bytes = 11, .tx_bytes = 22}};
  ContainerStats container;
  container.name = "c";
  container.id = "abc";
  container.image = "busybox";
  container.cgroup = "/kubepods/podu1/abc";
  container.started = WallTime{std::chrono::seconds(1'699'999'999)};
  container.usage = *pod.usage;
  container.usage.used.memory.working_set = 300;
  container.usage.used.memory.limit = 500;
  container.usage.used.cpu.quota_micros = 50'000;
  container.usage.used.cpu.pressure = runtime::Pressure{{1.5, 0, 0, 2'000'000}, {}};
  container.logs = FsUsage{10, 100, 4, 5, 50, 2};
  pod.containers.push_back(container);
  sample.pods.push_back(pod);
  return sample;
}

TEST(ResourceMetricsTest, HaveTheTimesOfTheSampleAndAKubeletsNames) {
  const std::string text = ResourceMetrics(MakeSample());
  EXPECT_THAT(text, HasSubstr("# TYPE container_cpu_usage_seconds_total counter\n"
                              "container_cpu_usage_seconds_total{container=\"c\",namespace=\"ns\","
                              "pod=\"p\\\"x\"} 2.5 1700000000123\n"));
  EXPECT_THAT(text, HasSubstr("\ncontainer_memory_working_set_bytes{container=\"c\",namespace="
                              "\"ns\",pod=\"p\\\"x\"} 300 1700000000123\n"));
  EXPECT_THAT(text, HasSubstr("\ncontainer_start_time_seconds{container=\"c\",namespace=\"ns\",pod="
                              "\"p\\\"x\"} 1699999999 1700000000123\n"));
  EXPECT_THAT(text, HasSubstr("\nnode_cpu_usage_seconds_total 5 1700000000123\n"));
  EXPECT_THAT(text, HasSubstr("\nnode_memory_working_set_bytes 1000 1700000000123\n"));
  EXPECT_THAT(text,
              HasSubstr("\npod_cpu_usage_seconds_total{namespace=\"ns\",pod=\"p\\\"x\"} 2.5 "));
  EXPECT_THAT(text, HasSubstr("\nresource_scrape_error 0\n"));
  EXPECT_EQ(test_support::MetricsFault(text), "");
}

TEST(CadvisorMetricsTest, HaveRowsForTheNodeThePodAndTheContainer) {
  MachineSpec machine;
  machine.cores = 2;
  const std::string text = CadvisorMetrics(MakeSample(), machine);
  const auto row = [](const char* container, const char* id, const char* image, const char* name,
                      const char* more, const char* value) {
    return std::string("{container=\"") + container + "\",id=\"" + id + "\",image=\"" + image +
           "\",name=\"" + name + "\",namespace=\"ns\",pod=\"p\\\"x\"" + more + "} " + value +
           " 1700000000123\n";
  };
  EXPECT_THAT(
      text, HasSubstr("container_cpu_usage_seconds_total" +
                      row("c", "/kubepods/podu1/abc", "busybox", "abc", ",cpu=\"total\"", "2.5")));
  EXPECT_THAT(text, HasSubstr("container_memory_working_set_bytes" +
                              row("c", "/kubepods/podu1/abc", "busybox", "abc", "", "300")));
  EXPECT_THAT(text, HasSubstr("container_network_receive_bytes_total" +
                              row("", "/kubepods/podu1", "", "", ",interface=\"eth0\"", "11")));
  EXPECT_THAT(text, HasSubstr("container_pressure_cpu_waiting_seconds_total" +
                              row("c", "/kubepods/podu1/abc", "busybox", "abc", "", "2")));
  EXPECT_THAT(text, HasSubstr("container_spec_memory_limit_bytes" +
                              row("", "/kubepods/podu1", "", "", "", "0")));
  EXPECT_THAT(text,
              HasSubstr("machine_cpu_cores{boot_id=\"\",machine_id=\"\",system_uuid=\"\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("container_cpu_usage_seconds_total{container=\"\",id=\"/\""));
  EXPECT_THAT(text, HasSubstr("container_spec_cpu_quota" +
                              row("c", "/kubepods/podu1/abc", "busybox", "abc", "", "50000")));
  EXPECT_THAT(text, Not(HasSubstr("container_spec_cpu_quota{container=\"\"")));  // it has none
  EXPECT_EQ(test_support::MetricsFault(text), "");
}

TEST(SummaryTest, HasTheFieldsOfTheStatsApi) {
  const auto summary = nlohmann::json::parse(SummaryJson(MakeSample(), "n1", false));
  EXPECT_EQ(summary["node"]["nodeName"], "n1");
  EXPECT_EQ(summary["node"]["memory"]["availableBytes"], 3000);
  EXPECT_EQ(summary["node"]["fs"]["usedBytes"], 90);
  const auto& pod = summary["pods"][0];
  EXPECT_EQ(pod["podRef"]["uid"], "u1");
  EXPECT_EQ(pod["cpu"]["usageNanoCores"], 250'000'000);
  EXPECT_EQ(pod["network"]["rxBytes"], 11);
  EXPECT_EQ(pod["network"]["interfaces"][0]["name"], "eth0");
  EXPECT_EQ(pod["process_stats"]["process_count"], 7);
  EXPECT_EQ(pod["ephemeral-storage"]["usedBytes"], 4);
  EXPECT_FALSE(pod["memory"].contains("availableBytes"));
  const auto& container = pod["containers"][0];
  EXPECT_EQ(container["startTime"], "2023-11-14T22:13:19Z");
  EXPECT_EQ(container["memory"]["availableBytes"], 200);
  EXPECT_EQ(container["cpu"]["psi"]["some"]["total"], 2'000'000);
  const auto brief = nlohmann::json::parse(SummaryJson(MakeSample(), "n1", true));
  EXPECT_FALSE(brief["pods"][0].contains("network"));
  EXPECT_FALSE(brief["node"].contains("fs"));
  EXPECT_EQ(brief["pods"][0]["containers"][0]["cpu"]["usageCoreNanoSeconds"], 2'500'000'000);
}

// Also of those who ask for CPU and memory only, as a kubelet's.
TEST(SummaryTest, AClaimIsNamedAndTakesNothingOfTheNode) {
  NodeSample sample = MakeSample();
  sample.pods[0].volumes = {{"scratch", FsUsage{10, 100, 7, 5, 50, 1}},
                            {"data", FsUsage{600, 1000, 400, 30, 40, 10}, "disk-0"}};
  const auto pod = nlohmann::json::parse(SummaryJson(sample, "n1", false))["pods"][0];
  EXPECT_FALSE(pod["volume"][0].contains("pvcRef"));
  EXPECT_EQ(pod["volume"][1]["pvcRef"], (nlohmann::json{{"name", "disk-0"}, {"namespace", "ns"}}));
  EXPECT_EQ(pod["volume"][1]["usedBytes"], 400);
  EXPECT_EQ(pod["ephemeral-storage"]["usedBytes"], 11);
}

TEST(VolumeMetricsTest, AreOfEachClaimOnce) {
  NodeSample sample = MakeSample();
  sample.pods[0].volumes = {{"scratch", FsUsage{10, 100, 7, 5, 50, 1}},
                            {"data", FsUsage{600, 1000, 400, 30, 40, 10}, "disk-0"}};
  sample.pods.push_back(sample.pods[0]);
  MetricsText text;
  AddVolumeMetrics(sample, text);
  EXPECT_THAT(text.text(),
              HasSubstr("# HELP kubelet_volume_stats_available_bytes [ALPHA] Number of "
                        "available bytes in the volume\n"));
  const auto row = [](const char* name, const char* value) {
    return StrCat("\nkubelet_volume_stats_", name,
                  "{namespace=\"ns\",persistentvolumeclaim=\"disk-0\"} ", value, "\n");
  };
  for (const auto& [name, value] :
       {std::pair("capacity_bytes", "1000"), std::pair("available_bytes", "600"),
        std::pair("used_bytes", "400"), std::pair("inodes", "40"), std::pair("inodes_free", "30"),
        std::pair("inodes_used", "10")}) {
    EXPECT_THAT(text.text(), HasSubstr(row(name, value)));
  }
  EXPECT_THAT(text.text(), Not(HasSubstr("scratch")));
  EXPECT_EQ(test_support::MetricsFault(text.text()), "");
}

TEST(SummaryTest, SwapIsOfTheNodeOfPodsAndOfContainers) {
  NodeSample sample = MakeSample();
  sample.machine.swap_total = 900;
  sample.machine.used.memory.swap = 200;
  sample.all_pods = sample.pods[0].usage;
  auto& pod = sample.pods[0];
  pod.usage->used.memory.swap = 50;
  pod.containers[0].usage.used.memory.swap = 40;
  pod.containers[0].usage.used.memory.swap_limit = 60;
  for (const bool brief : {false, true}) {
    const auto summary = nlohmann::json::parse(SummaryJson(sample, "n1", brief));
    EXPECT_EQ(summary["node"]["swap"]["swapAvailableBytes"], 700);
    EXPECT_EQ(summary["node"]["swap"]["swapUsageBytes"], 200);
    EXPECT_EQ(summary["node"]["swap"]["time"], "2023-11-14T22:13:20Z");
    EXPECT_TRUE(summary["node"]["systemContainers"][0].contains("swap"));
    EXPECT_EQ(summary["pods"][0]["swap"]["swapUsageBytes"], 50);
    EXPECT_FALSE(summary["pods"][0]["swap"].contains("swapAvailableBytes")) << "no limit";
    EXPECT_EQ(summary["pods"][0]["containers"][0]["swap"]["swapUsageBytes"], 40);
    EXPECT_EQ(summary["pods"][0]["containers"][0]["swap"]["swapAvailableBytes"], 20);
  }
}

TEST(AgentMetricsTest, CountPodsAndContainers) {
  auto pod = std::make_shared<k8s::io::api::core::v1::Pod>();
  pod->mutable_status()->set_phase("Running");
  pod->mutable_status()->add_containerstatuses()->mutable_state()->mutable_running();
  for (int i = 0; i < 3; ++i) pod->mutable_spec()->add_ephemeralcontainers();
  auto resized = std::make_shared<k8s::io::api::core::v1::Pod>();
  for (const auto& [type, reason] :
       {std::pair("PodResizePending", "Deferred"), std::pair("PodResizeInProgress", "Error")}) {
    auto* condition = resized->mutable_status()->add_conditions();
    condition->set_type(type);
    condition->set_reason(reason);
  }
  MetricsText metrics;
  AddAgentMetrics({pod, resized, resized}, {"n1", "0.1.0", 2, 7, 8}, metrics);
  const std::string& text = metrics.text();
  EXPECT_EQ(test_support::MetricsFault(text), "");
  EXPECT_THAT(text, HasSubstr("\nkubelet_running_pods 1\n"));
  EXPECT_THAT(text, HasSubstr("\nkubelet_pod_in_progress_resizes 2\n"));
  EXPECT_THAT(text, HasSubstr("\nkubelet_pod_pending_resizes{reason=\"deferred\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("infeasible")));
  EXPECT_THAT(text, HasSubstr("\nkubelet_managed_ephemeral_containers 3\n"));
  EXPECT_THAT(text, HasSubstr("\nkubelet_running_containers{container_state=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nkubelet_image_garbage_collected_total{reason=\"age\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("\nkubelet_image_garbage_collected_total{reason=\"space\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("kubelet_node_name{node=\"n1\"} 1\n"));
  EXPECT_EQ(CountedPath("/" + std::string(500, 'x')), "others");
  EXPECT_EQ(CountedPath("/metrics/" + std::string(500, 'x')), "metrics");
  EXPECT_EQ(CountedPath("/metrics/resource"), "metrics/resource");
}

TEST(ConfigzTest, ShowsAKubeletsConfiguration) {
  AgentConfig config;
  config.server.client_ca_file = "/ca";
  config.instance.cluster_dns = {"10.96.0.10"};
  const auto shown = nlohmann::json::parse(ConfigzJson(config));
  const auto& kubelet = shown["kubeletconfig"];
  EXPECT_EQ(kubelet["imageGCHighThresholdPercent"], 85);
  EXPECT_EQ(kubelet["imageMinimumGCAge"], "2m0s");
  EXPECT_EQ(kubelet["kind"], "KubeletConfiguration");
  EXPECT_EQ(kubelet["port"], 10250);
  EXPECT_EQ(kubelet["maxPods"], 110);
  EXPECT_EQ(kubelet["clusterDNS"][0], "10.96.0.10");
  EXPECT_EQ(kubelet["authentication"]["x509"]["clientCAFile"], "/ca");
  EXPECT_EQ(kubelet["authorization"]["webhook"]["cacheAuthorizedTTL"], "5m0s");
  EXPECT_EQ(kubelet["healthzPort"], 10248);
  EXPECT_EQ(shown["holdfast.dev"]["kind"], "AgentConfiguration");
}

TEST_F(KubeletApiTest, StatisticsAreReadOfThisMachine) {
  pods_.SetPod(MakePod("a"));
  reviews_.rights = {"client get stats", "client get metrics", "client get proxy",
                     "client create stats"};
  probe_metrics_ = [] { return std::string("# HELP probes\n"); };
  pod_metrics_ = [] { return std::string("# HELP pods\n"); };
  Start();
  const std::string summary = Ask("/stats/summary");
  ASSERT_THAT(summary, StartsWith("200 {"));
  const auto parsed = nlohmann::json::parse(summary.substr(4));
  EXPECT_GT(parsed["node"]["memory"]["workingSetBytes"], 0);
  EXPECT_GT(parsed["node"]["cpu"]["usageCoreNanoSeconds"], 0);
  EXPECT_TRUE(parsed["pods"].empty());  // it has no cgroup
  EXPECT_THAT(Ask("/stats/summary?only_cpu_and_memory=true", "", true, "POST"),
              StartsWith("200 {"));
  EXPECT_THAT(Ask("/metrics/resource"), HasSubstr("node_memory_working_set_bytes"));
  EXPECT_THAT(Ask("/metrics/cadvisor"),
              HasSubstr("machine_cpu_cores{boot_id=\"\",machine_id=\"\",system_uuid=\"\"} 2"));
  EXPECT_THAT(Ask("/metrics"), HasSubstr("kubelet_node_name{node=\"node-1\"} 1"));
  EXPECT_EQ(Ask("/metrics/probes"), "200 # HELP probes\n");
  const std::string metrics = Ask("/metrics");
  EXPECT_THAT(metrics, HasSubstr("# HELP pods\n"));
  EXPECT_THAT(metrics,
              HasSubstr("kubelet_http_requests_total{long_running=\"false\",method=\"GET\","
                        "path=\"metrics/probes\",server_type=\"readwrite\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("kubelet_http_requests_duration_seconds_count{long_running="
                                 "\"false\",method=\"GET\",path=\"metrics/probes\",server_type="
                                 "\"readwrite\"} 1\n"));
  EXPECT_THAT(Ask("/configz"), HasSubstr("kubeletconfig"));
}

// Spellings of a path are what they look like: what was permitted is what is answered.
TEST_F(KubeletApiTest, NoSpellingOfAPathSlipsPastTheAuthorizer) {
  pods_.SetPod(MakePod("a"));
  reviews_.rights = {"client get metrics", "client get log"};
  Start();
  for (const char* path : {"/metrics/../pods", "/metrics/%2e%2e/exec/a/b/c", "/metrics//pods"}) {
    EXPECT_EQ(Ask(path), "404 404 page not found\n") << path;
  }
  for (const char* path : {"/%70ods", "//pods", "/./pods", "/containerLogs/default/a/c", "/Pods"}) {
    EXPECT_THAT(Ask(path), StartsWith("403 ")) << path;
  }
  for (const char* path :
       {"/logs/../../etc/passwd", "/logs/%2e%2e/%2e%2e/etc/passwd", "/logs//etc/passwd"}) {
    EXPECT_EQ(Ask(path), "404 404 page not found\n") << path;
  }
}

TEST_F(KubeletApiTest, WhatIsOffSaysSo) {
  config_.server.system_log_handler = false;
  reviews_.rights = {"client get proxy", "client get log", "client get checkpoint"};
  Start();
  EXPECT_EQ(Ask("/logs/syslog"), "405 logs endpoint is disabled.\n");
  EXPECT_EQ(Ask("/debug/pprof/heap"), "405 profiling endpoint is disabled.\n");
  EXPECT_EQ(Ask("/debug/flags/v"), "405 flags endpoint is disabled.\n");
  EXPECT_EQ(Ask("/checkpoint/a/b/c"), "404 404 page not found\n");
}

// The files of a directory of the test, over TLS.
class NodeLogsTest : public KubeletApiTest {
 protected:
  NodeLogsTest() {
    std::filesystem::create_directories(directory_ + "/var/log/sub<dir");
    std::ofstream(directory_ + "/var/log/a&b.log") << "small\n";
    std::ofstream(directory_ + "/var/log/large.log") << std::string(1'000'000, 'x');
    std::ofstream(directory_ + "/secret") << "secret";
    std::filesystem::create_symlink("../../secret", directory_ + "/var/log/out");
    std::filesystem::create_symlink(directory_ + "/secret", directory_ + "/var/log/out2");
    std::filesystem::create_symlink("a&b.log", directory_ + "/var/log/in");
    ::mkfifo((directory_ + "/var/log/fifo").c_str(), 0600);
    ServingCertificateOptions serving;
    serving.directory = directory_ + "/pki";
    serving.names = {"node-1"};
    certificate_ = std::move(*ServingCertificate::Open(serving));
    HttpsServerOptions options;
    options.address = "127.0.0.1";
    options.handler = [this](const ExchangePtr& exchange) {
      logs_->Answer(exchange, std::string(exchange->request().target()).substr(1));
    };
    EXPECT_TRUE(pool_.Start());
    server_ = std::move(*HttpsServer::Start(std::move(options), *certificate_));
  }
  ~NodeLogsTest() override {
    server_->Stop();
    pool_.Finish();
    logs_.reset();
    server_.reset();
  }
  std::string Get(const std::string& target) {
    test_support::TlsClient client(server_->port());
    client.Send("GET /" + target + " HTTP/1.0\r\n\r\n");
    const std::string answer = client.ReadAll();
    const size_t split = answer.find("\r\n\r\n");
    return answer.substr(9, 3) + " " + answer.substr(std::min(split + 4, answer.size()));
  }

  std::unique_ptr<HttpsServer> server_;
  WorkerPool pool_{{.name = "test", .threads = 2}};
  std::unique_ptr<NodeLogs> logs_ = std::make_unique<NodeLogs>(directory_ + "/var/log", pool_);
};

TEST_F(NodeLogsTest, FilesAndDirectoriesAreShownAndNothingElse) {
  EXPECT_EQ(Get("a&b.log"), "200 small\n");
  EXPECT_EQ(Get("in"), "200 small\n");
  EXPECT_EQ(Get("large.log").size(), 4u + 1'000'000u);
  EXPECT_THAT(Get(""), HasSubstr("<a href=\"a&b.log\">a&amp;b.log</a>\n"));
  EXPECT_THAT(Get(""), HasSubstr("<a href=\"sub%3Cdir/\">sub&lt;dir/</a>\n"));
  EXPECT_THAT(Get("sub<dir"), StartsWith("301 "));
  EXPECT_THAT(Get("sub<dir/"), StartsWith("200 <!doctype html>"));
  for (const char* path : {"out", "out2", "../../secret", "/etc/passwd", "nothing"}) {
    EXPECT_EQ(Get(path), "404 404 page not found\n") << path;
  }
  EXPECT_EQ(Get("fifo"), "403 403 Forbidden\n");
}

}  // namespace
}  // namespace holdfast::agent::api
