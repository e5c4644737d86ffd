// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/validation/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/defaulting.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::unique_ptr<corev1::Pod> ReadPod(const std::string& text) {
  Manifest manifest = ReadManifest("pod.yaml", text);
  EXPECT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  if (manifest.objects.size() != 1) return std::make_unique<corev1::Pod>();
  auto pod = manifest.objects[0].Take<corev1::Pod>();
  SetPodDefaults(pod.get());
  return pod;
}

std::vector<std::string> Lines(const FieldErrors& errors) {
  std::vector<std::string> lines;
  for (const FieldError& error : errors) lines.push_back(error.ToString());
  return lines;
}

std::vector<std::string> Faults(const std::string& text) {
  return Lines(ValidatePod(*ReadPod(text)));
}

// A pod that is right but for `spec` (lines below "spec:") and `container` (below the container).
std::string Pod(const std::string& container, const std::string& spec = "") {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n" + spec +
         "  containers:\n  - name: c\n    image: i\n" + container;
}

constexpr char kLabelRule[] =
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must "
    "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

TEST(ValidatePodTest, AcceptsAPodThatUsesMuch) {
  EXPECT_THAT(Faults(R"(apiVersion: v1
kind: Pod
metadata: {name: web.example, labels: {app.kubernetes.io/name: web}, annotations: {Example.com/A: x}}
spec:
  hostname: web
  dnsPolicy: None
  dnsConfig: {nameservers: [10.0.0.1, "fd00::1"], searches: [a_b.example., "."]}
  hostAliases: [{ip: 127.0.0.1, hostnames: [a.b]}]
  securityContext: {runAsUser: 0, fsGroup: 5, sysctls: [{name: net/core/somaxconn, value: "1"}]}
  tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 5}]
  volumes:
  - {name: e, emptyDir: {sizeLimit: 1Gi}}
  - {name: h, hostPath: {path: /var/x, type: DirectoryOrCreate}}
  - name: p
    projected: {sources: [{downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}
  initContainers:
  - {name: first, image: i, command: [a], resources: {limits: {cpu: 1, memory: 1Gi}}}
  - name: side
    image: i
    restartPolicy: Always
    startupProbe: {exec: {command: [x]}}
  containers:
  - name: c
    image: i
    env:
    - {name: "A B", value: x}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: L, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    ports: [{name: http, containerPort: 80, hostPort: 8080}]
    resources: {limits: {cpu: 2, memory: 1Gi, example.com/gpu: 1, hugepages-2Mi: 4Mi}}
    volumeMounts: [{name: e, mountPath: /e}, {name: h, mountPath: /h, subPath: a/b}]
    livenessProbe: {httpGet: {port: http, httpHeaders: [{name: X-A, value: b}]}}
    readinessProbe: {tcpSocket: {port: 80}}
    lifecycle: {preStop: {sleep: {seconds: 5}}}
)"),
              IsEmpty());
}

TEST(ValidatePodTest, NamesAndRequiredFields) {
  EXPECT_THAT(Faults("apiVersion: v1\nkind: Pod\nspec: {}\n"),
              ElementsAre("metadata.name: Required value: name or generateName is required",
                          "spec.containers: Required value"));
  EXPECT_THAT(
      Faults("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n"
             "  - {name: X}\n  - {name: a.b, image: ' i'}\n  - {image: i}\n"
             "  - {name: d, image: i, imagePullPolicy: Sometimes}\n"
             "  - {name: d, image: i}\n"),
      ElementsAre(std::string("spec.containers[0].name: Invalid value: \"X\": ") + kLabelRule,
                  "spec.containers[0].image: Required value",
                  "spec.containers[1].name: Invalid value: \"a.b\": must not contain dots",
                  "spec.containers[1].image: Invalid value: \" i\": must not have leading or "
                  "trailing whitespace",
                  "spec.containers[2].name: Required value",
                  "spec.containers[3].imagePullPolicy: Unsupported value: \"Sometimes\": "
                  "supported values: \"Always\", \"IfNotPresent\", \"Never\"",
                  "spec.containers[4].name: Duplicate value: \"d\""));
}

