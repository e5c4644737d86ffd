// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/defaulting.h"
#include "agent/kube/containers_of.h"

#include "agent/kube/default_volume.h"
#include "agent/kube/pod_resources.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

void DefaultHttpGet(corev1::HTTPGetAction* action) {
  if (action->path().empty()) action->set_path("/");
  if (action->scheme().empty()) action->set_scheme("HTTP");
}

void DefaultProbe(corev1::Probe* probe) {
  if (probe->timeoutseconds() == 0) probe->set_timeoutseconds(1);
  if (probe->periodseconds() == 0) probe->set_periodseconds(10);
  if (probe->successthreshold() == 0) probe->set_successthreshold(1);
  if (probe->failurethreshold() == 0) probe->set_failurethreshold(3);
  if (!probe->has_handler()) return;
  corev1::ProbeHandler& handler = *probe->mutable_handler();
  if (handler.has_httpget()) DefaultHttpGet(handler.mutable_httpget());
  if (handler.has_grpc() && !handler.grpc().has_service()) {
    handler.mutable_grpc()->set_service("");
  }
}

void DefaultHook(corev1::LifecycleHandler* handler) {
  if (handler->has_httpget()) DefaultHttpGet(handler->mutable_httpget());
}

void DefaultEnv(corev1::EnvVar* variable) {
  if (!variable->has_valuefrom()) return;
  corev1::EnvVarSource& source = *variable->mutable_valuefrom();
  if (source.has_fieldref() && source.fieldref().apiversion().empty()) {
    source.mutable_fieldref()->set_apiversion("v1");
  }
  if (source.has_filekeyref() && !source.filekeyref().has_optional()) {
    source.mutable_filekeyref()->set_optional(false);
  }
}

// Container and EphemeralContainerCommon have the same fields.
template <class C>
void DefaultContainer(C* container) {
  if (container->imagepullpolicy().empty()) {
    container->set_imagepullpolicy(DefaultPullPolicy(container->image()));
  }
  if (container->terminationmessagepath().empty()) {
    container->set_terminationmessagepath("/dev/termination-log");
  }
  if (container->terminationmessagepolicy().empty()) {
    container->set_terminationmessagepolicy("File");
  }
  for (corev1::ContainerPort& port : *container->mutable_ports()) {
    if (port.protocol().empty()) port.set_protocol("TCP");
  }
  for (corev1::EnvVar& variable : *container->mutable_env()) DefaultEnv(&variable);
  if (container->has_livenessprobe()) DefaultProbe(container->mutable_livenessprobe());
  if (container->has_readinessprobe()) DefaultProbe(container->mutable_readinessprobe());
  if (container->has_startupprobe()) DefaultProbe(container->mutable_startupprobe());
  if (container->has_lifecycle()) {
    corev1::Lifecycle& lifecycle = *container->mutable_lifecycle();
    if (lifecycle.has_poststart()) DefaultHook(lifecycle.mutable_poststart());
    if (lifecycle.has_prestop()) DefaultHook(lifecycle.mutable_prestop());
  }
}

void DefaultPodSpec(corev1::PodSpec* spec) {
  if (spec->dnspolicy().empty()) spec->set_dnspolicy("ClusterFirst");
  if (spec->restartpolicy().empty()) spec->set_restartpolicy("Always");
  if (spec->schedulername().empty()) spec->set_schedulername("default-scheduler");
  if (!spec->has_terminationgraceperiodseconds()) spec->set_terminationgraceperiodseconds(30);
  // The API server turns what is below zero into the shortest period.
  if (spec->terminationgraceperiodseconds() < 0) spec->set_terminationgraceperiodseconds(1);
  (void)spec->mutable_securitycontext();  // there, even if empty
  // The field's first name is read for as long as the present one is not there.
  if (spec->serviceaccountname().empty()) spec->set_serviceaccountname(spec->serviceaccount());
  for (corev1::Volume& volume : *spec->mutable_volumes()) DefaultVolume(&volume);
  ForEachContainer(*spec, [](ContainerList /*list*/, auto& c) { DefaultContainer(&c); });
}

