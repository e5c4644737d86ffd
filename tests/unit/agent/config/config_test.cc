// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/config/fields.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr char kHead[] = "apiVersion: holdfast.dev/v1\nkind: AgentConfiguration\n";

std::string ErrorOf(const std::string& text) {
  AgentConfig config;
  const auto read = ReadConfigText(text, "c.yaml", config);
  return read ? "" : read.error().message();
}

CommandLine Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "holdfastd");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return ReadCommandLine(static_cast<int>(argv.size()), argv.data(), "1.2.3");
}

TEST(ConfigTextTest, ReadsEveryKindOfField) {
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(
      std::string(kHead) + "rootDir: /a/b/\npodCIDRs: [10.1.0.0/16]\ncontainerLogMaxSize: 1Mi\n"
                           "containerLogMaxFiles: 3\nmaxContainerRestartPeriod: 1m30s\n"
                           "cgroupDriver: systemd\n",
      "c.yaml", config));
  EXPECT_EQ(config.instance.root_dir, "/a/b");
  EXPECT_EQ(config.instance.pod_cidrs, std::vector<std::string>{"10.1.0.0/16"});
  EXPECT_EQ(config.container_log.max_size_bytes, 1u << 20);
  EXPECT_EQ(config.container_log.max_files, 3u);
  EXPECT_EQ(config.max_back_off, std::chrono::seconds(90));
  EXPECT_EQ(config.cgroup_driver, "systemd");
}

// Once "nodeName: n" made a node that is called false.
TEST(ConfigTextTest, WhatYamlTakesForABooleanIsNoText) {
  const auto error = [](const std::string& line) { return ErrorOf(std::string(kHead) + line); };
  EXPECT_EQ(error("nodeName: n\n"),
            "c.yaml:3:11: nodeName: expected a string, found a boolean: put it in quotes");
  EXPECT_EQ(error("nodeLabels: {a: b, gpu: yes}\n"),
            "c.yaml:3:25: nodeLabels: expected a string, found a boolean: put it in quotes");
  EXPECT_EQ(error("clusterDNS: [off]\n"),
            "c.yaml:3:14: clusterDNS: expected a string, found a boolean: put it in quotes");
  EXPECT_EQ(error("nodeLabels: {a: [b]}\n"),
            "c.yaml:3:17: nodeLabels: expected a string, found a list");
  EXPECT_EQ(error("nodeLabels: a\n"),
            "c.yaml:3:13: nodeLabels: expected a map of strings, found a string");
  EXPECT_EQ(error("nodeName: 'n'\nnodeLabels: {gpu: \"yes\"}\nregisterNode: no\n"), "");
}

TEST(ConfigTextTest, ReservedAmountsAreAMapInTheFileAndAListAsAFlag) {
  AgentConfig config;
  const auto read = ReadConfigText(
      std::string(kHead) +
          "systemReserved: {cpu: 500m, memory: 1Gi, pid: 1000}\nenforceNodeAllocatable: [none]\n",
      "c.yaml", config);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(config.node.system_reserved, (NodeAmounts{500, 1ll << 30, 1000}));
  EXPECT_FALSE(config.node.enforce_allocatable);
  const CommandLine line =
      Parse({"--kube-reserved", "cpu=1,memory=64Mi", "--enforce-node-allocatable=pods"});
  EXPECT_FALSE(line.exit) << line.output;
  EXPECT_EQ(line.config.node.kube_reserved, (NodeAmounts{1000, 64ll << 20, 0}));
  EXPECT_TRUE(line.config.node.enforce_allocatable);
  EXPECT_EQ(ErrorOf(std::string(kHead) + "kubeReserved: {disk: 1Gi}\n"),
            "c.yaml:3:15: kubeReserved: \"disk\" is none of: cpu, memory, pid");
  EXPECT_EQ(ErrorOf(std::string(kHead) + "kubeReserved: 1Gi\n"),
            "c.yaml:3:15: kubeReserved: expected a map of strings, found a string");
  EXPECT_NE(ErrorOf(std::string(kHead) + "kubeReserved: {cpu: -1}\n"), "");
  EXPECT_NE(ErrorOf(std::string(kHead) + "enforceNodeAllocatable: [kube-reserved]\n"), "");
}