TEST(ValidatePodTest, Metadata) {
  EXPECT_THAT(
      Faults("apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: a.b, generation: -1,\n"
             "  labels: {a/b/c: x, /d: x, e: -x}}\n"
             "spec: {containers: [{name: c, image: i}]}\n"),
      ElementsAre("metadata.namespace: Invalid value: \"a.b\": must not contain dots",
                  "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
                  "metadata.labels: Invalid value: \"/d\": prefix part must be non-empty",
                  ::testing::StartsWith(
                      "metadata.labels: Invalid value: \"a/b/c\": a valid label key must consist"),
                  ::testing::StartsWith(
                      "metadata.labels: Invalid value: \"-x\": a valid label must be an empty "
                      "string or consist")));
  const std::string name(254, 'a');
  EXPECT_THAT(Faults("apiVersion: v1\nkind: Pod\nmetadata: {name: " + name +
                     "}\nspec: {containers: [{name: c, image: i}]}\n"),
              ElementsAre("metadata.name: Invalid value: \"" + name +
                          "\": must be no more than 253 characters"));
}

TEST(ValidatePodTest, Ports) {
  EXPECT_THAT(
      Faults(Pod(R"(    ports:
    - {name: http, containerPort: 70000}
    - {name: http, containerPort: 80, hostPort: 8080}
    - {name: a--b, containerPort: 81, protocol: tcp, hostPort: 8080, hostIP: x}
    - {protocol: TCP, hostPort: 8080}
)")),
      ElementsAre("spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be "
                  "between 1 and 65535, inclusive",
                  "spec.containers[0].ports[1].name: Duplicate value: \"http\"",
                  "spec.containers[0].ports[2].name: Invalid value: \"a--b\": must not "
                  "contain consecutive hyphens",
                  "spec.containers[0].ports[2].protocol: Unsupported value: \"tcp\": "
                  "supported values: \"SCTP\", \"TCP\", \"UDP\"",
                  "spec.containers[0].ports[2].hostIP: Invalid value: \"x\": must be a valid "
                  "IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
                  "spec.containers[0].ports[3].containerPort: Required value",
                  "spec.containers[0].ports[3].hostPort: Duplicate value: \"TCP//8080\""));
  EXPECT_THAT(
      Faults(Pod("    ports: [{containerPort: 80, hostPort: 81}]\n", "  hostNetwork: true\n")),
      ElementsAre("spec.containers[0].ports[0].hostPort: Invalid value: 81: must match "
                  "`containerPort` when `hostNetwork` is true"));
}

TEST(ValidatePodTest, Environment) {
  EXPECT_THAT(
      Faults(Pod(R"(    env:
    - {name: "A=B"}
    - {name: C, value: x, valueFrom: {configMapKeyRef: {name: m, key: "a b"}}}
    - {name: D, valueFrom: {}}
    - {name: E, valueFrom: {fieldRef: {fieldPath: spec.hostname}}}
    - {name: F, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 2}}}
    - {name: G, valueFrom: {fileKeyRef: {key: K, volumeName: none, path: a/../b}}}
    envFrom:
    - {prefix: P}
)")),
      ElementsAre(
          "spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable "
          "name "
          "must consist only of printable ASCII characters other than '='",
          ::testing::StartsWith("spec.containers[0].env[1].valueFrom.configMapKeyRef.key: Invalid "
                                "value: \"a b\": a valid config key must consist"),
          "spec.containers[0].env[1].valueFrom: Invalid value: \"\": may not be specified when "
          "`value` is not empty",
          "spec.containers[0].env[2].valueFrom: Invalid value: \"\": must specify one of: "
          "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
          "spec.containers[0].env[3].valueFrom.fieldRef.fieldPath: Invalid value: "
          "\"spec.hostname\": error converting fieldPath: field label not supported: spec.hostname",
          "spec.containers[0].env[4].valueFrom.resourceFieldRef.divisor: Invalid value: "
          "\"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
          "spec.containers[0].env[5].valueFrom.fileKeyRef.path: Invalid value: \"a/../b\": must "
          "not "
          "contain '..'",
          "spec.containers[0].envFrom[0]: Invalid value: \"\": must specify one of: `configMapRef` "
          "or `secretRef`",
          "spec.containers[0].env[5].valueFrom.fileKeyRef.volumeName: Not found: \"none\""));
}

