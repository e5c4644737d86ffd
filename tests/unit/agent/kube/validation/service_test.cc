// SPDX-License-Identifier: Apache-2.0
#include "k8s/core/v1/service.pb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/kube/defaulting.h"
#include "agent/kube/validation/validate.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent::kube {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <class Object>
std::vector<std::string> Faults(const std::string& text, FieldErrors (*validate)(const Object&)) {
  Manifest manifest = ReadManifest("s.yaml", text);
  EXPECT_TRUE(manifest.ok()) << ToString(manifest.diagnostics);
  if (manifest.objects.size() != 1) return {"not read"};
  const auto object = manifest.objects[0].Take<Object>();
  object->mutable_metadata()->set_namespace_("default");
  SetDefaults(object.get());
  std::vector<std::string> lines;
  for (const FieldError& error : validate(*object)) lines.push_back(error.ToString());
  return lines;
}

std::vector<std::string> ServiceFaults(const std::string& spec, const std::string& more = "") {
  return Faults<corev1::Service>(
      "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {" + spec + "}\n" + more,
      ValidateService);
}

TEST(ValidateServiceTest, AcceptsWhatKubernetesAccepts) {
  const char* const good[] = {
      "ports: [{port: 80}]",
      "clusterIP: None",
      "type: ExternalName, externalName: a.example",
      "type: NodePort, clusterIP: 10.96.0.5, ports: [{port: 80, nodePort: 30080}]",
      "ports: [{name: a, port: 53, protocol: UDP}, {name: b, port: 53, targetPort: dns}]",
      "sessionAffinity: ClientIP, ports: [{port: 80}]",
      "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000, "
      "loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}]",
      "clusterIP: 10.96.0.5, clusterIPs: [10.96.0.5, \"fd00::5\"], ipFamilies: [IPv4, IPv6], "
      "ipFamilyPolicy: RequireDualStack, trafficDistribution: PreferSameNode, "
      "externalIPs: [192.0.2.1], internalTrafficPolicy: Local, ports: [{port: 80}]",
  };
  for (const char* spec : good) EXPECT_THAT(ServiceFaults(spec), IsEmpty()) << spec;
}

TEST(ValidateServiceTest, NamesEachFault) {
  const std::pair<const char*, const char*> bad[] = {
      {"type: ClusterIP", "spec.ports: Required value"},
      {"ports: [{port: 0, targetPort: 80}]",
       "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"},
      {"type: ExternalName", "spec.externalName: Required value"},
      {"type: NodePort, clusterIP: None, ports: [{port: 80}]",
       "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort "
       "services"},
      {"ports: [{port: 80, nodePort: 30080}]",
       "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
      {"ports: [{port: 80, name: a}, {port: 80, name: b}]",
       "spec.ports[1]: Duplicate value: \"TCP 80\""},
      {"ports: [{port: 80, name: a}, {port: 81, name: a}]",
       "spec.ports[1].name: Duplicate value: \"a\""},
      {"ports: [{port: 80}], externalIPs: [127.0.0.1]",
       "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range "
       "(127.0.0.0/8, ::1/128)"},
      {"ports: [{port: 80}], externalTrafficPolicy: Local",
       "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for "
       "externally-accessible services"},
      {"ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.0/8]",
       "spec.loadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"},
      {"ports: [{port: 80}], sessionAffinity: ClientIP, "
       "sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}",
       "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater "
       "than 0 and less than 86400"},
      {"ports: [{port: 80}], clusterIP: 10.96.0.5, clusterIPs: [10.96.0.6]",
       "spec.clusterIPs: Invalid value: [\"10.96.0.6\"]: first value must match `clusterIP`"},
      {"ports: [{port: 80}], loadBalancerClass: a.b/c",
       "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"},
      {"ports: [{port: 80}], allocateLoadBalancerNodePorts: true",
       "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is "
       "'LoadBalancer'"},
      {"ports: [{port: 80}], externalIPs: [010.0.0.1]",
       "spec.externalIPs[0]: Invalid value: \"010.0.0.1\": must not have leading 0s"},
      {"type: LoadBalancer, ports: [{port: 80}], loadBalancerSourceRanges: [10.0.0.1/8]",
       "spec.loadBalancerSourceRanges[0]: Invalid value: \"10.0.0.1/8\": must not have bits set "
       "beyond the prefix length"},
      {"ports: [{port: 80}], trafficDistribution: Nearest",
       "spec.trafficDistribution: Unsupported value: \"Nearest\": supported values: "
       "\"PreferClose\", \"PreferSameZone\", \"PreferSameNode\""},
  };
  for (const auto& [spec, fault] : bad) EXPECT_THAT(ServiceFaults(spec), ElementsAre(fault));
  EXPECT_THAT(ServiceFaults("ports: [{port: 80, appProtocol: 'a b'}]"),
              ElementsAre(::testing::StartsWith(
                  "spec.ports[0].appProtocol: Invalid value: \"a b\": name part must consist")));
  EXPECT_THAT(
      ServiceFaults("ports: [{port: 80}, {port: 81}]"),
      ElementsAre("spec.ports[0].name: Required value", "spec.ports[1].name: Required value"));
  EXPECT_THAT(ServiceFaults("type: LoadBalancer, ports: [{port: 80}]",
                            "status: {loadBalancer: {ingress: [{ip: x, ipMode: Both}]}}\n")
                  .size(),
              2u);
}

std::vector<std::string> SliceFaults(const std::string& body) {
  return Faults<discoveryv1::EndpointSlice>(
      "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1}\n" + body,
      ValidateEndpointSlice);
}

TEST(ValidateEndpointSliceTest, NamesEachFault) {
  EXPECT_THAT(SliceFaults("addressType: IPv4\nendpoints: [{addresses: [192.0.2.1]}]\n"
                          "ports: [{name: a, port: 80}, {port: 81}]\n"),
              IsEmpty());
  EXPECT_THAT(SliceFaults("addressType: FQDN\nendpoints: [{addresses: [a.example]}]\n"), IsEmpty());
  EXPECT_THAT(SliceFaults("addressType: IPv5\nendpoints: []\n"),
              ElementsAre("addressType: Unsupported value: \"IPv5\": supported values: \"FQDN\", "
                          "\"IPv4\", \"IPv6\""));
  EXPECT_THAT(
      SliceFaults("addressType: IPv4\nendpoints: [{addresses: []}, {addresses: [\"fd00::1\"]}, "
                  "{addresses: [169.254.169.254]}]\nports: [{port: 0}, {port: 80}]\n"),
      ElementsAre("endpoints[0].addresses: Required value: must contain at least 1 address",
                  "endpoints[1].addresses[0]: Invalid value: \"fd00::1\": must be an IPv4 address",
                  "endpoints[2].addresses[0]: Invalid value: \"169.254.169.254\": may not be in "
                  "the link-local range (169.254.0.0/16, fe80::/10)",
                  "ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                  "ports[1].name: Duplicate value: \"\""));
}

}  // namespace
}  // namespace holdfast::agent::kube