TEST(ConfigTextTest, LabelsOfTheNodeAreCheckedAsAKubeletDoes) {
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(
      std::string(kHead) + "nodeLabels: {disk: ssd, topology.kubernetes.io/zone: z1, tier: 1}\n",
      "c.yaml", config));
  EXPECT_EQ(config.node.labels,
            (std::map<std::string, std::string>{
                {"disk", "ssd"}, {"tier", "1"}, {"topology.kubernetes.io/zone", "z1"}}));
  const CommandLine line = Parse({"--node-labels", "disk=hdd,node.kubernetes.io/x="});
  EXPECT_FALSE(line.exit) << line.output;
  EXPECT_EQ(line.config.node.labels,
            (std::map<std::string, std::string>{{"disk", "hdd"}, {"node.kubernetes.io/x", ""}}));
  EXPECT_EQ(ErrorOf(std::string(kHead) + "nodeLabels: {kubernetes.io/role: x}\n"),
            "c.yaml:3:13: nodeLabels: \"kubernetes.io/role\" is one of Kubernetes' own labels that "
            "no node sets itself");
  for (const char* wrong : {"a.k8s.io/x: y", "'a b': c", "a: 'b c'", "/x: y"}) {
    EXPECT_NE(ErrorOf(StrCat(kHead, "nodeLabels: {", wrong, "}\n")), "") << wrong;
  }
  EXPECT_TRUE(Parse({"--node-labels", "disk"}).exit);
}

TEST(ConfigTextTest, HandlersOfRuntimeClassesAreNames) {
  AgentConfig config;
  EXPECT_EQ(config.node.runtime_handlers, (std::vector<std::string>{"holdfast", "runc"}));
  ASSERT_TRUE(ReadConfigText(std::string(kHead) + "runtimeHandlers: []\n", "c.yaml", config));
  EXPECT_TRUE(config.node.runtime_handlers.empty());
  EXPECT_EQ(ErrorOf(std::string(kHead) + "runtimeHandlers: [runc, kata, runc]\n"),
            "c.yaml:3:18: runtimeHandlers: \"runc\": stands there twice");
  for (const char* wrong : {"''", "Runc", "a.b", "-a"}) {
    EXPECT_NE(ErrorOf(StrCat(kHead, "runtimeHandlers: [", wrong, "]\n")), "") << wrong;
  }
}

TEST(ConfigTextTest, UnsafeSysctlsAreOnlyThoseOfANamespace) {
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(
      std::string(kHead) + "allowedUnsafeSysctls: [kernel.msg*, net.core.somaxconn, net/ipv4/*]\n",
      "c.yaml", config));
  EXPECT_EQ(config.node.allowed_unsafe_sysctls.size(), 3u);
  EXPECT_EQ(ErrorOf(std::string(kHead) + "allowedUnsafeSysctls: [kernel.core_pattern]\n"),
            "c.yaml:3:23: allowedUnsafeSysctls: \"kernel.core_pattern\" is not known to have a "
            "value of its own in each namespace");
  for (const char* wrong : {"*", "kernel.*", "net.*.x", "'net.a b'", "''"}) {
    EXPECT_NE(ErrorOf(StrCat(kHead, "allowedUnsafeSysctls: [", wrong, "]\n")), "") << wrong;
  }
}

TEST(ConfigTextTest, WhatImagesLeaveFreeIsAShareOrANumber) {
  const model::DiskReserve defaults = ImageReserve(AgentConfig().node.eviction);
  EXPECT_EQ(defaults.bytes.Of(1000), 150u);
  EXPECT_EQ(defaults.inodes.Of(1000), 50u);
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(std::string(kHead) + "evictionHard: {imagefs.available: 10Gi}\n",
                             "c.yaml", config));
  EXPECT_EQ(ImageReserve(config.node.eviction).bytes.Of(1000), 10ull << 30);
  EXPECT_EQ(ImageReserve(config.node.eviction).inodes.Of(1000), 0u) << "not named";
  const CommandLine line = Parse({"--eviction-hard=imagefs.available<2.5%,imagefs.inodesFree=7"});
  EXPECT_FALSE(line.exit) << line.output;
  EXPECT_EQ(ImageReserve(line.config.node.eviction).bytes.Of(1000), 25u);
  EXPECT_EQ(ImageReserve(line.config.node.eviction).inodes.Of(1000), 7u);
  EXPECT_EQ(ErrorOf(std::string(kHead) + "evictionHard: {memory.free: 1Gi}\n"),
            "c.yaml:3:15: evictionHard: \"memory.free\" is none of: memory.available, "
            "nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, "
            "pid.available");
  for (const char* wrong : {"100%", "-1%", "x%", "%", "nan%", "1e400%", "-5", "x"}) {
    EXPECT_NE(ErrorOf(StrCat(kHead, "evictionHard: {imagefs.available: '", wrong, "'}\n")), "")
        << wrong;
  }
}