TEST(ValidatePodTest, Resources) {
  EXPECT_THAT(
      Faults(Pod("    resources:\n"
                 "      requests: {cpu: 2, memory: -1, gold: 1, example.com/gpu: 1}\n"
                 "      limits: {cpu: 1, hugepages-2Mi: 3Mi}\n")),
      ElementsAre(
          "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not "
          "positive integer multiple of hugepages-2Mi",
          "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal "
          "to cpu limit of 1",
          "spec.containers[0].resources.limits: Required value: Limit must be set for non "
          "overcommitable resources",
          "spec.containers[0].resources.requests[gold]: Invalid value: \"gold\": must be a "
          "standard resource type or fully qualified",
          "spec.containers[0].resources.requests[gold]: Invalid value: \"gold\": must be a "
          "standard resource for containers",
          "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is "
          "not "
          "positive integer multiple of hugepages-2Mi",
          "spec.containers[0].resources.requests[memory]: Invalid value: \"-1\": must be greater "
          "than or equal to 0"));
}

TEST(ValidatePodTest, VolumesAndMounts) {
  EXPECT_THAT(
      Faults(Pod(R"(    volumeMounts:
    - {name: none, mountPath: /a}
    - {name: good, mountPath: /a, subPath: ../x}
    - {name: good, mountPath: /b, subPath: /x, mountPropagation: Bidirectional}
    - {name: good, mountPath: /c, recursiveReadOnly: Enabled}
)",
                 R"(  volumes:
  - {name: good, emptyDir: {}}
  - {name: good, emptyDir: {}}
  - {name: two, emptyDir: {}, hostPath: {path: /x}}
  - {name: h, hostPath: {path: /x/../y, type: Folder}}
  - {name: s, secret: {secretName: x, defaultMode: 512, items: [{key: k, path: ..data}]}}
)")),
      IsSupersetOf(std::vector<std::string>{
          "spec.volumes[1].name: Duplicate value: \"good\"",
          "spec.volumes[2].hostPath: Forbidden: may not specify more than 1 volume type",
          "spec.volumes[3].hostPath.path: Invalid value: \"/x/../y\": must not contain '..'",
          "spec.volumes[4].secret.defaultMode: Invalid value: 512: must be a number between 0 and "
          "0777 (octal), both inclusive",
          "spec.volumes[4].secret.items[0].path: Invalid value: \"..data\": must not start with "
          "'..'",
          "spec.containers[0].volumeMounts[0].name: Not found: \"none\"",
          "spec.containers[0].volumeMounts[1].subPath: Invalid value: \"../x\": must not contain "
          "'..'",
          "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
          "spec.containers[0].volumeMounts[2].subPath: Invalid value: \"/x\": must be a relative "
          "path",
          "spec.containers[0].volumeMounts[2].mountPropagation: Forbidden: Bidirectional mount "
          "propagation is available only to privileged containers",
          "spec.containers[0].volumeMounts[3].recursiveReadOnly: Forbidden: may only be specified "
          "when readOnly is true"}));
}

TEST(ValidatePodTest, ProbesAndHooks) {
  EXPECT_THAT(
      Faults(Pod(
          R"(    livenessProbe: {exec: {command: [a]}, tcpSocket: {port: 1}, successThreshold: 2}
    readinessProbe: {terminationGracePeriodSeconds: 3}
    startupProbe: {httpGet: {port: 0, scheme: FTP}, periodSeconds: -1}
    lifecycle: {preStop: {sleep: {seconds: 40}}, stopSignal: SIGTERM}
)",
          "  initContainers: [{name: i, image: i, livenessProbe: {exec: {command: [a]}}}]\n")),
      ElementsAre(
          "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 40: must be non-negative and "
          "less than terminationGracePeriodSeconds (30)",
          "spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with "
          "empty `spec.os.name`",
          "spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 "
          "handler type",
          "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
          "spec.containers[0].readinessProbe: Required value: must specify a handler type",
          "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must "
          "not be set for readinessProbes",
          "spec.containers[0].startupProbe.httpGet.port: Invalid value: 0: must be between 1 and "
          "65535, inclusive",
          "spec.containers[0].startupProbe.httpGet.scheme: Unsupported value: \"FTP\": supported "
          "values: \"HTTP\", \"HTTPS\"",
          "spec.containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than "
          "or equal to 0",
          "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers "
          "without restartPolicy=Always"));
}

