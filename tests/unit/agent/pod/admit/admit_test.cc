// SPDX-License-Identifier: Apache-2.0
// Whether the node takes a pod: reasons and messages as a kubelet's (feature-map 1.10).
#include "agent/pod/admit/admit.h"

#include <gtest/gtest.h>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/pod_identity.h"
#include "agent/pod/admit/node_admission.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// A static pod out of the fields of its spec; `container`: what its container has beside its name.
corev1::Pod PodOf(const std::string& spec, const std::string& container = "",
                  const std::string& metadata = "") {
  kube::Manifest manifest = kube::ReadManifest(
      "a.yaml", StrCat("apiVersion: v1\nkind: Pod\nmetadata: {name: web", metadata,
                       "}\nspec:\n  containers: [{name: app, image: i", container, "}]\n", spec));
  EXPECT_TRUE(manifest.ok()) << kube::ToString(manifest.diagnostics);
  corev1::Pod pod = *manifest.objects.at(0).As<corev1::Pod>();
  kube::SetPodDefaults(&pod);
  kube::MakeStaticPod(&pod, "n1", "/m/a.yaml");
  return pod;
}
corev1::Pod Container(const std::string& fields) { return PodOf("", ", " + fields); }

kube::Amount Amount(const char* text) { return *kube::Amount::Parse(text); }

NodeOffer Node() {
  NodeOffer node;
  node.name = "n1";
  node.labels = {{"kubernetes.io/os", "linux"}, {"disk", "ssd"}, {"cores", "8"}};
  node.allocatable = {{"cpu", Amount("2")},
                      {"memory", Amount("1Gi")},
                      {"ephemeral-storage", Amount("10Gi")},
                      {"hugepages-2Mi", Amount("4Mi")},
                      {"pods", Amount("110")}};
  node.no_app_armor = "AppArmor is not enabled on the host";
  return node;
}

// "" when the pod is taken.
std::string Verdict(const corev1::Pod& pod, const NodeOffer& node = Node(),
                    const NodeUse& used = {}) {
  const Admission verdict = Admit(pod, node, used);
  return verdict.admitted() ? "" : StrCat(verdict.reason, ": ", verdict.message);
}

std::string NoRoom(const std::string& resource, const std::string& numbers) {
  return StrCat("OutOf", resource, ": Node didn't have enough resource: ", resource, ", ", numbers);
}

TEST(AdmitTest, TakesAPlainPod) { EXPECT_EQ(Verdict(PodOf("")), ""); }

// As an API server's pod: one of a file is critical.
corev1::Pod FromApi(corev1::Pod pod) {
  (*pod.mutable_metadata()->mutable_annotations())["kubernetes.io/config.source"] = "api";
  return pod;
}