// "memory.available<104857600", one per threshold; soft ones with their grace.
std::string Thresholds(const EvictionConfig& config) {
  std::string text;
  for (const EvictionThreshold& one : ThresholdsOf(config)) {
    text += StrCat(NameOf(one.signal), "<", one.least.Of(1000));
    if (one.grace) text += StrCat(" for ", one.grace->count(), "s");
    text += "\n";
  }
  return text;
}

TEST(ConfigTextTest, PressureHasKubeletsThresholdsAndThoseThatAreNamedAlone) {
  EXPECT_EQ(Thresholds(AgentConfig().node.eviction),
            "memory.available<104857600\nallocatableMemory.available<104857600\nnodefs.available<"
            "100\nnodefs.inodesFree<50\n"
            "imagefs.available<150\nimagefs.inodesFree<50\n");
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(StrCat(kHead, R"(
evictionHard: {memory.available: 5%, pid.available: 100, nodefs.available: 0%}
evictionSoft: {memory.available: 10%, nodefs.available: 7}
evictionSoftGracePeriod: {nodefs.available: 1m30s, memory.available: 2m}
evictionMinimumReclaim: {nodefs.available: 1Ki}
evictionMaxPodGracePeriod: 45s
evictionPressureTransitionPeriod: 30s
)"),
                             "c.yaml", config));
  const EvictionConfig& eviction = config.node.eviction;
  EXPECT_EQ(Thresholds(eviction),
            "memory.available<50\nallocatableMemory.available<50\npid.available<100\n"
            "memory.available<100 for 120s\nnodefs.available<7 for 90s\n");
  EXPECT_EQ(ImageReserve(eviction).bytes.Of(1000), 0u);
  EXPECT_EQ(eviction.minimum_reclaim.at(PressureSignal::kNodeBytes).Of(5), 1024u);
  EXPECT_EQ(eviction.max_pod_grace, std::chrono::seconds(45));
  EXPECT_EQ(eviction.pressure_transition, std::chrono::seconds(30));
  AgentConfig again;
  ASSERT_TRUE(ReadConfigText(ConfigJson(config), "c.json", again));
  EXPECT_EQ(ConfigJson(again), ConfigJson(config));
  EXPECT_EQ(Thresholds(again.node.eviction), Thresholds(eviction));
}

TEST(ConfigTextTest, ASoftThresholdHasAGracePeriod) {
  const auto error = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(StrCat(kHead, text), "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    const auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    return complete ? "" : complete.error().message();
  };
  EXPECT_EQ(error("evictionSoft: {memory.available: 1Gi}\n"),
            "evictionSoft: grace period must be specified for the soft eviction threshold "
            "memory.available (evictionSoftGracePeriod)");
  EXPECT_EQ(error("evictionSoftGracePeriod: {memory.available: 1m}\n"),
            "evictionSoftGracePeriod: memory.available has no evictionSoft that it could be for");
  EXPECT_THAT(error("evictionSoftGracePeriod: {memory.available: soon}\n"),
              testing::HasSubstr("\"soon\" is not a duration such as 300s or 5m"));
  EXPECT_THAT(error("evictionMinimumReclaim: {disk: 1Gi}\n"),
              testing::HasSubstr("\"disk\" is none of: memory.available, "));
}

TEST(ConfigTest, TheNodesAddressesAreOneOfEachFamilyThatOthersReach) {
  const auto complete = [](std::vector<std::string> ips) {
    AgentConfig config;
    config.instance.node_name = "n1";
    config.node.ips = std::move(ips);
    const auto done = CompleteConfig(config, "/opt/bin/holdfastd");
    return done ? "" : done.error().message();
  };
  EXPECT_EQ(complete({}), "");
  EXPECT_EQ(complete({"192.0.2.7", "2001:db8::7"}), "");
  EXPECT_EQ(complete({"192.0.2.7", "192.0.2.8"}), "nodeIP names more than one address of a family");
  EXPECT_EQ(complete({"127.0.0.1"}), "nodeIP \"127.0.0.1\" is no address that others reach");
  EXPECT_NE(complete({"here"}), "");
}

