// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_endpoints.h"

#include <gtest/gtest.h>

#include "holdfast/base/strings.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

std::vector<SlicePtr> Slices(const corev1::Service& service, std::vector<corev1::Pod> pods,
                             const std::string& zone = "") {
  std::vector<PodPtr> pointers;
  for (corev1::Pod& pod : pods) pointers.push_back(std::make_shared<const corev1::Pod>(pod));
  return LocalSlices(service, pointers, {"n1", zone});
}

const corev1::Service kWeb() { return ServiceOf("selector: {app: web}, ports: [{port: 80}]"); }

TEST(LocalSlicesTest, TakesThePodsThatTheSelectorNames) {
  corev1::Pod elsewhere = PodOf("d", "10.88.0.5");
  elsewhere.mutable_metadata()->set_namespace_("other");
  const auto slices =
      Slices(kWeb(), {PodOf("a", "10.88.0.2"), PodOf("b", "10.88.0.3", true, "app: web, tier: x"),
                      PodOf("c", "10.88.0.4", true, "app: db"), elsewhere, PodOf("e", "")});
  ASSERT_EQ(slices.size(), 1u);
  const discoveryv1::EndpointSlice& slice = *slices[0];
  EXPECT_EQ(slice.addresstype(), "IPv4");
  EXPECT_EQ(slice.metadata().labels().at("kubernetes.io/service-name"), "web");
  ASSERT_EQ(slice.endpoints_size(), 2);
  EXPECT_EQ(slice.endpoints(0).addresses(0), "10.88.0.2");
  EXPECT_EQ(slice.endpoints(0).nodename(), "n1");
  EXPECT_EQ(slice.endpoints(0).targetref().name(), "a");
  EXPECT_EQ(slice.endpoints(1).addresses(0), "10.88.0.3");
  ASSERT_EQ(slice.ports_size(), 1);
  EXPECT_EQ(slice.ports(0).port(), 80);
  EXPECT_TRUE(Slices(ServiceOf("ports: [{port: 80}]"), {PodOf("a", "10.88.0.2")}).empty());
}

TEST(LocalSlicesTest, SaysWhoIsReadyServingAndTerminating) {
  corev1::Pod going = PodOf("b", "10.88.0.3");
  going.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(1);
  corev1::Pod ended = PodOf("d", "10.88.0.5");
  ended.mutable_status()->set_phase("Succeeded");
  const std::vector<corev1::Pod> pods = {PodOf("a", "10.88.0.2"), going,
                                         PodOf("c", "10.88.0.4", false), ended};
  const auto slices = Slices(kWeb(), pods);
  ASSERT_EQ(slices.at(0)->endpoints_size(), 3);
  const auto conditions = [&](const SlicePtr& slice, int i) {
    const auto& c = slice->endpoints(i).conditions();
    return std::vector<bool>{c.ready(), c.serving(), c.terminating()};
  };
  EXPECT_EQ(conditions(slices[0], 0), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(conditions(slices[0], 1), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(conditions(slices[0], 2), (std::vector<bool>{false, false, false}));
  const auto published = Slices(
      ServiceOf("selector: {app: web}, publishNotReadyAddresses: true, ports: [{port: 80}]"), pods);
  EXPECT_EQ(conditions(published.at(0), 1), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(conditions(published.at(0), 2), (std::vector<bool>{true, false, false}));
}

TEST(LocalSlicesTest, NamedPortsMayDifferBetweenPods) {
  corev1::Pod other = PodOf("b", "10.88.0.3");
  other.mutable_spec()->mutable_containers(0)->mutable_ports(0)->set_containerport(9090);
  corev1::Pod without = PodOf("c", "10.88.0.4");
  without.mutable_spec()->mutable_containers(0)->clear_ports();
  const auto slices =
      Slices(ServiceOf("selector: {app: web}, ports: [{name: web, port: 80, targetPort: http}, "
                       "{name: dns, port: 53, protocol: UDP, targetPort: dns}]"),
             {PodOf("a", "10.88.0.2"), other, without});
  ASSERT_EQ(slices.size(), 3u);
  std::set<std::string> names;
  std::map<std::string, std::string> ports;
  for (const SlicePtr& slice : slices) {
    names.insert(slice->metadata().name());
    for (const auto& port : slice->ports()) {
      ports[slice->endpoints(0).addresses(0)] +=
          port.name() + "=" + std::to_string(port.port()) + " ";
    }
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(ports["10.88.0.2"], "web=8080 dns=53 ");
  EXPECT_EQ(ports["10.88.0.3"], "web=9090 dns=53 ");
  EXPECT_EQ(ports.count("10.88.0.4"), 0u) << "it has none of them";
}

TEST(LocalSlicesTest, ASidecarsPortCountsAnInitContainersDoesNot) {
  corev1::Pod pod = PodOf("a", "10.88.0.2");
  corev1::Container sidecar = pod.spec().containers(0);
  pod.mutable_spec()->mutable_containers(0)->clear_ports();
  *pod.mutable_spec()->add_initcontainers() = sidecar;
  const corev1::Service service =
      ServiceOf("selector: {app: web}, ports: [{port: 80, targetPort: http}]");
  EXPECT_EQ(Slices(service, {pod}).at(0)->ports_size(), 0);
  pod.mutable_spec()->mutable_initcontainers(0)->set_restartpolicy("Always");
  EXPECT_EQ(Slices(service, {pod}).at(0)->ports_size(), 1);
}

TEST(LocalSlicesTest, OneSlicePerFamilyOfTheService) {
  corev1::Pod pod = PodOf("a", "10.88.0.2");
  pod.mutable_status()->add_podips()->set_ip("fd00:88::2");
  corev1::Service service = kWeb();
  EXPECT_EQ(Slices(service, {pod}).size(), 2u);
  service.mutable_spec()->add_ipfamilies("IPv6");
  const auto slices = Slices(service, {pod});
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0]->addresstype(), "IPv6");
  EXPECT_EQ(slices[0]->endpoints(0).addresses(0), "fd00:88::2");
}

TEST(LocalSlicesTest, HintsThisNodeWhereTheServicePrefersIt) {
  const auto slices = Slices(ServiceOf("selector: {app: web}, trafficDistribution: PreferSameNode, "
                                       "ports: [{port: 80}]"),
                             {PodOf("a", "10.88.0.2")});
  EXPECT_EQ(slices.at(0)->endpoints(0).hints().fornodes(0).name(), "n1");
  EXPECT_FALSE(slices.at(0)->endpoints(0).has_zone());
  EXPECT_EQ(slices.at(0)->endpoints(0).hints().forzones_size(), 0);
}

TEST(LocalSlicesTest, BearsTheNodesZoneAndHintsItWhereTheServicePrefersIt) {
  for (const char* wish : {"PreferClose", "PreferSameZone", "PreferSameNode"}) {
    const auto slices = Slices(ServiceOf(StrCat("selector: {app: web}, trafficDistribution: ", wish,
                                                ", ports: [{port: 80}]")),
                               {PodOf("a", "10.88.0.2")}, "z1");
    const auto& endpoint = slices.at(0)->endpoints(0);
    EXPECT_EQ(endpoint.zone(), "z1");
    EXPECT_EQ(endpoint.hints().forzones(0).name(), "z1") << wish;
  }
  const auto plain = Slices(kWeb(), {PodOf("a", "10.88.0.2")}, "z1");
  EXPECT_EQ(plain.at(0)->endpoints(0).zone(), "z1");
  EXPECT_FALSE(plain.at(0)->endpoints(0).has_hints());
}

}  // namespace
}  // namespace holdfast::agent