TEST(ValidatePodTest, UsersOfItsOwnAndNamespacesOfTheHostExcludeEachOther) {
  EXPECT_THAT(Faults(Pod("", R"(  hostUsers: false
  hostNetwork: true
  hostPID: true
  hostIPC: true
)")),
              IsSupersetOf(
                  std::vector<std::string>{"spec.hostNetwork: Forbidden: when `hostUsers` is false",
                                           "spec.HostPID: Forbidden: when `hostUsers` is false",
                                           "spec.HostIPC: Forbidden: when `hostUsers` is false"}));
  EXPECT_THAT(Faults(Pod("    securityContext: {procMount: Unmasked}\n", "  hostUsers: false\n")),
              testing::IsEmpty());
}

TEST(ValidatePodTest, Security) {
  EXPECT_THAT(
      Faults(Pod(R"(    securityContext:
      runAsUser: -1
      privileged: true
      allowPrivilegeEscalation: false
      procMount: Unmasked
      seccompProfile: {type: Localhost}
)",
                 R"(  hostPID: true
  shareProcessNamespace: true
  securityContext: {fsGroup: 3000000000, sysctls: [{name: "a b", value: x}], seccompProfile: {type: X}}
)")),
      IsSupersetOf(std::vector<std::string>{
          "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and "
          "2147483647, inclusive",
          "spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` "
          "must be false to use `Unmasked`",
          "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: "
          "must "
          "be set when seccomp type is Localhost",
          "spec.containers[0].securityContext: Invalid value: "
          "{\"privileged\":true,\"runAsUser\":-1,\"allowPrivilegeEscalation\":false,\"procMount\":"
          "\"Unmasked\",\"seccompProfile\":{\"type\":\"Localhost\"}}: cannot set "
          "`allowPrivilegeEscalation` to false and `privileged` to true",
          "spec.securityContext.fsGroup: Invalid value: 3000000000: must be between 0 and "
          "2147483647, inclusive",
          "spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID "
          "cannot "
          "both be enabled",
          "spec.securityContext.seccompProfile.type: Unsupported value: \"X\": supported values: "
          "\"Localhost\", \"RuntimeDefault\", \"Unconfined\""}));
}

TEST(ValidatePodTest, PodLevelFields) {
  EXPECT_THAT(
      Faults(Pod("", R"(  restartPolicy: Sometimes
  dnsPolicy: None
  activeDeadlineSeconds: 0
  hostname: A
  hostAliases: [{ip: x}]
  nodeSelector: {a: -b}
  tolerations: [{operator: Maybe, key: a}, {effect: NoSchedule, operator: Exists, tolerationSeconds: 1}]
)")),
      ElementsAre(
          "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, "
          "inclusive",
          "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None",
          std::string("spec.hostname: Invalid value: \"A\": ") + kLabelRule,
          "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. "
          "10.9.8.7 or 2001:db8::ffff)",
          "spec.tolerations[0].operator: Unsupported value: \"Maybe\": supported values: "
          "\"Equal\", \"Exists\"",
          "spec.tolerations[1].effect: Invalid value: \"NoSchedule\": effect must be "
          "'NoExecute' when `tolerationSeconds` is set",
          "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: "
          "\"Always\", \"OnFailure\", \"Never\"",
          ::testing::StartsWith("spec.nodeSelector: Invalid value: \"-b\": a valid label")));
}

TEST(ValidatePodTest, NamesLineAndColumn) {
  Manifest manifest = ReadManifest("web.yaml", Pod("    imagePullPolicy: Often\n"));
  ASSERT_TRUE(manifest.ok());
  auto* pod = manifest.objects[0].As<corev1::Pod>();
  SetPodDefaults(pod);
  const auto diagnostics = ToDiagnostics(ValidatePod(*pod), manifest.objects[0]);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].ToString(),
            "web.yaml:8:22: spec.containers[0].imagePullPolicy: Unsupported value: \"Often\": "
            "supported values: \"Always\", \"IfNotPresent\", \"Never\"");
}

// What docs/manifests.md says of findings.md section 6 and U23; tests/kube/validation has the
// breadth.
TEST(ValidatePodTest, ClaimsAreNamedOnceAndExist) {
  EXPECT_THAT(
      Faults(Pod("    resources: {claims: [{name: a}, {name: a}, {name: x}]}\n",
                 "  resourceClaims:\n  - {name: a, resourceClaimName: A}\n  - {name: a}\n")),
      ElementsAre(
          ::testing::StartsWith(
              "spec.resourceClaims[0].resourceClaimName: Invalid value: \"A\": a lowercase"),
          "spec.resourceClaims[1].name: Duplicate value: \"a\"",
          "spec.resourceClaims[1]: Invalid value: {\"name\":\"a\"}: must specify one of: "
          "`resourceClaimName`, `resourceClaimTemplateName`",
          "spec.containers[0].resources.claims[1]: Duplicate value: \"a\"",
          "spec.containers[0].resources.claims[2]: Not found: \"x\": must be one of the "
          "names in pod.spec.resourceClaims: a"));
}