// Only pods get their requests from their limits; a template is stamped into pods later.
void RequestsFromLimits(corev1::Container* container) {
  if (!container->resources().limits_size()) return;
  auto& requests = *container->mutable_resources()->mutable_requests();
  for (const auto& [name, limit] : container->resources().limits()) {
    if (!requests.contains(name)) requests[name] = limit;
  }
}

// What a pod as a whole may use of huge pages is what its containers may, unless it says more.
void DefaultPodLevelHugePages(const corev1::PodSpec& containers_only, corev1::PodSpec* spec) {
  const corev1::ResourceRequirements& given = spec->resources();
  if (given.limits_size() == 0 && given.requests_size() == 0) return;
  for (const auto& [name, amount] : PodLimits(containers_only)) {
    if (!name.starts_with("hugepages-") || given.requests().contains(name)) continue;
    auto& limits = *spec->mutable_resources()->mutable_limits();
    if (!limits.contains(name)) limits[name].set_string(amount.ToString());
  }
}

void DefaultPodLevelRequests(const corev1::PodSpec& containers_only, corev1::PodSpec* spec) {
  if (spec->resources().limits_size() == 0) return;
  auto& requests = *spec->mutable_resources()->mutable_requests();
  for (const auto& [name, amount] : PodRequests(containers_only)) {
    const bool supported = name == "cpu" || name == "memory";
    if (supported && !requests.contains(name)) requests[name].set_string(amount.ToString());
  }
  for (const auto& [name, limit] : spec->resources().limits()) {
    if (MayBePodLevel(name) && !requests.contains(name)) requests[name] = limit;
  }
}

void DefaultPodLevelResources(corev1::PodSpec* spec) {
  if (!spec->has_resources()) return;
  corev1::PodSpec containers_only = *spec;
  containers_only.clear_resources();
  containers_only.clear_overhead();
  DefaultPodLevelHugePages(containers_only, spec);
  DefaultPodLevelRequests(containers_only, spec);
}

void HostPorts(corev1::Container* container) {
  for (corev1::ContainerPort& port : *container->mutable_ports()) {
    if (port.hostport() == 0) port.set_hostport(port.containerport());
  }
}

}  // namespace

std::string DefaultPullPolicy(std::string_view image) {
  const bool digest = image.find('@') != std::string_view::npos;
  std::string_view name = image.substr(0, image.find('@'));
  // A colon before the last slash belongs to a registry's port.
  if (const size_t slash = name.rfind('/'); slash != std::string_view::npos) {
    name.remove_prefix(slash + 1);
  }
  const size_t colon = name.find(':');
  const std::string_view tag = colon != std::string_view::npos ? name.substr(colon + 1)
                               : digest                        ? ""
                                                               : "latest";
  return tag == "latest" ? "Always" : "IfNotPresent";
}

void SetPodTemplateDefaults(corev1::PodTemplateSpec* pod_template) {
  DefaultPodSpec(pod_template->mutable_spec());
}

void SetPodDefaults(corev1::Pod* pod) {
  corev1::PodSpec* spec = pod->mutable_spec();
  if (pod->metadata().namespace_().empty()) pod->mutable_metadata()->set_namespace_("default");
  DefaultPodSpec(spec);
  for (corev1::Container& c : *spec->mutable_containers()) RequestsFromLimits(&c);
  for (corev1::Container& c : *spec->mutable_initcontainers()) RequestsFromLimits(&c);
  DefaultPodLevelResources(spec);
  if (!spec->has_enableservicelinks()) spec->set_enableservicelinks(true);
  if (!spec->hostnetwork()) return;
  for (corev1::Container& c : *spec->mutable_containers()) HostPorts(&c);
  for (corev1::Container& c : *spec->mutable_initcontainers()) HostPorts(&c);
}

}  // namespace holdfast::agent::kube