TEST(ConfigTextTest, ReadsWhereTheProxyAnswersAndItsMode) {
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(std::string(kHead) +
                                 "proxyMode: iptables\nhealthzBindAddress: '[::1]:10256'\n"
                                 "metricsBindAddress: ''\n",
                             "c.yaml", config));
  EXPECT_EQ(config.proxy.mode, "iptables");
  EXPECT_EQ(config.proxy.healthz_bind_address, "[::1]:10256");
  EXPECT_EQ(config.proxy.metrics_bind_address, "");
  EXPECT_EQ(ParseBindAddress("192.0.2.1:80").value()->port, 80);
  EXPECT_FALSE(ParseBindAddress("").value().has_value());
  for (const char* wrong : {"10256", "192.0.2.1", "::1:80", "[192.0.2.1]:80", "192.0.2.1:0",
                            "192.0.2.1:65536", "192.0.2.1:8x", "localhost:80"}) {
    EXPECT_FALSE(ParseBindAddress(wrong)) << wrong;
  }
  const CommandLine line = Parse({"--metrics-bind-address", "", "--proxy-mode=iptables"});
  EXPECT_FALSE(line.exit) << line.output;
  EXPECT_EQ(line.config.proxy.metrics_bind_address, "");
  EXPECT_EQ(ErrorOf(std::string(kHead) + "proxyMode: userspace\n"),
            "c.yaml:3:12: proxyMode: \"userspace\" is none of: nftables, iptables, ipvs");
}

TEST(ConfigTextTest, ANodeMayHaveNoResolvConf) {
  AgentConfig config;
  ASSERT_TRUE(ReadConfigText(std::string(kHead) + "resolvConf: ''\n", "c.yaml", config));
  EXPECT_EQ(config.instance.resolv_conf, "");
  ASSERT_TRUE(
      ReadConfigText(std::string(kHead) + "resolvConf: /run/resolv.conf\n", "c.yaml", config));
  EXPECT_EQ(config.instance.resolv_conf, "/run/resolv.conf");
  EXPECT_EQ(ErrorOf(std::string(kHead) + "resolvConf: resolv.conf\n"),
            "c.yaml:3:13: resolvConf: \"resolv.conf\" is not an absolute path");
}

TEST(ConfigTextTest, NamesEveryFaultWithItsPlace) {
  EXPECT_EQ(ErrorOf(std::string(kHead) + "rootDirr: /a\nworkers: many\n"),
            "c.yaml:3:1: rootDirr: unknown field (did you mean \"rootDir\"?)\n"
            "c.yaml:4:10: workers: \"many\" is not a number from 1 to 256");
  EXPECT_EQ(ErrorOf(std::string(kHead) + "rootDir: ../x\n"),
            "c.yaml:3:10: rootDir: \"../x\" is not an absolute path");
  EXPECT_NE(ErrorOf("kind: AgentConfiguration\n"), "") << "apiVersion is missing";
  EXPECT_NE(ErrorOf(std::string(kHead) + "podCIDRs: x\n"), "") << "no list";
  EXPECT_NE(ErrorOf(std::string(kHead) + "maxContainerRestartPeriod: 301s\n"), "");
  EXPECT_NE(ErrorOf(std::string(kHead) + "cgroupDriver: foo\n"), "");
  EXPECT_NE(ErrorOf(""), "");
  EXPECT_NE(ErrorOf("- a\n"), "");
}

TEST(CommandLineTest, FlagsWinOverTheFile) {
  char pattern[] = "/tmp/holdfast-config-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  std::ofstream(dir + "/c.yaml") << kHead << "rootDir: /file\nrunDir: /file-run\n";
  const CommandLine line = Parse(
      {"--config", dir + "/c.yaml", "--root-dir", "/flag", "--pod-cidrs", "10.1.0.0/16,fd00::/64"});
  std::filesystem::remove_all(dir);
  ASSERT_FALSE(line.exit) << line.output;
  EXPECT_EQ(line.config.instance.root_dir, "/flag");
  EXPECT_EQ(line.config.instance.run_dir, "/file-run");
  EXPECT_EQ(line.config.instance.pod_cidrs, (std::vector<std::string>{"10.1.0.0/16", "fd00::/64"}));
}

