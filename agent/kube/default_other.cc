// SPDX-License-Identifier: Apache-2.0
// Default values of kinds other than Pod, and the dispatch over all kinds.
#include <google/protobuf/message.h>

#include "agent/kube/defaulting.h"
#include "k8s/apps/v1/deployment.pb.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/namespace.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::kube {
namespace {

using ::k8s::io::apimachinery::pkg::util::intstr::IntOrString;

void SetNumber(int32_t number, IntOrString* out) {
  out->set_type(0);
  out->set_intval(number);
  out->set_strval("");
}

void SetText(const std::string& text, IntOrString* out) {
  out->set_type(1);
  out->set_intval(0);
  out->set_strval(text);
}

void DefaultServicePort(corev1::ServicePort* port) {
  if (port->protocol().empty()) port->set_protocol("TCP");
  const IntOrString& target = port->targetport();
  const bool unset = target.type() == 1 ? target.strval().empty() : target.intval() == 0;
  if (unset) SetNumber(port->port(), port->mutable_targetport());
}

void DefaultAffinity(corev1::ServiceSpec* spec) {
  constexpr int32_t kAffinitySeconds = 10800;
  if (spec->sessionaffinity().empty()) spec->set_sessionaffinity("None");
  if (spec->sessionaffinity() == "None") spec->clear_sessionaffinityconfig();
  if (spec->sessionaffinity() != "ClientIP") return;
  if (!spec->sessionaffinityconfig().clientip().has_timeoutseconds()) {
    spec->mutable_sessionaffinityconfig()->mutable_clientip()->set_timeoutseconds(kAffinitySeconds);
  }
}

template <class T>
bool ApplyIf(google::protobuf::Message* object, void (*apply)(T*)) {
  T* typed = dynamic_cast<T*>(object);
  if (typed != nullptr) apply(typed);
  return typed != nullptr;
}

void DefaultSecret(corev1::Secret* secret) {
  if (secret->type().empty()) secret->set_type("Opaque");
}

void DefaultNamespace(corev1::Namespace* object) {
  if (!object->metadata().name().empty()) {
    (*object->mutable_metadata()->mutable_labels())["kubernetes.io/metadata.name"] =
        object->metadata().name();
  }
  if (object->status().phase().empty()) object->mutable_status()->set_phase("Active");
}

}  // namespace

void SetServiceDefaults(corev1::Service* service) {
  corev1::ServiceSpec& spec = *service->mutable_spec();
  DefaultAffinity(&spec);
  if (spec.type().empty()) spec.set_type("ClusterIP");
  for (corev1::ServicePort& port : *spec.mutable_ports()) DefaultServicePort(&port);
  const bool balanced = spec.type() == "LoadBalancer";
  const bool external = balanced || spec.type() == "NodePort" ||
                        (spec.type() == "ClusterIP" && spec.externalips_size() > 0);
  if (external && spec.externaltrafficpolicy().empty()) spec.set_externaltrafficpolicy("Cluster");
  if (!spec.has_internaltrafficpolicy() && spec.type() != "ExternalName") {
    spec.set_internaltrafficpolicy("Cluster");
  }
  if (balanced && !spec.has_allocateloadbalancernodeports()) {
    spec.set_allocateloadbalancernodeports(true);
  }
}

void SetDeploymentDefaults(appsv1::Deployment* deployment) {
  appsv1::DeploymentSpec& spec = *deployment->mutable_spec();
  if (!spec.has_replicas()) spec.set_replicas(1);
  if (!spec.has_revisionhistorylimit()) spec.set_revisionhistorylimit(10);
  if (!spec.has_progressdeadlineseconds()) spec.set_progressdeadlineseconds(600);
  appsv1::DeploymentStrategy& strategy = *spec.mutable_strategy();
  if (strategy.type().empty()) strategy.set_type("RollingUpdate");
  if (strategy.type() == "RollingUpdate") {
    auto& rolling = *strategy.mutable_rollingupdate();
    if (!rolling.has_maxunavailable()) SetText("25%", rolling.mutable_maxunavailable());
    if (!rolling.has_maxsurge()) SetText("25%", rolling.mutable_maxsurge());
  }
  SetPodTemplateDefaults(spec.mutable_template_());
}

void SetDefaults(google::protobuf::Message* object) {
  (void)(ApplyIf<corev1::Pod>(object, SetPodDefaults) ||
         ApplyIf<corev1::Service>(object, SetServiceDefaults) ||
         ApplyIf<appsv1::Deployment>(object, SetDeploymentDefaults) ||
         ApplyIf<corev1::Secret>(object, DefaultSecret) ||
         ApplyIf<corev1::Namespace>(object, DefaultNamespace));
}

}  // namespace holdfast::agent::kube
