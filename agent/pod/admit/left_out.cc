// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/admit/left_out.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "agent/kube/quantity.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using enum kube::Treatment;

constexpr char kNoScheduler[] = "nobody schedules here: it has no effect";
constexpr char kNoToken[] = "there is no API server that would give the pod a token";
constexpr char kNoPriority[] =
    "there is no API server that would give the class's priority; spec.priority counts";
constexpr char kNoSeLinux[] = "this node's kernel has no SELinux enabled: it has no effect";
constexpr char kNoWindows[] = "it is for Windows: it has no effect";
constexpr char kAppArmor[] =
    "admission: `AppArmor` on a node without AppArmor, unless the type is `Unconfined`";
constexpr char kFailedMount[] = "`FailedMount`: no plugin for this kind of volume";
constexpr char kClass[] =
    "the class's handler must be one of `runtimeHandlers`, else `FailedCreatePodSandBox`, as for a "
    "pod of a file: there are no classes";
constexpr char kNoObject[] =
    "of the API server that the pod came from, or of the manifest directory "
    "([inputs.md](inputs.md)); one that is not there is `CreateContainerConfigError`, unless "
    "`optional`";
constexpr char kNoVolumeObject[] =
    "of the API server that the pod came from, or of the manifest directory; one that is not there "
    "is `FailedMount`, an empty directory if `optional`";
constexpr char kClaimed[] =
    "PersistentVolumes of the kinds hostPath, local, nfs and csi ([volumes.md](volumes.md)), "
    "others "
    "`FailedMount`; in a pod of a file the manifest is refused";
constexpr char kNfs[] =
    "mounted by `mount.nfs` of nfs-common, which the node must have ([volumes.md](volumes.md))";
constexpr char kTemplate[] = "the control plane makes the claim, owned by the pod";
constexpr char kNoSource[] = "`FailedMount`: not supported";
constexpr char kClaims[] = "admission: `UnexpectedAdmissionError`, no API server allocates claims";

// What the control plane does, or has done, for a pod that came from it.
bool IsTheClusters(const kube::FieldRule& rule) {
  const std::string_view how = rule.how;
  return how == kNoScheduler || how == kNoToken || how == kNoPriority;
}

// "spec.initContainers[a].stdinOnce" is about the init container "a".
void SetContainer(const std::string& path, EventNote& note) {
  for (const std::string_view list : {"spec.containers[", "spec.initContainers["}) {
    if (!path.starts_with(list)) continue;
    note.container = path.substr(list.size(), path.find(']') - list.size());
    note.init = list.starts_with("spec.init");
  }
}

