// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/configz.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "agent/proxy/proxy_answers.h"
#include "tests/fakes/fake_service_back_end.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

// Every path of a JSON object, "ipvs.scheduler"; of an array or an empty object its own.
void AddPaths(const Json& json, const std::string& prefix, std::set<std::string>& out) {
  if (!json.is_object() || json.empty()) {
    out.insert(prefix);
    return;
  }
  for (const auto& [key, value] : json.items()) {
    AddPaths(value, prefix.empty() ? key : prefix + "." + key, out);
  }
}

AgentConfig Config() {
  AgentConfig config;
  config.instance.node_name = "n1";
  config.instance.pod_cidrs = {"10.1.0.0/16", "fd01::/64"};
  config.proxy.mode = "nftables";
  config.proxy.ipvs.scheduler = "mh";
  config.proxy.ipvs.strict_arp = true;
  config.proxy.ipvs.tcp_timeout = std::chrono::hours(1);
  return config;
}

TEST(ConfigzTest, ShowsTheModeInForceInBothParts) {
  const Json json = Json::parse(ConfigzText(Config(), "iptables"));
  EXPECT_EQ(json.size(), 2u);
  EXPECT_EQ(json["holdfast.dev"]["kind"], "AgentConfiguration");
  EXPECT_EQ(json["holdfast.dev"]["nodeName"], "n1");
  EXPECT_EQ(json["holdfast.dev"]["proxyMode"], "iptables");
  const Json& proxy = json["kubeproxy.config.k8s.io"];
  EXPECT_EQ(proxy["apiVersion"], "kubeproxy.config.k8s.io/v1alpha1");
  EXPECT_EQ(proxy["kind"], "KubeProxyConfiguration");
  EXPECT_EQ(proxy["mode"], "iptables");
  EXPECT_EQ(proxy["hostnameOverride"], "n1");
  EXPECT_EQ(proxy["clusterCIDR"], "10.1.0.0/16,fd01::/64");
  EXPECT_EQ(proxy["nodePortAddresses"], Json::array({"primary"}));
  EXPECT_EQ(proxy["metricsBindAddress"], "127.0.0.1:10249");
  EXPECT_EQ(proxy["ipvs"]["scheduler"], "mh");
  EXPECT_EQ(proxy["ipvs"]["strictARP"], true);
  EXPECT_EQ(proxy["ipvs"]["tcpTimeout"], "3600s");
  EXPECT_EQ(proxy["iptables"]["masqueradeBit"], 14);
  EXPECT_EQ(proxy["iptables"]["localhostNodePorts"], false);
  EXPECT_EQ(proxy["nftables"]["syncPeriod"], "10s");
}

// What kube-proxy 1.36.3 writes with --write-config-to.
TEST(ConfigzTest, HasEveryFieldOfKubeProxysAndNoOther) {
  const std::set<std::string> wanted = {"apiVersion",
                                        "bindAddress",
                                        "bindAddressHardFail",
                                        "clientConnection.acceptContentTypes",
                                        "clientConnection.burst",
                                        "clientConnection.contentType",
                                        "clientConnection.kubeconfig",
                                        "clientConnection.qps",
                                        "clusterCIDR",
                                        "configSyncPeriod",
                                        "conntrack.maxPerCore",
                                        "conntrack.min",
                                        "conntrack.tcpBeLiberal",
                                        "conntrack.tcpCloseWaitTimeout",
                                        "conntrack.tcpEstablishedTimeout",
                                        "conntrack.udpStreamTimeout",
                                        "conntrack.udpTimeout",
                                        "detectLocal.bridgeInterface",
                                        "detectLocal.interfaceNamePrefix",
                                        "detectLocalMode",
                                        "enableProfiling",
                                        "healthzBindAddress",
                                        "hostnameOverride",
                                        "iptables.localhostNodePorts",
                                        "iptables.masqueradeAll",
                                        "iptables.masqueradeBit",
                                        "iptables.minSyncPeriod",
                                        "iptables.syncPeriod",
                                        "ipvs.excludeCIDRs",
                                        "ipvs.minSyncPeriod",
                                        "ipvs.scheduler",
                                        "ipvs.strictARP",
                                        "ipvs.syncPeriod",
                                        "ipvs.tcpFinTimeout",
                                        "ipvs.tcpTimeout",
                                        "ipvs.udpTimeout",
                                        "kind",
                                        "logging.flushFrequency",
                                        "logging.format",
                                        "logging.options.json.infoBufferSize",
                                        "logging.options.text.infoBufferSize",
                                        "logging.verbosity",
                                        "metricsBindAddress",
                                        "mode",
                                        "nftables.masqueradeAll",
                                        "nftables.masqueradeBit",
                                        "nftables.minSyncPeriod",
                                        "nftables.syncPeriod",
                                        "nodePortAddresses",
                                        "oomScoreAdj",
                                        "portRange",
                                        "showHiddenMetricsForVersion",
                                        "winkernel.enableDSR",
                                        "winkernel.forwardHealthCheckVip",
                                        "winkernel.networkName",
                                        "winkernel.rootHnsEndpointName",
                                        "winkernel.sourceVip"};
  std::set<std::string> paths;
  const Json json = Json::parse(ConfigzText(Config(), "nftables"));
  AddPaths(json["kubeproxy.config.k8s.io"], "", paths);
  EXPECT_EQ(paths, wanted);
}

TEST(ConfigzTest, BytesThatAreNoTextAreReplaced) {
  AgentConfig config = Config();
  config.proxy.ipvs.scheduler = "\xff";
  EXPECT_TRUE(Json::accept(ConfigzText(config, "ipvs")));
}

TEST(ConfigzTest, IsAnsweredBesideTheMetricsAndNotToLoadBalancers) {
  FakeServiceBackEnd back_end;
  const SystemClock clock;
  const ServiceDriverOptions options;
  ServiceDriver driver(back_end, clock, options, {});
  ProxyAnswers answers{driver, clock, std::make_shared<ProxyMetrics>(), [] { return "nftables"; }};
  answers.config = Config();
  const auto reply = AnswerMetrics(answers, "/configz");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at(0),
            (std::pair<std::string, std::string>("Content-Type", "application/json")));
  EXPECT_EQ(reply.body, ConfigzText(Config(), "nftables"));
  EXPECT_EQ(AnswerHealth(answers, "/configz").status, 404);
}

}  // namespace
}  // namespace holdfast::agent
