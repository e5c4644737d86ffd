// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/forward_ports.h"

#include <gtest/gtest.h>

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using Ports = std::vector<ForwardedPort>;

core::Pod WebPod() {
  core::Pod pod;
  pod.mutable_metadata()->set_name("web");
  auto& container = *pod.mutable_spec()->add_containers();
  const auto add = [&](const char* name, int number, const char* protocol) {
    auto& port = *container.add_ports();
    port.set_name(name);
    port.set_containerport(number);
    port.set_protocol(protocol);
  };
  add("http", 8000, "TCP");
  add("dns", 53, "UDP");
  return pod;
}

core::Service WebService(const char* cluster_ip = "10.96.0.1") {
  core::Service service;
  service.mutable_metadata()->set_name("web");
  service.mutable_spec()->set_clusterip(cluster_ip);
  const auto add = [&](const char* name, int number, const char* target, const char* protocol) {
    auto& port = *service.mutable_spec()->add_ports();
    port.set_name(name);
    port.set_port(number);
    port.set_protocol(protocol);
    const int as_number = std::atoi(target);
    port.mutable_targetport()->set_type(as_number == 0 ? 1 : 0);
    if (as_number == 0) {
      port.mutable_targetport()->set_strval(target);
    } else {
      port.mutable_targetport()->set_intval(as_number);
    }
  };
  add("web", 80, "http", "TCP");
  add("admin", 81, "9000", "TCP");
  add("dns", 53, "dns", "UDP");
  return service;
}

std::string Why(const Result<Ports>& ports) { return ports ? "" : ports.error().message(); }

TEST(ForwardPortsTest, OfAPod) {
  EXPECT_EQ(*PortsOfPod({"80", "8080:80", ":80", "http", "8080:http"}, WebPod()),
            (Ports{{80, 80}, {8080, 80}, {0, 80}, {8000, 8000}, {8080, 8000}}));
  EXPECT_EQ(Why(PortsOfPod({"80:"}, WebPod())), "remote port cannot be empty");
  EXPECT_EQ(Why(PortsOfPod({"1:2:3"}, WebPod())), "invalid port format '1:2:3'");
  EXPECT_EQ(Why(PortsOfPod({"ftp"}, WebPod())), "Pod 'web' does not have a named port 'ftp'");
  EXPECT_EQ(Why(PortsOfPod({"5353:dns"}, WebPod())), "UDP protocol is not supported for dns");
  EXPECT_EQ(Why(PortsOfPod({"53"}, WebPod())), "UDP protocol is not supported for 53");
  for (const char* wrong : {"0", "65536", "70000:80", "x:80", "-1:80", "80:0"}) {
    EXPECT_FALSE(PortsOfPod({wrong}, WebPod())) << wrong;
  }
}

TEST(ForwardPortsTest, OfAService) {
  EXPECT_EQ(*PortsOfService({"80", "web", "8080:web", ":81"}, WebService(), WebPod()),
            (Ports{{80, 8000}, {80, 8000}, {8080, 8000}, {0, 9000}}));
  EXPECT_EQ(*PortsOfService({"8080:80"}, WebService("None"), WebPod()), (Ports{{8080, 80}}));
  EXPECT_EQ(Why(PortsOfService({"82"}, WebService(), WebPod())),
            "Service web does not have a service port 82");
  EXPECT_EQ(Why(PortsOfService({"x"}, WebService(), WebPod())),
            "Service 'web' does not have a named port 'x'");
  EXPECT_EQ(Why(PortsOfService({"53"}, WebService(), WebPod())),
            "UDP protocol is not supported for 53");
}

TEST(ForwardPortsTest, WhatIsListenedOn) {
  using Addresses = std::vector<ListenAddress>;
  EXPECT_EQ(*ListenAddresses({"localhost"}), (Addresses{{"127.0.0.1", false}, {"::1", false}}));
  EXPECT_EQ(*ListenAddresses({"localhost", "127.0.0.1", "0.0.0.0"}),
            (Addresses{{"127.0.0.1", true}, {"::1", false}, {"0.0.0.0", true}}));
  EXPECT_FALSE(ListenAddresses({"example.com"}));
}

}  // namespace
}  // namespace holdfast::agent::cli