TEST(CommandLineTest, AnswersHelpAndVersionAndRefusesTheRest) {
  EXPECT_EQ(Parse({"--version"}).output, "holdfastd 1.2.3\n");
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_NE(Parse({"--help"}).output.find("--cluster-dns"), std::string::npos);
  EXPECT_EQ(Parse({"--no-such-flag"}).exit_code, 2);
  EXPECT_EQ(Parse({"--workers", "0"}).exit_code, 2);
  EXPECT_EQ(Parse({"--config", "/no/such/file"}).exit_code, 2);
}

TEST(FieldTest, FlagsAreTheNamesInKebabCase) {
  std::vector<std::string> flags;
  for (const config::Field& field : config::Fields()) flags.push_back(field.Flag());
  for (const char* wanted :
       {"--root-dir", "--pod-cidrs", "--cluster-dns", "--max-container-restart-period"}) {
    EXPECT_NE(std::find(flags.begin(), flags.end(), wanted), flags.end()) << wanted;
  }
}

TEST(CompleteTest, FillsInTheMachineAndRefusesBadNames) {
  AgentConfig config;
  config.instance.node_name = "n1";
  ASSERT_TRUE(CompleteConfig(config, "/opt/bin/holdfastd"));
  EXPECT_EQ(config.programs.unpack, "/opt/bin/holdfast-unpack");
  EXPECT_EQ(config.seccomp_dir, "/var/lib/holdfast/seccomp");
  config.instance.node_name = "Bad_Name";
  EXPECT_FALSE(CompleteConfig(config, "/opt/bin/holdfastd"));
}

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FieldsTest, AreInTheManualAndInTheGuide) {
  std::string manual = FileText(SOURCE_DIR "/packaging/man/holdfastd.8");
  std::erase(manual, '\\');
  const std::string guide = FileText(SOURCE_DIR "/docs/configuration.md");
  for (const config::Field& field : config::Fields()) {
    EXPECT_NE(manual.find("fB" + field.Flag() + "fR"), std::string::npos) << field.Flag();
    EXPECT_NE(guide.find("`" + std::string(field.name) + "`"), std::string::npos) << field.name;
  }
}