TEST(ValidatePodTest, AddressOfTheHostMattersOnlyBesideItsPort) {
  EXPECT_THAT(Faults(Pod("    ports: [{containerPort: 80, hostIP: 1.2.3}]\n")), IsEmpty());
  EXPECT_THAT(Faults(Pod("    ports: [{containerPort: 80, hostPort: 80, hostIP: 1.2.3}]\n")),
              ElementsAre("spec.containers[0].ports[0].hostIP: Invalid value: \"1.2.3\": must be a "
                          "valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"));
}

TEST(ValidatePodTest, NetworkSettingsOfTheHostAreNotThePods) {
  EXPECT_THAT(
      Faults(Pod("",
                 "  hostNetwork: true\n  securityContext: {sysctls: [{name: net/core/x, value: "
                 "\"1\"}, {name: kernel.msgmax, value: \"1\"}]}\n")),
      ElementsAre("spec.securityContext.sysctls[0].name: Invalid value: \"net/core/x\": may not be "
                  "specified when 'hostNetwork' is true"));
}

TEST(ValidatePodTest, SearchPathsMayHaveUnderscores) {
  EXPECT_THAT(Faults(Pod("", "  dnsConfig: {searches: [a_b, a_b., _x.y, \".\"]}\n")), IsEmpty());
  EXPECT_THAT(
      Faults(Pod("", "  dnsConfig: {searches: [_]}\n")),
      ElementsAre(::testing::StartsWith("spec.dnsConfig.searches[0]: Invalid value: \"_\": a "
                                        "lowercase RFC 1123 subdomain must consist of lower "
                                        "case alphanumeric characters, '_', '-'")));
}

TEST(ValidatePodTest, FieldsOfMetadata) {
  EXPECT_THAT(
      Faults("apiVersion: v1\nkind: Pod\nmetadata: {name: web, finalizers: [x], labels: {a: " +
             std::string(64, 'a') + "}}\nspec: {containers: [{name: c, image: i}]}\n"),
      ElementsAre("metadata.labels: Invalid value: \"" + std::string(64, 'a') +
                      "\": must be no more than 63 bytes",
                  "metadata.finalizers[0]: Invalid value: \"x\": name is neither a standard "
                  "finalizer name nor is it fully qualified"));
}

TEST(ValidatePodTest, OptionsOfWindows) {
  EXPECT_THAT(Faults(Pod("    securityContext: {windowsOptions: {hostProcess: true}}\n")),
              ElementsAre("spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod "
                          "contains any hostProcess containers"));
  EXPECT_THAT(Faults(Pod("    securityContext: {windowsOptions: {gmsaCredentialSpecName: A}}\n",
                         "  os: {name: linux}\n")),
              ElementsAre(::testing::StartsWith("spec.containers[0].securityContext.windowsOptions."
                                                "gmsaCredentialSpecName: Invalid value: \"A\""),
                          "spec.containers[0].securityContext.windowsOptions: Forbidden: windows "
                          "options cannot be set for a linux pod"));
}

TEST(ValidatePodTest, EphemeralContainersComeLater) {
  EXPECT_THAT(Faults(Pod("", "  ephemeralContainers: [{name: e, image: i}]\n")),
              ElementsAre("spec.ephemeralContainers: Forbidden: cannot be set on create"));
}

TEST(ValidatePodTest, SpreadingOverTheCluster) {
  EXPECT_THAT(
      Faults(Pod("",
                 "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: "
                 "ScheduleAnyway, minDomains: 2, nodeTaintsPolicy: Maybe, matchLabelKeys: [a, "
                 "a]}]\n")),
      ElementsAre(
          "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use "
          "minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
          "spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: \"Maybe\": "
          "supported values: \"Honor\", \"Ignore\"",
          "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified "
          "when labelSelector is not set"));
}