TEST(AdmitTest, PressuresOfTheNode) {
  const auto under = [](NodePressure pressure) {
    NodeOffer node = Node();
    node.pressure = pressure;
    return node;
  };
  const NodeOffer memory = under({.memory = true}), disk = under({.disk = true}),
                  all = under({true, true, true});
  const corev1::Pod best_effort = FromApi(PodOf(""));
  const corev1::Pod burstable = FromApi(Container("resources: {requests: {memory: 1Mi}}"));
  const corev1::Pod bears = FromApi(
      PodOf("  tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists}]\n"));
  corev1::Pod critical = best_effort;
  critical.mutable_spec()->set_priority(2'000'000'000);
  EXPECT_EQ(Verdict(best_effort, memory), "Evicted: The node had condition: [MemoryPressure]. ");
  EXPECT_EQ(Verdict(burstable, memory), "");
  EXPECT_EQ(Verdict(bears, memory), "");
  EXPECT_EQ(Verdict(burstable, disk), "Evicted: The node had condition: [DiskPressure]. ");
  EXPECT_EQ(Verdict(bears, under({.memory = true, .pids = true})),
            "Evicted: The node had condition: [MemoryPressure PIDPressure]. ");
  EXPECT_EQ(Verdict(burstable, all),
            "Evicted: The node had condition: [MemoryPressure DiskPressure PIDPressure]. ");
  EXPECT_EQ(Verdict(critical, all), "");
  EXPECT_EQ(Verdict(PodOf(""), all), "") << "a static pod";
  EXPECT_EQ(Verdict(best_effort, under({})), "");
}

TEST(AdmitTest, ResourcesThatTheNodeHasNot) {
  EXPECT_EQ(Verdict(Container("resources: {requests: {cpu: 2, memory: 1Gi}}")), "");
  EXPECT_EQ(Verdict(Container("resources: {requests: {cpu: 64, memory: 100Ti}}")),
            NoRoom("cpu", "requested: 64000, used: 0, capacity: 2000"));
  EXPECT_EQ(Verdict(Container("resources: {limits: {memory: 2Gi}}")),
            NoRoom("memory", "requested: 2147483648, used: 0, capacity: 1073741824"));
  EXPECT_EQ(Verdict(Container("resources: {requests: {ephemeral-storage: 11Gi}}")),
            NoRoom("ephemeral-storage", "requested: 11811160064, used: 0, capacity: 10737418240"));
  EXPECT_EQ(Verdict(Container("resources: {limits: {hugepages-2Mi: 8Mi, memory: 1Mi}}")),
            NoRoom("hugepages-2Mi", "requested: 8388608, used: 0, capacity: 4194304"));
  EXPECT_EQ(Verdict(Container("resources: {limits: {hugepages-1Gi: 1Gi, memory: 1Mi}}")),
            NoRoom("hugepages-1Gi", "requested: 1073741824, used: 0, capacity: 0"));
  EXPECT_EQ(Verdict(Container("resources: {limits: {example.com/gpu: 1}}")), "")
      << "not the node's: a kubelet does not count it either";
  NodeOffer with_gpu = Node();
  with_gpu.allocatable["example.com/gpu"] = Amount("1");
  EXPECT_EQ(Verdict(Container("resources: {limits: {example.com/gpu: 2}}"), with_gpu),
            NoRoom("example.com/gpu", "requested: 2, used: 0, capacity: 1"));
}

TEST(AdmitTest, CountsWhatTheOthersTook) {
  NodeUse used;
  used.Add("u1", UseOf(Container("resources: {requests: {cpu: 1500m, memory: 1Mi}}")));
  used.Add("u1", UseOf(Container("resources: {requests: {cpu: 1500m, memory: 1Mi}}")));
  EXPECT_EQ(Verdict(Container("resources: {requests: {cpu: 500m}}"), Node(), used), "");
  const corev1::Pod more = Container("resources: {requests: {cpu: 501m}}");
  EXPECT_EQ(Verdict(more, Node(), used),
            NoRoom("cpu", "requested: 501, used: 1500, capacity: 2000"));
  EXPECT_EQ(Verdict(PodOf(""), Node(), used), "") << "who asks for nothing has room";
  used.Remove("u1");
  used.Remove("u1");
  EXPECT_EQ(Verdict(more, Node(), used), "");
}

TEST(AdmitTest, OverheadIsPartOfWhatAPodTakes) {
  const corev1::Pod pod = PodOf("  runtimeClassName: fast\n  overhead: {cpu: 600m, memory: 1Mi}\n");
  NodeUse used;
  used.Add("u1", UseOf(pod));
  EXPECT_EQ(used.Of("cpu"), 600);
  EXPECT_EQ(used.Of("memory"), 1 << 20);
  used.Add("u2", UseOf(pod));
  used.Add("u3", UseOf(pod));
  EXPECT_EQ(Verdict(pod, Node(), used),
            NoRoom("cpu", "requested: 600, used: 1800, capacity: 2000"));
}

TEST(AdmitTest, AmountsBeyondAllBoundsStaySums) {
  NodeUse used;
  const corev1::Pod huge = Container("resources: {requests: {memory: '9223372036854775807'}}");
  for (const char* uid : {"u1", "u2", "u3"}) used.Add(uid, UseOf(huge));
  EXPECT_EQ(used.Of("memory"), INT64_MAX);
  EXPECT_EQ(Verdict(Container("resources: {requests: {memory: 1}}"), Node(), used).substr(0, 12),
            "OutOfmemory:");
  for (const char* uid : {"u1", "u2", "u3"}) used.Remove(uid);
  EXPECT_EQ(used.Of("memory"), 0);
}

TEST(AdmitTest, NoMorePodsThanMaxPods) {
  NodeUse used;
  for (int i = 0; i < 110; ++i) {
    ASSERT_EQ(Verdict(PodOf(""), Node(), used), "") << i;
    used.Add(StrCat("u", i), UseOf(PodOf("")));
  }
  EXPECT_EQ(Verdict(PodOf(""), Node(), used),
            NoRoom("pods", "requested: 1, used: 110, capacity: 110"));
}

TEST(AdmitTest, NodeSelectorAndAffinity) {
  const std::string refused =
      "NodeAffinity: Predicate NodeAffinity failed: node(s) didn't match Pod's node "
      "affinity/selector";
  EXPECT_EQ(Verdict(PodOf("  nodeSelector: {disk: ssd}\n")), "");
  EXPECT_EQ(Verdict(PodOf("  nodeSelector: {disk: hdd}\n")), refused);
  EXPECT_EQ(Verdict(PodOf("  nodeSelector: {nosuch: ''}\n")), refused);
  const auto affinity = [](const std::string& terms) {
    return Verdict(
        PodOf(StrCat("  affinity: {nodeAffinity: "
                     "{requiredDuringSchedulingIgnoredDuringExecution: "
                     "{nodeSelectorTerms: [",
                     terms, "]}}}\n")));
  };
  const auto one = [&](const std::string& wish) {
    return affinity("{matchExpressions: [{" + wish + "}]}");
  };
  EXPECT_EQ(one("key: disk, operator: In, values: [hdd, ssd]"), "");
  EXPECT_EQ(one("key: disk, operator: In, values: [hdd]"), refused);
  EXPECT_EQ(one("key: disk, operator: NotIn, values: [hdd]"), "");
  EXPECT_EQ(one("key: nosuch, operator: NotIn, values: [hdd]"), "") << "who has none is not in it";
  EXPECT_EQ(one("key: disk, operator: NotIn, values: [ssd]"), refused);
  EXPECT_EQ(one("key: disk, operator: Exists"), "");
  EXPECT_EQ(one("key: nosuch, operator: Exists"), refused);
  EXPECT_EQ(one("key: nosuch, operator: DoesNotExist"), "");
  EXPECT_EQ(one("key: disk, operator: DoesNotExist"), refused);
  EXPECT_EQ(one("key: cores, operator: Gt, values: ['7']"), "");
  EXPECT_EQ(one("key: cores, operator: Gt, values: ['8']"), refused);
  EXPECT_EQ(one("key: cores, operator: Lt, values: ['9']"), "");
  EXPECT_EQ(one("key: disk, operator: Lt, values: ['9']"), refused) << "no number";
  EXPECT_EQ(affinity("{matchFields: [{key: metadata.name, operator: In, values: [n1]}]}"), "");
  EXPECT_EQ(affinity("{matchFields: [{key: metadata.name, operator: In, values: [n2]}]}"), refused);
  EXPECT_EQ(affinity("{}, {matchExpressions: [{key: disk, operator: Exists}]}"), "") << "either";
  EXPECT_EQ(affinity("{}"), refused) << "a term without a wish matches nothing";
  EXPECT_EQ(Verdict(PodOf("  affinity: {nodeAffinity: "
                          "{preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, "
                          "preference: {matchExpressions: [{key: x, operator: Exists}]}}]}}\n")),
            "");
}

TEST(AdmitTest, OperatingSystem) {
  EXPECT_EQ(Verdict(PodOf("  os: {name: linux}\n")), "");
  EXPECT_EQ(Verdict(PodOf("  os: {name: windows}\n")),
            "PodOSNotSupported: Failed to admit pod as the OS field doesn't match node OS");
  EXPECT_EQ(Verdict(PodOf("", "", ", labels: {kubernetes.io/os: windows}")),
            "PodOSSelectorNodeLabelDoesNotMatch: Failed to admit pod as the `kubernetes.io/os` "
            "label doesn't match node label");
  EXPECT_EQ(Verdict(PodOf("", "", ", labels: {kubernetes.io/os: linux}")), "");
}

TEST(AdmitTest, SysctlsThatAreNotSafe) {
  const auto with = [](const std::string& name, const std::string& more = "") {
    return PodOf(StrCat("  securityContext: {sysctls: [{name: ", name, ", value: '1'}]}\n", more));
  };
  EXPECT_EQ(Verdict(with("kernel.shm_rmid_forced")), "");
  EXPECT_EQ(Verdict(with("net/ipv4/tcp_rmem")), "");
  const std::string refused =
      "SysctlForbidden: forbidden sysctl: \"kernel.msgmax\" not allowlisted";
  EXPECT_EQ(Verdict(with("kernel.msgmax")), refused);
  EXPECT_EQ(Verdict(with("kernel/msgmax")), refused);
  NodeOffer node = Node();
  node.allowed_unsafe_sysctls = {"kernel.msg*", "net/core/somaxconn"};
  EXPECT_EQ(Verdict(with("kernel.msgmax"), node), "");
  EXPECT_EQ(Verdict(with("net.core.somaxconn"), node), "");
  EXPECT_EQ(Verdict(with("net.core.somaxconn2"), node),
            "SysctlForbidden: forbidden sysctl: \"net.core.somaxconn2\" not allowlisted");
  EXPECT_EQ(Verdict(with("net.core.somaxconn", "  hostNetwork: true\n"), node),
            "SysctlForbidden: forbidden sysctl: \"net.core.somaxconn\" not allowed with host net "
            "enabled");
  EXPECT_EQ(Verdict(with("kernel.msgmax", "  hostIPC: true\n"), node),
            "SysctlForbidden: forbidden sysctl: \"kernel.msgmax\" not allowed with host ipc "
            "enabled");
}

TEST(AdmitTest, AppArmorProfilesThatCannotBeSet) {
  const std::string refused =
      "AppArmor: Cannot enforce AppArmor: AppArmor is not enabled on the host";
  const auto pod = [](const std::string& type) {
    return PodOf(StrCat("  securityContext: {appArmorProfile: {", type, "}}\n"));
  };
  EXPECT_EQ(Verdict(pod("type: RuntimeDefault")), refused);
  EXPECT_EQ(Verdict(pod("type: Localhost, localhostProfile: nosuch")), refused);
  EXPECT_EQ(Verdict(pod("type: Unconfined")), "");
  const auto container = [](const std::string& type) {
    return Container(StrCat("securityContext: {appArmorProfile: {", type, "}}"));
  };
  EXPECT_EQ(Verdict(container("type: RuntimeDefault")), refused);
  EXPECT_EQ(Verdict(container("type: Unconfined")), "");
  const std::string old = ", annotations: {container.apparmor.security.beta.kubernetes.io/app: ";
  EXPECT_EQ(Verdict(PodOf("", "", old + "runtime/default}")), refused);
  EXPECT_EQ(Verdict(PodOf("", "", old + "unconfined}")), "");
  EXPECT_EQ(Verdict(PodOf("  securityContext: {appArmorProfile: {type: RuntimeDefault}}\n",
                          ", securityContext: {appArmorProfile: {type: Unconfined}}")),
            refused)
      << "it is named, though for no container";
  NodeOffer able = Node();
  able.no_app_armor = "";
  EXPECT_EQ(Verdict(pod("type: RuntimeDefault"), able), "");
  EXPECT_EQ(Verdict(PodOf("", "", old + "localhost/}"), able),
            "AppArmor: Cannot enforce AppArmor: invalid empty AppArmor profile name: "
            "\"&AppArmorProfile{Type:Localhost,LocalhostProfile:*,}\"");
}

TEST(AdmitTest, PortsOfTheNode) {
  const auto port = [](const std::string& fields) {
    return Container(StrCat("ports: [{containerPort: 80, ", fields, "}]"));
  };
  const std::string taken =
      "NodePorts: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod "
      "ports";
  NodeUse used;
  used.Add("u1", UseOf(port("hostPort: 8080, hostIP: 192.0.2.1")));
  used.Add("u2", UseOf(port("hostPort: 9090")));
  used.Add("u3", UseOf(port("hostPort: 53, protocol: UDP")));
  EXPECT_EQ(Verdict(port("hostPort: 8080, hostIP: 192.0.2.1"), Node(), used), taken);
  EXPECT_EQ(Verdict(port("hostPort: 8080, hostIP: 192.0.2.2"), Node(), used), "");
  EXPECT_EQ(Verdict(port("hostPort: 8080"), Node(), used), taken) << "all addresses";
  EXPECT_EQ(Verdict(port("hostPort: 9090, hostIP: 192.0.2.2"), Node(), used), taken);
  EXPECT_EQ(Verdict(port("hostPort: 9090, hostIP: 0.0.0.0"), Node(), used), taken);
  EXPECT_EQ(Verdict(port("hostPort: 53"), Node(), used), "") << "TCP";
  EXPECT_EQ(
      Verdict(PodOf("  hostNetwork: true\n", ", ports: [{containerPort: 9090}]"), Node(), used),
      taken);
  used.Remove("u2");
  EXPECT_EQ(Verdict(port("hostPort: 9090"), Node(), used), "");
}

TEST(AdmitTest, TaintsAreForPodsThatAreNotStatic) {
  NodeOffer node = Node();
  corev1::Taint& taint = node.taints.emplace_back();
  taint.set_key("k");
  taint.set_value("v");
  taint.set_effect("NoExecute");
  corev1::Pod pod = PodOf("");
  EXPECT_EQ(Verdict(pod, node), "");
  (*pod.mutable_metadata()->mutable_annotations())[kube::kConfigSourceAnnotation] = "api";
  pod.mutable_spec()->clear_tolerations();
  EXPECT_EQ(Verdict(pod, node),
            "TaintToleration: Predicate TaintToleration failed: node(s) had taints that the pod "
            "didn't tolerate");
  corev1::Toleration& toleration = *pod.mutable_spec()->add_tolerations();
  toleration.set_key("k");
  toleration.set_value("other");
  EXPECT_NE(Verdict(pod, node), "");
  toleration.set_value("v");
  EXPECT_EQ(Verdict(pod, node), "");
  pod.mutable_spec()->clear_tolerations();
  node.taints[0].set_effect("NoSchedule");
  EXPECT_EQ(Verdict(pod, node), "") << "the scheduler's";
}

TEST(AdmitTest, ClaimsHaveNobodyToAllocateThem) {
  EXPECT_EQ(Verdict(PodOf("  resourceClaims: [{name: gpu, resourceClaimName: c}]\n")),
            "UnexpectedAdmissionError: resource claim \"gpu\" cannot be prepared: this node has no "
            "API server that could allocate it");
}

// Of several faults the first in a kubelet's order is told.
TEST(AdmitTest, OrderOfTheQuestions) {
  std::string spec =
      "  securityContext: {sysctls: [{name: kernel.sem, value: '1'}], appArmorProfile: {type: "
      "RuntimeDefault}}\n  os: {name: windows}\n  nodeSelector: {rack: seven}\n";
  const std::string big = ", resources: {requests: {cpu: 64}}";
  NodeOffer node = Node();
  const auto reason = [&] {
    const std::string text = Verdict(PodOf(spec, big), node);
    return text.substr(0, text.find(':'));
  };
  EXPECT_EQ(reason(), "SysctlForbidden");
  node.allowed_unsafe_sysctls = {"kernel.sem"};
  EXPECT_EQ(reason(), "PodOSNotSupported");
  spec.replace(spec.find("windows"), 7, "linux");
  EXPECT_EQ(reason(), "OutOfcpu");
  node.allocatable["cpu"] = Amount("100");
  EXPECT_EQ(reason(), "NodeAffinity");
  node.labels["rack"] = "seven";
  EXPECT_EQ(reason(), "AppArmor");
  node.no_app_armor = "";
  EXPECT_EQ(reason(), "");
}

TEST(NodeAdmissionTest, APlaceIsTakenOnceAndGivenBack) {
  NodeAdmission admission([] {
    auto node = std::make_shared<NodeOffer>(Node());
    node->allocatable["pods"] = Amount("2");
    return node;
  });
  const auto pod = [](const char* uid) {
    corev1::Pod made = PodOf("");
    made.mutable_metadata()->set_uid(uid);
    return made;
  };
  admission.Adopt(pod("old"), false);
  admission.Adopt(pod("old"), false);
  EXPECT_TRUE(admission.Admit(pod("a")).admitted());
  EXPECT_EQ(admission.Admit(pod("b")).reason, "OutOfpods");
  EXPECT_EQ(admission.Admit(pod("b")).reason, "OutOfpods") << "who was refused takes nothing";
  admission.Release("old");
  admission.Release("old");
  admission.Release("nosuch");
  EXPECT_TRUE(admission.Admit(pod("b")).admitted());
  EXPECT_EQ(admission.Admit(pod("c")).reason, "OutOfpods");
}

}  // namespace
}  // namespace holdfast::agent