// Every setting with a value that is not its default.
constexpr char kEverything[] = R"(
registryConfigPath: /certs.d
shortNamesPath: /registries.conf
signaturePolicyPath: /policy.json
serializeImagePulls: false
maxParallelImagePulls: 3
registryPullQPS: 7
registryBurst: 11
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [r.example/x]
imageCredentialProviderConfig: /providers
imageCredentialProviderBinDir: /provider-programs
imageDir: /archives
imageGCHighThresholdPercent: 70
imageGCLowThresholdPercent: 60
imageMinimumGCAge: 5m
imageMaximumGCAge: 48h
fetchBinary: /fetch
nodeName: n7
rootDir: /a
runDir: /b
manifestDir: /c
podLogDir: /d
containerLogDir: /e
cgroupRoot: /f
cgroupParent: /g
cgroupDriver: systemd
interfacePrefix: zz
tableName: other
podCIDRs: [10.1.0.0/16, "fd01::/64"]
serviceCIDRs: [10.2.0.0/16]
proxyMode: ipvs
healthzBindAddress: "[::1]:1"
metricsBindAddress: ""
nodePortAddresses: [192.0.2.0/24]
allowedExternalIPs: [198.51.100.0/24]
announceInterfaces: [eth7]
announceAddresses: [198.51.100.0/28]
announcePriority: 7
announceKubeconfig: /etc/announce
kubeconfig: /etc/kubeconfig
bootstrapKubeconfig: /etc/bootstrap
certDirectory: /etc/pki
rotateCertificates: false
serverTLSBootstrap: true
registerNode: false
address: 192.0.2.7
port: 10251
tlsCertFile: /etc/c
tlsPrivateKeyFile: /etc/k
tlsMinVersion: VersionTLS13
tlsCipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]
clientCAFile: /etc/ca
anonymousAuth: true
authenticationTokenWebhook: false
authenticationTokenWebhookCacheTTL: 1m
authorizationMode: AlwaysAllow
authorizationWebhookCacheAuthorizedTTL: 2m
authorizationWebhookCacheUnauthorizedTTL: 3s
enableDebuggingHandlers: false
enableSystemLogHandler: false
nodeHealthzBindAddress: ""
nodeTunnel: none
registerWithTaints: ["example.com/a=b:NoSchedule", "c:NoExecute"]
ipvsScheduler: mh
ipvsSchedulerFlags: [mh-port]
ipvsStrictARP: true
ipvsExcludeCIDRs: [10.3.0.0/16]
ipvsTcpTimeout: 1h
ipvsTcpFinTimeout: 2m
ipvsUdpTimeout: 3s
clusterDomain: example.test
clusterDNS: [10.2.0.10]
resolvConf: /h
apiGroup: people
seccompDir: /i
containerLogMaxSize: 1Mi
containerLogMaxFiles: 9
maxContainerRestartPeriod: 90s
podPidsLimit: -1
singleProcessOOMKill: true
failSwapOn: true
swapBehavior: LimitedSwap
memoryQos: true
memoryThrottlingFactor: 0.875
memoryReservationPolicy: TieredReservation
maxPods: 500
allowedUnsafeSysctls: [kernel.msg*, net/core/somaxconn]
runtimeHandlers: [kata, runc]
nodeLabels: {example.com/rack: "7", topology.kubernetes.io/zone: z1}
systemReserved: {cpu: 1500m, memory: 1Gi, pid: 7}
kubeReserved: {memory: 1Mi}
enforceNodeAllocatable: [none]
evictionHard: {imagefs.available: 12.5%, imagefs.inodesFree: 1000}
evictionSoft: {nodefs.available: 20%}
evictionSoftGracePeriod: {nodefs.available: 90s}
evictionMinimumReclaim: {nodefs.available: 1Gi}
evictionMaxPodGracePeriod: 30s
evictionPressureTransitionPeriod: 1m
nodeIP: [192.0.2.7]
podNetwork: cni
cniConfDir: /m
cniBinDir: [/n, /o]
cniCacheDir: /p
cniNetnsDir: /q
keepInputs: all
workers: 3
sandboxPoolSize: 9
keeperBinary: /l
initBinary: /j
unpackBinary: /k
logLevel: trace
)";

TEST(ConfigTest, MemoryAndSwap) {
  const auto fault = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(std::string(kHead) + text, "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    return complete ? "" : complete.error().message();
  };
  EXPECT_EQ(fault("swapBehavior: LimitedSwap\nmemoryQos: true\nmemoryThrottlingFactor: 1\n"
                  "memoryReservationPolicy: TieredReservation\n"),
            "");
  EXPECT_EQ(fault("memoryReservationPolicy: TieredReservation\n"),
            "memoryReservationPolicy TieredReservation needs memoryQos");
  for (const char* wrong : {"0", "0.0", "-0.5", "1.1", "nan", "0.5x", "''"}) {
    EXPECT_NE(fault(StrCat("memoryThrottlingFactor: ", wrong, "\n")), "") << wrong;
  }
  for (const char* wrong : {"swapBehavior: UnlimitedSwap\n", "maxPods: 1.5\n"}) {
    EXPECT_NE(fault(wrong), "") << wrong;
  }
}

TEST(ConfigTest, InAClusterTheNodeSaysWhichAddressesPodsGet) {
  const auto ranges = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(std::string(kHead) + text, "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    if (!complete) return complete.error().message();
    std::string out;
    for (const std::string& range : config.instance.pod_cidrs) out += range + " ";
    return out;
  };
  EXPECT_EQ(ranges(""), "10.88.0.0/16 fd00:88::/64 ");
  EXPECT_EQ(ranges("kubeconfig: /k\n"), "");
  EXPECT_EQ(ranges("kubeconfig: /k\npodCIDRs: [10.1.0.0/24]\n"), "10.1.0.0/24 ");
  EXPECT_EQ(ranges("podCIDRs: []\n"),
            "podCIDRs: a node that stands alone (without a kubeconfig) needs one");
  EXPECT_EQ(ranges("podNetwork: cni\n"), "") << "the plugins say";
  EXPECT_EQ(ranges("podNetwork: cni\npodCIDRs: [10.1.0.0/24]\n"), "10.1.0.0/24 ");
  EXPECT_EQ(ranges("podNetwork: cni\npodCIDRs: []\n"), "");
}

