// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_fields.h"

#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {

const kube::FieldRules& ServiceFieldRules() {
  using enum kube::Treatment;
  static const char kNoBalancer[] =
      "nobody gives load balancer addresses here: write them in status.loadBalancer.ingress";
  static const kube::FieldRules rules = {
      {"ServiceSpec",
       "ports selector clusterIP clusterIPs type sessionAffinity loadBalancerSourceRanges "
       "externalTrafficPolicy healthCheckNodePort publishNotReadyAddresses sessionAffinityConfig "
       "ipFamilies ipFamilyPolicy allocateLoadBalancerNodePorts internalTrafficPolicy "
       "trafficDistribution"},
      {"ServiceSpec", "externalIPs", kHonoured,
       "within `allowedExternalIPs`; for others there is an event `Quarantined`"},
      {"ServiceSpec", "loadBalancerIP loadBalancerClass", kTold, kNoBalancer},
      {"ServiceSpec", "externalName", kTold, "there is no DNS that would answer with it"},
      {"ServicePort", "name protocol appProtocol port targetPort nodePort"},
      {"SessionAffinityConfig", "clientIP"},
      {"ClientIPConfig", "timeoutSeconds"},
  };
  return rules;
}

std::vector<std::string> LeftOut(const corev1::Service& service) {
  std::vector<std::string> texts;
  kube::VisitTold(ServiceFieldRules(), service.spec(), "spec", [&](const kube::ToldField& told) {
    texts.push_back(StrCat(told.path, ": ", told.rule.how));
  });
  return texts;
}

}  // namespace holdfast::agent