void Add(std::vector<EventNote>& notes, EventNote note) {
  if (std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(std::move(note));
}

// Names of resources are a map's keys, which no row can name.
void AddResources(const corev1::ResourceRequirements& resources, const std::string& path,
                  std::vector<EventNote>& notes) {
  std::set<std::string> names;
  for (const auto* list : {&resources.requests(), &resources.limits()}) {
    for (const auto& [name, quantity] : *list) {
      const auto amount = kube::Amount::Parse(quantity.string());
      if (amount && !amount->IsZero()) names.insert(name);
    }
  }
  for (const char* honoured : {"cpu", "memory", "ephemeral-storage"}) names.erase(honoured);
  for (const std::string& name : names) {
    if (name.starts_with("hugepages-")) continue;
    EventNote note{true, kube::kFieldNotHonoured,
                   StrCat(path, ".resources: ", name,
                          ": the node has no such resource, and the container gets none"),
                   "", false};
    SetContainer(path, note);
    Add(notes, std::move(note));
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): one table.
const kube::FieldRules& PodFieldRules() {
  static const kube::FieldRules rules = {
      // ---- the pod
      {"PodSpec",
       "volumes initContainers containers restartPolicy terminationGracePeriodSeconds "
       "activeDeadlineSeconds dnsPolicy nodeSelector hostNetwork hostPID hostIPC "
       "shareProcessNamespace securityContext hostname subdomain affinity tolerations hostAliases "
       "dnsConfig readinessGates overhead setHostnameAsFQDN hostUsers resources hostnameOverride"},
      {"PodSpec", "nodeName", kHonoured, "always this node's, as with a kubelet's static pods"},
      {"PodSpec", "priority", kHonoured,
       "critical from 2000000000 on; of two critical pods the lower one gives way"},
      {"PodSpec", "enableServiceLinks", kHonoured,
       "of the API server's Services, or of those of the manifest directory"},
      {"PodSpec", "ephemeralContainers", kRefused, "manifest: cannot be set on create"},
      {"PodSpec", "schedulingGates", kRefused, "manifest: a pod of this node has a `nodeName`"},
      {"PodSpec", "runtimeClassName", kHonoured, kClass},
      {"PodSpec", "resourceClaims", kRefused, kClaims},
      {"PodSpec", "os", kHonoured, "admission: `PodOSNotSupported` unless `linux`"},
      {"PodSpec", "serviceAccountName serviceAccount", kTold, kNoToken},
      {"PodSpec", "automountServiceAccountToken", kTold, kNoToken, "", "false"},
      {"PodSpec", "imagePullSecrets", kHonoured,
       "of the API server that the pod came from, or of the manifest directory"},
      {"PodSpec", "schedulerName", kTold, kNoScheduler, "", "default-scheduler"},
      {"PodSpec", "preemptionPolicy topologySpreadConstraints schedulingGroup", kTold,
       kNoScheduler},
      {"PodSpec", "priorityClassName", kTold, kNoPriority, "", "system-node-critical"},
      {"Affinity", "nodeAffinity"},
      {"Affinity", "podAffinity podAntiAffinity", kTold, kNoScheduler},
      {"NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", kHonoured,
       "admission: `NodeAffinity`"},
      {"NodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", kTold, kNoScheduler},
      {"NodeSelector", "nodeSelectorTerms"},
      {"NodeSelectorTerm", "matchExpressions matchFields"},
      {"NodeSelectorRequirement", "key operator values"},
      {"Toleration", "key operator value effect tolerationSeconds", kHonoured,
       "no taint keeps a static pod away or ends it"},
      {"HostAlias", "ip hostnames"},
      {"PodDNSConfig", "nameservers searches options"},
      {"PodDNSConfigOption", "name value"},
      {"PodReadinessGate", "conditionType"},
      {"PodOS", "name"},
      {"PodSecurityContext",
       "runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup "
       "fsGroupChangePolicy seccompProfile"},
      {"PodSecurityContext", "sysctls", kHonoured,
       "admission: `SysctlForbidden` unless safe or in `allowedUnsafeSysctls`"},
      {"PodSecurityContext", "appArmorProfile", kHonoured, kAppArmor},
      {"PodSecurityContext", "seLinuxOptions seLinuxChangePolicy", kTold, kNoSeLinux},
      {"PodSecurityContext", "windowsOptions", kTold, kNoWindows},
      {"Sysctl", "name value"},
      // ---- a container
      {"Container",
       "name image command args workingDir ports envFrom env resources restartPolicy "
       "restartPolicyRules volumeMounts volumeDevices lifecycle terminationMessagePath "
       "terminationMessagePolicy "
       "securityContext tty"},
      {"Container", "imagePullPolicy"},
      {"Container", "resizePolicy", kHonoured,
       "of a resize by an API server, and of a manifest with a `metadata.uid`: without one a "
       "changed "
       "manifest is a new pod"},
      {"Container", "stdin", kHonoured, "stays open for who attaches"},
      {"Container", "stdinOnce", kHonoured, "closed when the first who attached has gone"},
      {"Container", "livenessProbe readinessProbe startupProbe"},
      {"Probe",
       "handler initialDelaySeconds timeoutSeconds periodSeconds successThreshold "
       "failureThreshold terminationGracePeriodSeconds"},
      {"ProbeHandler", "exec httpGet tcpSocket grpc"},
      {"ExecAction", "command"},
      {"HTTPGetAction", "path port host scheme httpHeaders"},
      {"HTTPHeader", "name value"},
      {"TCPSocketAction", "port host"},
      {"GRPCAction", "port service"},
      {"ContainerPort", "name hostPort containerPort protocol hostIP"},
      {"EnvFromSource", "prefix"},
      {"EnvFromSource", "configMapRef secretRef", kHonoured, kNoObject},
      {"ConfigMapEnvSource", "localObjectReference optional"},
      {"SecretEnvSource", "localObjectReference optional"},
      {"ConfigMapKeySelector", "localObjectReference key optional"},
      {"SecretKeySelector", "localObjectReference key optional"},
      {"EnvVar", "name value valueFrom"},
      {"EnvVarSource", "fieldRef resourceFieldRef fileKeyRef"},
      {"FileKeySelector", "volumeName path key optional"},
      {"EnvVarSource", "configMapKeyRef secretKeyRef", kHonoured, kNoObject},
      {"ObjectFieldSelector", "apiVersion fieldPath"},
      {"ResourceFieldSelector", "containerName resource divisor"},
      {"ResourceRequirements", "limits requests", kHonoured,
       "of cpu, memory and huge pages; ephemeral-storage is room on the node (`OutOf…`), and its "
       "limits are kept by eviction (`Evicted`; below). Resources that the node has not are told: "
       "`FieldNotHonoured`"},
      {"ResourceRequirements", "claims", kRefused, kClaims},
      {"ContainerResizePolicy", "resourceName restartPolicy"},
      {"ContainerRestartRule", "action exitCodes"},
      {"ContainerRestartRuleOnExitCodes", "operator values"},
      {"VolumeMount",
       "name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr"},
      {"VolumeDevice", "name devicePath"},
      {"Lifecycle", "postStart preStop stopSignal"},
      {"LifecycleHandler", "exec httpGet sleep"},
      {"LifecycleHandler", "tcpSocket", kHonoured,
       "always fails, as by a kubelet: `FailedPostStartHook`, `FailedPreStopHook`"},
      {"SleepAction", "seconds"},
      {"SecurityContext",
       "capabilities privileged runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem "
       "allowPrivilegeEscalation procMount seccompProfile"},
      {"SecurityContext", "appArmorProfile", kHonoured, kAppArmor},
      {"SecurityContext", "seLinuxOptions", kTold, kNoSeLinux},
      {"SecurityContext", "windowsOptions", kTold, kNoWindows},
      {"Capabilities", "add drop"},
      {"SeccompProfile", "type localhostProfile"},
      {"AppArmorProfile", "type localhostProfile"},
      // ---- a volume
      {"Volume", "name volumeSource"},
      {"VolumeSource", "hostPath emptyDir"},
      {"VolumeSource", "configMap secret", kHonoured, kNoVolumeObject},
      {"VolumeSource", "downwardAPI projected"},
      {"VolumeSource", "image", kHonoured,
       "pulled like a container's image when a container starts that mounts it; read-only"},
      {"VolumeSource", "persistentVolumeClaim ephemeral csi", kHonoured, kClaimed},
      {"VolumeSource", "nfs", kHonoured, kNfs},
      {"NFSVolumeSource", "server path readOnly"},
      {"CSIVolumeSource", "driver readOnly fsType volumeAttributes nodePublishSecretRef"},
      {"PersistentVolumeClaimVolumeSource", "claimName readOnly"},
      {"EphemeralVolumeSource", "volumeClaimTemplate", kElsewhere, kTemplate},
      {"VolumeSource",
       "gcePersistentDisk awsElasticBlockStore gitRepo iscsi glusterfs "
       "rbd flexVolume cinder cephfs flocker fc azureFile vsphereVolume quobyte "
       "azureDisk photonPersistentDisk portworxVolume scaleIO storageos",
       kRefused, kFailedMount},
      {"ImageVolumeSource", "reference pullPolicy"},
      {"ConfigMapVolumeSource", "localObjectReference items defaultMode optional"},
      {"SecretVolumeSource", "secretName items defaultMode optional"},
      {"DownwardAPIVolumeSource", "items defaultMode"},
      {"DownwardAPIVolumeFile", "path fieldRef resourceFieldRef mode"},
      {"ProjectedVolumeSource", "sources defaultMode"},
      {"VolumeProjection", "secret downwardAPI configMap serviceAccountToken"},
      {"VolumeProjection", "clusterTrustBundle podCertificate", kRefused, kNoSource},
      {"ConfigMapProjection", "localObjectReference items optional"},
      {"SecretProjection", "localObjectReference items optional"},
      {"DownwardAPIProjection", "items"},
      {"ServiceAccountTokenProjection", "audience expirationSeconds path"},
      {"KeyToPath", "key path mode"},
      {"LocalObjectReference", "name"},
      {"EmptyDirVolumeSource", "medium", kHonoured,
       "huge pages: of the size that the medium names, or that the containers ask for"},
      {"EmptyDirVolumeSource", "sizeLimit", kHonoured, "on disk by eviction (`Evicted`; below)"},
      {"HostPathVolumeSource", "path type"},
  };
  return rules;
}

std::vector<EventNote> LeftOut(const corev1::Pod& pod, PodOrigin origin, bool has_selinux) {
  std::vector<EventNote> notes;
  kube::VisitTold(PodFieldRules(), pod.spec(), "spec", [&](const kube::ToldField& told) {
    if (origin == PodOrigin::kApi && IsTheClusters(told.rule)) return;
    if (has_selinux && std::string_view(told.rule.how) == kNoSeLinux) return;
    EventNote note{true, told.rule.event, told.rule.how, "", false};
    if (note.reason.empty()) {
      note.reason = kube::kFieldNotHonoured;
      note.message = StrCat(told.path, ": ", told.rule.how);
    }
    SetContainer(told.path, note);
    Add(notes, std::move(note));
  });
  for (const corev1::Container& c : pod.spec().initcontainers()) {
    AddResources(c.resources(), StrCat("spec.initContainers[", c.name(), "]"), notes);
  }
  for (const corev1::Container& c : pod.spec().containers()) {
    AddResources(c.resources(), StrCat("spec.containers[", c.name(), "]"), notes);
  }
  AddResources(pod.spec().resources(), "spec", notes);
  return notes;
}

}  // namespace holdfast::agent
