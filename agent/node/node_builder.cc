// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_builder.h"

#include <algorithm>

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// Of the Kubernetes whose node agent this one stands for; tools compare its minor version.
constexpr char kKubeletVersion[] = "v1.36.3";

struct PressureTexts {
  const char* type;
  bool NodePressure::* pressed;
  const char *reason, *message;                          // False
  const char *reason_of_pressure, *message_of_pressure;  // True
};
constexpr PressureTexts kPressures[] = {
    {"MemoryPressure", &NodePressure::memory, "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available", "KubeletHasInsufficientMemory",
     "kubelet has insufficient memory available"},
    {"DiskPressure", &NodePressure::disk, "KubeletHasNoDiskPressure",
     "kubelet has no disk pressure", "KubeletHasDiskPressure", "kubelet has disk pressure"},
    {"PIDPressure", &NodePressure::pids, "KubeletHasSufficientPID",
     "kubelet has sufficient PID available", "KubeletHasInsufficientPID",
     "kubelet has insufficient PID available"},
};

struct ConditionText {
  const char* type;
  bool is_true;
  std::string reason, message;
};

// As a kubelet writes bytes: always in Ki.
std::string QuantityText(const std::string& name, const kube::Amount& amount) {
  const bool kib = name == "memory" || name == "ephemeral-storage";
  return kib ? StrCat(amount.Units() / 1024, "Ki") : amount.ToString();
}

// What a node advertises beside what it measures: domain/name outside of Kubernetes' own. Somebody
// patched it into the capacity; all of it can be allocated.
bool IsForeign(const std::string& name, const NodeDescription& facts) {
  return name.find('/') != std::string::npos && !facts.capacity.contains(name);
}

void AddResources(const NodeDescription& facts, const corev1::NodeStatus& before,
                  corev1::NodeStatus& status) {
  auto& capacity = *status.mutable_capacity();
  auto& allocatable = *status.mutable_allocatable();
  for (const auto& [name, amount] : facts.capacity)
    capacity[name].set_string(QuantityText(name, amount));
  for (const auto& [name, amount] : facts.allocatable)
    allocatable[name].set_string(QuantityText(name, amount));
  for (const auto& [name, amount] : before.capacity()) {
    if (!IsForeign(name, facts)) continue;
    capacity[name] = amount;
    allocatable[name] = amount;
  }
}

void AddCondition(const ConditionText& text, const corev1::NodeStatus& before, WallTime now,
                  corev1::NodeStatus& status) {
  corev1::NodeCondition& condition = *status.add_conditions();
  condition.set_type(text.type);
  condition.set_status(text.is_true ? "True" : "False");
  condition.set_reason(text.reason);
  condition.set_message(text.message);
  kube::SetTime(now, condition.mutable_lastheartbeattime());
  const auto* last = FindCondition(before, text.type);
  if (last != nullptr && last->status() == condition.status()) {
    *condition.mutable_lasttransitiontime() = last->lasttransitiontime();
  } else {
    kube::SetTime(now, condition.mutable_lasttransitiontime());
  }
}

void AddConditions(const NodeDescription& facts, const std::optional<ReadyState>& ready,
                   const corev1::NodeStatus& before, WallTime now, corev1::NodeStatus& status) {
  for (const PressureTexts& texts : kPressures) {
    const bool pressed = facts.pressure.*texts.pressed;
    AddCondition({texts.type, pressed, pressed ? texts.reason_of_pressure : texts.reason,
                  pressed ? texts.message_of_pressure : texts.message},
                 before, now, status);
  }
  if (!ready) {
    if (const auto* last = FindCondition(before, "Ready")) *status.add_conditions() = *last;
    return;
  }
  AddCondition({"Ready", ready->ready, ready->ready ? "KubeletReady" : "KubeletNotReady",
                ready->ready ? "kubelet is posting ready status" : ready->message},
               before, now, status);
}

void AddAddresses(const NodeDescription& facts, corev1::NodeStatus& status) {
  const auto add = [&](const char* type, const std::string& text) {
    corev1::NodeAddress* address = status.add_addresses();
    address->set_type(type);
    address->set_address(text);
  };
  for (const std::string& ip : facts.host_ips) add("InternalIP", ip);
  add("Hostname", facts.name);
}

// What follows the '+' of a version has letters, digits, dots and hyphens.
std::string BuildMetadata(std::string version) {
  std::replace(version.begin(), version.end(), '+', '-');
  return version;
}