TEST(ValidatePodTest, OverheadIsOfARuntimeClass) {
  EXPECT_THAT(Faults(Pod("", "  overhead: {cpu: 1}\n")),
              ElementsAre("spec.overhead: Forbidden: Pod Overhead set without corresponding "
                          "RuntimeClass defined Overhead"));
  EXPECT_THAT(Faults(Pod("", "  runtimeClassName: kata\n  overhead: {cpu: 1}\n")), IsEmpty());
}

TEST(ValidateStaticPodTest, KnowsTheOldNameOfTheServiceAccount) {
  EXPECT_THAT(Lines(ValidateStaticPod(*ReadPod(Pod("", "  serviceAccount: sa\n")))),
              ElementsAre("spec.serviceAccountName: Forbidden: static pods may not reference "
                          "serviceaccounts"));
}

TEST(ValidateStaticPodTest, RefusesReferencesToApiObjects) {
  const auto pod = ReadPod(Pod(R"(    env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]
    envFrom: [{configMapRef: {name: m}}]
)",
                               R"(  serviceAccountName: sa
  volumes:
  - {name: a, configMap: {name: m}}
  - {name: b, emptyDir: {}}
  - {name: c, persistentVolumeClaim: {claimName: p}}
  - {name: d, projected: {sources: [{secret: {name: s}}]}}
)"));
  EXPECT_THAT(
      Lines(ValidateStaticPod(*pod)),
      ElementsAre(
          "spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
          "spec.containers[0].env[0].valueFrom.secretKeyRef: Forbidden: static pods may not "
          "reference secrets",
          "spec.containers[0].envFrom[0].configMapRef: Forbidden: static pods may not reference "
          "configmaps",
          "spec.volumes[0].configMap: Forbidden: static pods may not reference configmaps (via "
          "configmap volumes)",
          "spec.volumes[2].persistentVolumeClaim: Forbidden: static pods may not reference "
          "persistentvolumeclaims",
          "spec.volumes[3].projected.sources[0].secret: Forbidden: static pods may not reference "
          "secrets (via projected volumes)"));
  EXPECT_THAT(ValidateStaticPod(*ReadPod(Pod(""))), IsEmpty());
}

TEST(EphemeralContainerTest, HasTheRulesOfAContainerAndItsOwn) {
  auto pod = ReadPod(Pod("", "  volumes: [{name: v, emptyDir: {}}]\n"));
  const std::string main = pod->spec().containers(0).name();
  corev1::EphemeralContainer good;
  good.set_targetcontainername(main);
  auto* container = good.mutable_ephemeralcontainercommon();
  container->set_name("look");
  container->set_image("busybox");
  auto* mount = container->add_volumemounts();
  mount->set_name("v");
  mount->set_mountpath("/v");
  EXPECT_THAT(Lines(CompleteEphemeralContainer(*pod, &good)), IsEmpty());
  EXPECT_EQ(container->imagepullpolicy(), "Always");
  EXPECT_EQ(container->terminationmessagepath(), "/dev/termination-log");
  EXPECT_FALSE(container->has_resources());

  *pod->mutable_spec()->add_ephemeralcontainers() = good;
  corev1::EphemeralContainer bad = good;
  bad.set_targetcontainername("nosuch");
  container = bad.mutable_ephemeralcontainercommon();
  container->set_name("Look");
  container->mutable_livenessprobe()->set_periodseconds(1);
  container->mutable_volumemounts(0)->set_subpath("a");
  container->add_env()->set_name("A");
  container->mutable_env(0)->mutable_valuefrom()->mutable_secretkeyref()->set_key("k");
  container->mutable_env(0)
      ->mutable_valuefrom()
      ->mutable_secretkeyref()
      ->mutable_localobjectreference()
      ->set_name("s");
  const auto faults = Lines(CompleteEphemeralContainer(*pod, &bad));
  const std::string at = "spec.ephemeralContainers[1]";
  for (const std::string& fault :
       {at + ".targetContainerName: Not found: \"nosuch\"",
        at + ".livenessProbe: Forbidden: cannot be set for an Ephemeral Container",
        at + ".volumeMounts[0].subPath: Forbidden: cannot be set for an Ephemeral Container",
        at + ".env[0].valueFrom.secretKeyRef: Forbidden: static pods may not reference secrets"}) {
    EXPECT_THAT(faults, testing::Contains(fault));
  }
  EXPECT_THAT(faults, testing::Contains(testing::StartsWith(at + ".name: Invalid value: ")));
}

}  // namespace
}  // namespace holdfast::agent::kube
