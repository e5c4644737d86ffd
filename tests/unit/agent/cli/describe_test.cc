// SPDX-License-Identifier: Apache-2.0
// describe, in the layout of kubectl 1.32 (compared with its output for the same objects).
#include "agent/cli/describe.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "agent/kube/codec.h"
#include "agent/kube/parse.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Slice = ::k8s::io::api::discovery::v1::EndpointSlice;

const WallTime kMinuteAfter{std::chrono::seconds(1'800'000'060)};  // a minute after 08:00
// describe shows the reader's time.
const bool kUtc = ::setenv("TZ", "UTC0", 1) == 0;

template <class Object>
Object Read(std::string_view yaml) {
  Object object;
  const kube::ParsedText parsed = kube::ParseYaml(yaml);
  if (parsed.documents.size() != 1) {
    ADD_FAILURE() << yaml;
    return object;
  }
  std::vector<kube::Diagnostic> diagnostics;
  kube::FromTree(parsed.documents.front(), {}, &object, &diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << diagnostics.front().message;
  return object;
}

core::Event MakeEvent(const std::string& reason, const std::string& message) {
  core::Event event;
  event.set_type("Normal");
  event.set_reason(reason);
  event.set_message(message);
  event.mutable_source()->set_component("holdfast");
  event.mutable_lasttimestamp()->set_seconds(1'800'000'000);
  return event;
}

TEST(DescribeWriterTest, ATitleEndsColumns) {
  ASSERT_TRUE(kUtc);
  DescribeWriter out;
  out.Line(0, "A:", "1");
  out.Line(1, "Longer:", "2");
  out.Row(0, {"B:", "x", "y"});
  out.Row(0, {"C:", "long", "z"});
  out.Text(0, "Title:");
  out.Line(1, "D:", "3");
  out.Line(1, "Empty:", "");
  EXPECT_EQ(out.Render(),
            "A:         1\n"
            "  Longer:  2\n"
            "B:         x     y\n"
            "C:         long  z\n"
            "Title:\n"
            "  D:      3\n"
            "  Empty:\n");
}

TEST(DescribeWriterTest, TextOfOthersStaysInItsPlace) {
  DescribeWriter out;
  out.Line(0, "A:", "one\ntwo\n");
  out.List(0, "L:", {"x", "y"});
  out.List(0, "None:", {});
  out.Text(1, "first\nsecond");
  out.Row(0, {"a\x1b[1m", "b\nc", "d"});
  EXPECT_EQ(out.Render(),
            "A:     one\n"
            "       two\n"
            "L:     x\n"
            "       y\n"
            "None:  <none>\n"
            "  first\n"
            "  second\n"
            "a^[[1m  b...  d\n");
}

TEST(DescribeTest, Pod) {
  const auto pod = Read<core::Pod>(R"(
metadata: {name: web, namespace: default, labels: {app.kubernetes.io/name: web}}
spec:
  nodeName: node1
  containers:
  - name: app
    image: image-app
    command: [serve, --all]
    ports: [{containerPort: 80, protocol: TCP}]
    env: [{name: COLOUR, value: "blue\e[1m"}]
    resources: {limits: {memory: 64Mi}}
    volumeMounts: [{name: data, mountPath: /data, readOnly: true}]
  volumes: [{name: data, emptyDir: {}}]
  tolerations:
  - {key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
  - {operator: Exists}
status:
  phase: Running
  qosClass: Burstable
  podIP: 10.88.0.5
  podIPs: [{ip: 10.88.0.5}, {ip: "fd00::5"}]
  conditions: [{type: Initialized, status: "True"}, {type: Ready, status: "True"}]
  containerStatuses:
  - name: app
    image: image-app
    imageID: ""
    containerID: holdfast://c0ffee
    ready: true
    restartCount: 1
    state: {running: {startedAt: "2027-01-15T08:00:00Z"}}
    lastState:
      terminated: {reason: Error, exitCode: 1, startedAt: "2027-01-15T07:59:00Z",
                   finishedAt: "2027-01-15T07:59:30Z"}
)");
  EXPECT_EQ(DescribePod(pod, {MakeEvent("Started", "Container started")}, {}, kMinuteAfter),
            "Name:         web\n"
            "Namespace:    default\n"
            "Priority:     0\n"
            "Node:         node1\n"
            "Labels:       app.kubernetes.io/name=web\n"
            "Annotations:  <none>\n"
            "Status:       Running\n"
            "IP:           10.88.0.5\n"
            "IPs:\n"
            "  IP:  10.88.0.5\n"
            "  IP:  fd00::5\n"
            "Containers:\n"
            "  app:\n"
            "    Container ID:  holdfast://c0ffee\n"
            "    Image:         image-app\n"
            "    Image ID:\n"
            "    Port:          80/TCP\n"
            "    Host Port:     0/TCP\n"
            "    Command:\n"
            "      serve\n"
            "      --all\n"
            "    State:          Running\n"
            "      Started:      Fri, 15 Jan 2027 08:00:00 +0000\n"
            "    Last State:     Terminated\n"
            "      Reason:       Error\n"
            "      Exit Code:    1\n"
            "      Started:      Fri, 15 Jan 2027 07:59:00 +0000\n"
            "      Finished:     Fri, 15 Jan 2027 07:59:30 +0000\n"
            "    Ready:          True\n"
            "    Restart Count:  1\n"
            "    Limits:\n"
            "      memory:  64Mi\n"
            "    Environment:\n"
            "      COLOUR:  blue^[[1m\n"
            "    Mounts:\n"
            "      /data from data (ro)\n"
            "Conditions:\n"
            "  Type          Status\n"
            "  Initialized   True\n"
            "  Ready         True\n"
            "Volumes:\n"
            "  data:\n"
            "    Type:        EmptyDir (a temporary directory that shares a pod's lifetime)\n"
            "    Medium:\n"
            "    SizeLimit:   <unset>\n"
            "QoS Class:       Burstable\n"
            "Node-Selectors:  <none>\n"
            "Tolerations:     op=Exists\n"
            "                 k:NoExecute op=Exists for 300s\n"
            "Events:\n"
            "  Type    Reason   Age   From      Message\n"
            "  ----    ------   ----  ----      -------\n"
            "  Normal  Started  60s   holdfast  Container started\n");
}

TEST(DescribeTest, HowFarThePullOfAContainersImageIs) {
  const auto pod = Read<core::Pod>(R"(
metadata: {name: web, namespace: default}
spec: {containers: [{name: app, image: nginx}, {name: other, image: busybox}]}
status:
  containerStatuses:
  - {name: app, state: {waiting: {reason: ContainerCreating}}}
  - {name: other, state: {waiting: {reason: ContainerCreating}}}
)");
  using Progress = v1::PullImageResponse;
  v1::ListPullsResponse::Pull pull;
  pull.set_container("app");
  pull.set_image("nginx");
  pull.set_begun_unix_nanos(1'800'000'048'000'000'000);
  const auto shown = [&] {
    const std::string all = DescribePod(pod, {}, {pull}, kMinuteAfter);
    const size_t begin = all.find("      Reason:");
    return all.substr(begin, all.find("    Ready:") - begin);
  };
  EXPECT_EQ(shown(),
            "      Reason:       ContainerCreating\n"
            "      Pulling:      nginx: asks the registry, for 12s\n");
  const auto add = [&](char digit, uint64_t bytes, Progress::LayerState state) {
    auto& layer = *pull.mutable_progress()->add_layers();
    layer.set_digest("sha256:" + std::string(64, digit));
    layer.set_size_bytes(10'000'000);
    layer.set_bytes(bytes);
    layer.set_state(state);
  };
  add('a', 10'000'000, Progress::LAYER_STATE_DONE);
  add('b', 10'000'000, Progress::LAYER_STATE_UNPACKING);
  add('c', 1'300'000, Progress::LAYER_STATE_DOWNLOADING);
  add('d', 0, Progress::LAYER_STATE_WAITING);
  EXPECT_EQ(shown(),
            "      Reason:          ContainerCreating\n"
            "      Pulling:         nginx: 21.3MB of 40.0MB, 1 of 4 layers unpacked, for 12s\n"
            "        bbbbbbbbbbbb:  unpacking, 10.0MB of 10.0MB\n"
            "        cccccccccccc:  downloading, 1.30MB of 10.0MB\n");
  pull.mutable_progress()->set_waiting(true);
  EXPECT_NE(shown().find("nginx: waits for other pulls, for 12s"), std::string::npos);
  EXPECT_EQ(DescribePod(pod, {}, {}, kMinuteAfter).find("Pulling:"), std::string::npos);
}

TEST(DescribeTest, Node) {
  const auto node = Read<core::Node>(R"(
metadata:
  name: node1
  creationTimestamp: "2027-01-15T08:00:00Z"
  labels: {kubernetes.io/os: linux, node-role.kubernetes.io/worker: ""}
spec:
  podCIDR: 10.88.0.0/16
  podCIDRs: [10.88.0.0/16, "fd00::/64"]
  taints: [{key: a, value: b, effect: NoSchedule}, {key: c, effect: NoExecute}]
status:
  capacity: {cpu: "2", memory: 24Gi, pods: "110", hugepages-2Mi: "0"}
  allocatable: {cpu: 1900m, memory: 23Gi, pods: "110", hugepages-2Mi: "0", example.com/gpu: "2"}
  conditions:
  - {type: Ready, status: "True", lastHeartbeatTime: "2027-01-15T08:00:00Z",
     lastTransitionTime: "2027-01-15T08:00:00Z", reason: KubeletReady, message: all well}
  addresses: [{type: InternalIP, address: 192.0.2.1}, {type: Hostname, address: node1}]
  nodeInfo:
    {machineID: m, systemUUID: s, bootID: b, kernelVersion: "6.1", osImage: Debian,
     containerRuntimeVersion: holdfast://0.1.0, kubeletVersion: v1.36.3, kubeProxyVersion: "",
     operatingSystem: linux, architecture: amd64}
)");
  const std::vector<core::Pod> pods = {Read<core::Pod>(R"(
metadata: {name: web-node1, namespace: default, creationTimestamp: "2027-01-15T08:00:00Z"}
spec:
  containers:
  - {name: a, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: "1", memory: 64Mi}}}
status: {phase: Running}
)"),
                                       Read<core::Pod>(R"(
metadata: {name: job-node1, namespace: default}
spec: {containers: [{name: a, resources: {requests: {cpu: "1"}}}]}
status: {phase: Succeeded}
)"),
                                       Read<core::Pod>(R"(
metadata: {name: db-node1, namespace: prod, creationTimestamp: "2027-01-15T08:00:00Z"}
spec:
  containers:
  - name: a
    resources:
      requests: {cpu: 250m, memory: 128Mi, example.com/gpu: "1"}
      limits: {memory: 512Mi, example.com/gpu: "1"}
status: {phase: Pending}
)")};
  EXPECT_EQ(DescribeNode(node, pods, {}, kMinuteAfter),
            "Name:               node1\n"
            "Roles:              worker\n"
            "Labels:             kubernetes.io/os=linux\n"
            "                    node-role.kubernetes.io/worker=\n"
            "Annotations:        <none>\n"
            "CreationTimestamp:  Fri, 15 Jan 2027 08:00:00 +0000\n"
            "Taints:             c:NoExecute\n"
            "                    a=b:NoSchedule\n"
            "Unschedulable:      false\n"
            "Conditions:\n"
            "  Type    Status  LastHeartbeatTime                 LastTransitionTime                "
            "Reason         Message\n"
            "  ----    ------  -----------------                 ------------------                "
            "------         -------\n"
            "  Ready   True    Fri, 15 Jan 2027 08:00:00 +0000   Fri, 15 Jan 2027 08:00:00 +0000   "
            "KubeletReady   all well\n"
            "Addresses:\n"
            "  InternalIP:  192.0.2.1\n"
            "  Hostname:    node1\n"
            "Capacity:\n"
            "  cpu:            2\n"
            "  hugepages-2Mi:  0\n"
            "  memory:         24Gi\n"
            "  pods:           110\n"
            "Allocatable:\n"
            "  cpu:              1900m\n"
            "  example.com/gpu:  2\n"
            "  hugepages-2Mi:    0\n"
            "  memory:           23Gi\n"
            "  pods:             110\n"
            "System Info:\n"
            "  Machine ID:                 m\n"
            "  System UUID:                s\n"
            "  Boot ID:                    b\n"
            "  Kernel Version:             6.1\n"
            "  OS Image:                   Debian\n"
            "  Operating System:           linux\n"
            "  Architecture:               amd64\n"
            "  Container Runtime Version:  holdfast://0.1.0\n"
            "  Kubelet Version:            v1.36.3\n"
            "PodCIDR:                      10.88.0.0/16\n"
            "PodCIDRs:                     10.88.0.0/16,fd00::/64\n"
            "Non-terminated Pods:          (2 in total)\n"
            "  Namespace                   Name         CPU Requests  CPU Limits  Memory Requests  "
            "Memory Limits  Age\n"
            "  ---------                   ----         ------------  ----------  ---------------  "
            "-------------  ---\n"
            "  default                     web-node1    100m (5%)     1 (52%)     64Mi (0%)        "
            "64Mi (0%)      60s\n"
            "  prod                        db-node1     250m (13%)    0 (0%)      128Mi (0%)       "
            "512Mi (2%)     60s\n"
            "Allocated resources:\n"
            "  (limits may add up to more than 100 percent)\n"
            "  Resource           Requests    Limits\n"
            "  --------           --------    ------\n"
            "  cpu                350m (18%)  1 (52%)\n"
            "  memory             192Mi (0%)  576Mi (2%)\n"
            "  ephemeral-storage  0 (0%)      0 (0%)\n"
            "  hugepages-2Mi      0 (0%)      0 (0%)\n"
            "  example.com/gpu    1           1\n"
            "Events:              <none>\n");
}

TEST(DescribeTest, Service) {
  const auto service = Read<core::Service>(R"(
metadata: {name: shop, namespace: default, labels: {team: a}}
spec:
  type: LoadBalancer
  selector: {tier: web, app: shop}
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd00:96::a"]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: PreferDualStack
  externalIPs: [198.51.100.7]
  loadBalancerIP: 198.51.100.9
  ports:
  - {name: http, protocol: TCP, port: 80, targetPort: web, nodePort: 30080}
  - {name: dns, protocol: UDP, port: 53, targetPort: 5353}
  sessionAffinity: ClientIP
  externalTrafficPolicy: Local
  internalTrafficPolicy: Cluster
  trafficDistribution: PreferClose
  healthCheckNodePort: 31000
  loadBalancerSourceRanges: [192.0.2.0/24, 198.51.100.0/24]
status:
  loadBalancer: {ingress: [{ip: 198.51.100.9, ipMode: VIP}, {hostname: lb.example}]}
)");
  const auto four = Read<Slice>(R"(
addressType: IPv4
endpoints:
- {addresses: [10.88.0.5], conditions: {ready: true}}
- {addresses: [10.88.0.6], conditions: {}}
- {addresses: [10.88.0.7], conditions: {ready: false}}
- {addresses: [10.88.0.8], conditions: {ready: true}}
ports: [{name: http, port: 8080, protocol: TCP}, {name: dns, port: 5353, protocol: UDP}]
)");
  const auto six = Read<Slice>(R"(
addressType: IPv6
endpoints: [{addresses: ["fd00::5"], conditions: {ready: true}}]
ports: [{name: http, port: 8080, protocol: TCP}]
)");
  EXPECT_EQ(
      DescribeService(service, {four, six}, {MakeEvent("Quarantined", "taken")}, kMinuteAfter),
      "Name:                        shop\n"
      "Namespace:                   default\n"
      "Labels:                      team=a\n"
      "Annotations:                 <none>\n"
      "Selector:                    app=shop,tier=web\n"
      "Type:                        LoadBalancer\n"
      "IP Family Policy:            PreferDualStack\n"
      "IP Families:                 IPv4,IPv6\n"
      "IP:                          10.96.0.10\n"
      "IPs:                         10.96.0.10,fd00:96::a\n"
      "External IPs:                198.51.100.7\n"
      "Desired LoadBalancer IP:     198.51.100.9\n"
      "LoadBalancer Ingress:        198.51.100.9 (VIP), lb.example\n"
      "Port:                        http  80/TCP\n"
      "TargetPort:                  web/TCP\n"
      "NodePort:                    http  30080/TCP\n"
      "Endpoints:                   10.88.0.5:8080,10.88.0.6:8080,10.88.0.8:8080 + 1 more...\n"
      "Port:                        dns  53/UDP\n"
      "TargetPort:                  5353/UDP\n"
      "Endpoints:                   10.88.0.5:5353,10.88.0.6:5353,10.88.0.8:5353\n"
      "Session Affinity:            ClientIP\n"
      "External Traffic Policy:     Local\n"
      "Internal Traffic Policy:     Cluster\n"
      "Traffic Distribution:        PreferClose\n"
      "HealthCheck NodePort:        31000\n"
      "LoadBalancer Source Ranges:  192.0.2.0/24,198.51.100.0/24\n"
      "Events:\n"
      "  Type    Reason       Age   From      Message\n"
      "  ----    ------       ----  ----      -------\n"
      "  Normal  Quarantined  60s   holdfast  taken\n");
}

TEST(DescribeTest, PlainService) {
  const auto service = Read<core::Service>(R"(
metadata: {name: plain, namespace: default}
spec: {type: ClusterIP, clusterIP: 10.96.0.11, sessionAffinity: None,
       ports: [{protocol: TCP, port: 80, targetPort: 80}]}
)");
  EXPECT_EQ(DescribeService(service, {}, {}, kMinuteAfter),
            "Name:              plain\n"
            "Namespace:         default\n"
            "Labels:            <none>\n"
            "Annotations:       <none>\n"
            "Selector:          <none>\n"
            "Type:              ClusterIP\n"
            "IP Families:       <none>\n"
            "IP:                10.96.0.11\n"
            "IPs:               <none>\n"
            "Port:              <unset>  80/TCP\n"
            "TargetPort:        80/TCP\n"
            "Endpoints:         <none>\n"
            "Session Affinity:  None\n"
            "Events:            <none>\n");
}

TEST(DescribeTest, ConfigMap) {
  const auto map = Read<core::ConfigMap>(R"(
metadata: {name: shop, namespace: default, labels: {tier: front, app: shop}, annotations: {a.b/c: note, kubectl.kubernetes.io/last-applied-configuration: "{}"}}
data: {greeting: good morning, shop.conf: "colour = green\nsize = 3\n", empty: "", blank: "x\n\n"}
binaryData: {logo.png: AAEC}
)");
  EXPECT_EQ(DescribeConfigMap(map, {}, kMinuteAfter),
            "Name:         shop\n"
            "Namespace:    default\n"
            "Labels:       app=shop\n"
            "              tier=front\n"
            "Annotations:  a.b/c: note\n"
            "\n"
            "Data\n"
            "====\n"
            "blank:\n"
            "----\n"
            "x\n"
            "\n"
            "\n"
            "\n"
            "empty:\n"
            "----\n"
            "\n"
            "\n"
            "greeting:\n"
            "----\n"
            "good morning\n"
            "\n"
            "shop.conf:\n"
            "----\n"
            "colour = green\n"
            "size = 3\n"
            "\n"
            "\n"
            "\n"
            "BinaryData\n"
            "====\n"
            "logo.png: 3 bytes\n"
            "\n"
            "Events:  <none>\n");
  const auto bare = Read<core::ConfigMap>("metadata: {name: bare, namespace: default}");
  EXPECT_EQ(DescribeConfigMap(bare, {}, kMinuteAfter),
            "Name:         bare\n"
            "Namespace:    default\n"
            "Labels:       <none>\n"
            "Annotations:  <none>\n"
            "\n"
            "Data\n"
            "====\n"
            "\n"
            "BinaryData\n"
            "====\n"
            "\n"
            "Events:  <none>\n");
}

TEST(DescribeTest, ValuesOfAConfigMapMoveNothingOnTheTerminal) {
  core::ConfigMap map;
  (*map.mutable_data())["a"] = "red \x1b[31m\r\nnext";
  EXPECT_EQ(DescribeConfigMap(map, {}, kMinuteAfter).find('\x1b'), std::string::npos);
  EXPECT_EQ(DescribeConfigMap(map, {}, kMinuteAfter).find('\r'), std::string::npos);
}

TEST(DescribeTest, SecretHasSizesOnly) {
  v1::ListSecretsResponse::Secret secret;
  secret.mutable_metadata()->set_name("shop");
  secret.mutable_metadata()->set_namespace_("default");
  secret.set_type("Opaque");
  (*secret.mutable_data_bytes())["password"] = 6;
  (*secret.mutable_data_bytes())["a-much-longer-key"] = 1;
  (*secret.mutable_data_bytes())["none"] = 0;
  EXPECT_EQ(DescribeSecret(secret),
            "Name:         shop\n"
            "Namespace:    default\n"
            "Labels:       <none>\n"
            "Annotations:  <none>\n"
            "\n"
            "Type:  Opaque\n"
            "\n"
            "Data\n"
            "====\n"
            "a-much-longer-key:  1 bytes\n"
            "none:               0 bytes\n"
            "password:           6 bytes\n");
}

}  // namespace
}  // namespace holdfast::agent::cli