TEST(ConfigTest, WhereCniPluginsAre) {
  const auto network = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(std::string(kHead) + text, "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    if (!complete) return complete.error().message();
    std::string out = config.pod_network.kind + " " + config.pod_network.cni_cache_directory;
    for (const std::string& directory : config.pod_network.cni_plugin_directories) {
      out += " " + directory;
    }
    return out;
  };
  EXPECT_EQ(network(""), "built-in /var/lib/holdfast/cni /opt/cni/bin /usr/lib/cni");
  EXPECT_EQ(network("podNetwork: cni\nrootDir: /r\ncniBinDir: [/b]\n"), "cni /r/cni /b");
  EXPECT_EQ(network("cniCacheDir: /c\n"), "built-in /c /opt/cni/bin /usr/lib/cni");
  EXPECT_EQ(network("cniCacheDir: c\n"), "cniCacheDir \"c\" is no absolute path");
  EXPECT_EQ(network("cniBinDir: []\n"), "cniBinDir: at least one directory is needed");
  EXPECT_EQ(network("cniBinDir: [\"/a:/b\"]\n"),
            "cniBinDir \"/a:/b\" is no absolute path without a colon");
  EXPECT_NE(network("podNetwork: kubenet\n"), "");
}

TEST(ConfigTest, TheHttpsServerNeedsSomebodyWhoSaysWhatClientsMay) {
  const auto server = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(std::string(kHead) + text, "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    if (!complete) return complete.error().message();
    return config.server.IsOn(!config.cluster.kubeconfig.empty()) ? "on" : "off";
  };
  EXPECT_EQ(server(""), "off");
  EXPECT_EQ(server("kubeconfig: /k\n"), "on");
  EXPECT_EQ(server("kubeconfig: /k\nport: 0\n"), "off");
  EXPECT_EQ(server("clientCAFile: /ca\nauthorizationMode: AlwaysAllow\n"), "on");
  EXPECT_THAT(server("clientCAFile: /ca\n"), testing::HasSubstr("needs a kubeconfig"));
  EXPECT_EQ(server("tlsCertFile: /c\n"),
            "tlsCertFile and tlsPrivateKeyFile: one without the other");
  EXPECT_THAT(server("tlsMinVersion: VersionTLS10\n"), testing::HasSubstr("VersionTLS12"));
}

TEST(ConfigTest, ImageGarbageCollectionHasAKubeletsRules) {
  const auto error = [](const std::string& text) -> std::string {
    AgentConfig config;
    if (auto read = ReadConfigText(std::string(kHead) + text, "c.yaml", config); !read) {
      return read.error().message();
    }
    config.instance.node_name = "n1";
    const auto complete = CompleteConfig(config, "/opt/bin/holdfastd");
    return complete ? "" : complete.error().message();
  };
  const ImageGcConfig defaults = AgentConfig().image_gc;
  EXPECT_EQ(defaults.high_percent, 85u);
  EXPECT_EQ(defaults.low_percent, 80u);
  EXPECT_EQ(defaults.minimum_age, std::chrono::minutes(2));
  EXPECT_EQ(defaults.maximum_age, std::chrono::seconds(0));
  EXPECT_EQ(error("imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 0\n"), "");
  EXPECT_EQ(error("imageGCLowThresholdPercent: 85\n"),
            "imageGCLowThresholdPercent 85 must be less than imageGCHighThresholdPercent 85");
  EXPECT_THAT(error("imageGCHighThresholdPercent: 101\n"),
              testing::HasSubstr("not a number from 0 to 100"));
  EXPECT_EQ(error("imageMaximumGCAge: 2m\n"),
            "imageMaximumGCAge 120s must be greater than imageMinimumGCAge 120s");
  EXPECT_EQ(error("imageMaximumGCAge: 121s\n"), "");
  EXPECT_THAT(error("imageMinimumGCAge: -1s\n"), testing::HasSubstr("not a duration"));
  EXPECT_EQ(error("imageDir: archives\n"), "imageDir \"archives\" is no absolute path");
}