void AddInfo(const NodeDescription& facts, corev1::NodeStatus& status) {
  corev1::NodeSystemInfo& info = *status.mutable_nodeinfo();
  info.set_machineid(facts.machine.machine_id);
  info.set_systemuuid(facts.machine.system_uuid);
  info.set_bootid(facts.machine.boot_id);
  info.set_kernelversion(facts.machine.kernel_version);
  info.set_osimage(facts.machine.os_image);
  info.set_containerruntimeversion(StrCat("holdfast://", facts.version));
  info.set_kubeletversion(StrCat(kKubeletVersion, "+holdfast.", BuildMetadata(facts.version)));
  info.set_operatingsystem("linux");
  info.set_architecture(facts.machine.architecture);
  if (facts.machine.swap_bytes > 0) info.mutable_swap()->set_capacity(facts.machine.swap_bytes);
}

void AddRuntimeHandler(const std::string& name, corev1::NodeStatus& status) {
  corev1::NodeRuntimeHandler& handler = *status.add_runtimehandlers();
  handler.set_name(name);
  handler.mutable_features()->set_recursivereadonlymounts(true);
  handler.mutable_features()->set_usernamespaces(true);
}

// What pods with hostUsers: false, recursiveReadOnly mounts or a supplementalGroupsPolicy ask for.
void AddFeatures(const NodeDescription& facts, corev1::NodeStatus& status) {
  AddRuntimeHandler("", status);  // the default one
  for (const std::string& name : facts.runtime_handlers) AddRuntimeHandler(name, status);
  status.mutable_features()->set_supplementalgroupspolicy(true);
  // In order of their names. The API server passes kubectl's WebSockets on as they are (agent/api/kubelet/streams).
  if (facts.port != 0) status.add_declaredfeatures("ExtendWebSocketsToKubelet");
  status.add_declaredfeatures("InPlacePodLevelResourcesVerticalScaling");
  status.add_declaredfeatures("InPlacePodVerticalScalingInitContainers");
  status.add_declaredfeatures("RestartAllContainersOnContainerExits");
}

}  // namespace

const corev1::NodeCondition* FindCondition(const corev1::NodeStatus& status,
                                           std::string_view type) {
  for (const corev1::NodeCondition& condition : status.conditions()) {
    if (condition.type() == type) return &condition;
  }
  return nullptr;
}

corev1::NodeStatus BuildNodeStatus(const NodeDescription& facts,
                                   const std::optional<ReadyState>& ready,
                                   const corev1::NodeStatus& before, WallTime now) {
  corev1::NodeStatus status;
  AddResources(facts, before, status);
  AddConditions(facts, ready, before, now, status);
  AddAddresses(facts, status);
  status.mutable_daemonendpoints()->mutable_kubeletendpoint()->set_port(facts.port);
  AddInfo(facts, status);
  for (const NodeImage& image : facts.images) {
    corev1::ContainerImage& shown = *status.add_images();
    for (const std::string& name : image.names) shown.add_names(name);
    shown.set_sizebytes(image.size_bytes);
  }
  for (const std::string& volume : facts.volumes_in_use) status.add_volumesinuse(volume);
  AddFeatures(facts, status);
  return status;
}

metav1::ObjectMeta BuildNodeMeta(const NodeDescription& facts) {
  metav1::ObjectMeta meta;
  meta.set_name(facts.name);
  for (const auto& [key, value] : facts.labels) (*meta.mutable_labels())[key] = value;
  auto& annotations = *meta.mutable_annotations();
  // Attaching volumes is the controller's task.
  annotations["volumes.kubernetes.io/controller-managed-attach-detach"] = "true";
  if (!facts.given_ips.empty()) {
    annotations["alpha.kubernetes.io/provided-node-ip"] = Join(facts.given_ips, ",");
  }
  if (!facts.own_labels.empty()) annotations[kLabelsAnnotation] = Join(facts.own_labels, ",");
  return meta;
}

corev1::Node BuildNode(const NodeDescription& facts, const NodeRegistration& registration,
                       const ReadyState& ready, WallTime now) {
  corev1::Node node;
  *node.mutable_metadata() = BuildNodeMeta(facts);
  for (const corev1::Taint& taint : registration.taints) *node.mutable_spec()->add_taints() = taint;
  if (!registration.provider_id.empty()) {
    node.mutable_spec()->set_providerid(registration.provider_id);
  }
  *node.mutable_status() = BuildNodeStatus(facts, ready, {}, now);
  return node;
}

std::string ConditionEvent(const corev1::NodeCondition& condition) {
  if (condition.type() == "Ready")
    return condition.status() == "True" ? "NodeReady" : "NodeNotReady";
  constexpr std::string_view kSpeaker = "Kubelet";
  return StrCat("Node",
                condition.reason().substr(std::min(kSpeaker.size(), condition.reason().size())));
}

}  // namespace holdfast::agent