TEST(ConfigTest, TaintsAreRefusedWithTheReason) {
  const auto error = [](const std::string& taints) {
    return ErrorOf(StrCat(kHead, "registerWithTaints: [", taints, "]\n"));
  };
  EXPECT_EQ(error("a=b:NoSchedule, \"c:NoExecute\", a:NoExecute"), "");
  EXPECT_NE(error("a=b").find("is not of the form dedicated=gpu:NoSchedule"), std::string::npos);
  EXPECT_NE(error("a=b:Never").find("none of: NoSchedule, PreferNoSchedule, NoExecute"),
            std::string::npos);
  EXPECT_NE(error("a=b:NoSchedule, a=c:NoSchedule").find("stand there twice"), std::string::npos);
  EXPECT_NE(error("\"=b:NoSchedule\""), "");
  EXPECT_NE(error("\"a=b c:NoSchedule\""), "");
}

TEST(CompleteConfigTest, WhereABootstrapLeavesWhatItGot) {
  const auto completed = [](const std::string& text) -> Result<AgentConfig> {
    AgentConfig config;
    RETURN_IF_ERROR(ReadConfigText("apiVersion: holdfast.dev/v1\nkind: AgentConfiguration\n" + text,
                                   "f", config));
    RETURN_IF_ERROR(CompleteConfig(config, "/usr/bin/holdfastd"));
    return config;
  };
  const auto config = completed("nodeName: n1\nrootDir: /r\nbootstrapKubeconfig: /b\n");
  ASSERT_TRUE(config) << config.error().message();
  EXPECT_EQ(config->cluster.kubeconfig, "/r/kubeconfig");
  EXPECT_EQ(config->cluster.certificate_directory, "/r/pki");
  EXPECT_EQ(completed("bootstrapKubeconfig: /b\nkubeconfig: /k\n")->cluster.kubeconfig, "/k");
  EXPECT_EQ(completed("")->cluster.kubeconfig, "") << "a node that stands alone";
  EXPECT_EQ(completed("certDirectory: pki\n").error().message(),
            "certDirectory \"pki\" is no absolute path");
  EXPECT_EQ(completed("serverTLSBootstrap: true\n").error().message(),
            "serverTLSBootstrap: there is no cluster to ask (kubeconfig)");
}

TEST(ConfigJsonTest, IsAFileThatSaysTheSame) {
  AgentConfig config;
  const std::string defaults = ConfigJson(config);
  const auto read = ReadConfigText(std::string(kHead) + kEverything, "c.yaml", config);
  ASSERT_TRUE(read) << read.error().message();
  const std::string json = ConfigJson(config);
  EXPECT_NE(json.find(R"("systemReserved":{"cpu":"1500m","memory":"1073741824","pid":"7"})"),
            std::string::npos)
      << json;
  AgentConfig again;
  const auto reread = ReadConfigText(json, "c.json", again);
  ASSERT_TRUE(reread) << reread.error().message();
  EXPECT_EQ(ConfigJson(again), json);
  AgentConfig fresh;
  for (const config::Field& field : config::Fields()) {
    EXPECT_NE(field.access.get(config), field.access.get(fresh))
        << field.name << " is not in kEverything";
    EXPECT_EQ(field.access.get(config), field.access.get(again)) << field.name;
  }
  AgentConfig plain;
  ASSERT_TRUE(ReadConfigText(defaults, "d.json", plain)) << defaults;
  EXPECT_EQ(ConfigJson(plain), defaults);
}

// All fields are shown to everybody who may ask.
TEST(ConfigJsonTest, NoFieldHoldsASecret) {
  for (const config::Field& field : config::Fields()) {
    std::string name = field.name;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    // A file's name; a switch and a time; a policy; where programs are.
    if (name.ends_with("file") || name.starts_with("authenticationtokenwebhook")) continue;
    if (name.starts_with("imagepullcredentials")) continue;
    if (name.starts_with("imagecredentialprovider")) continue;
    for (const char* word : {"token", "password", "secret", "credential", "privatekey"}) {
      EXPECT_EQ(name.find(word), std::string::npos)
          << field.name << ": let it name a file instead of holding the secret";
    }
  }
}

}  // namespace
}  // namespace holdfast::agent
