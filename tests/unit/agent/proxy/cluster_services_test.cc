// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/cluster_services.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fakes/fake_api.h"
#include "tests/fakes/fake_service_back_end.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

class ClusterServicesTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start(const std::string& zone = "") {
    ServiceCallbacks callbacks;
    callbacks.log = [this](const std::string& line) { log_.push_back(line); };
    services_ = std::make_unique<ClusterServices>(api_, driver_, catalog_, NodeIdentity{"n1", zone},
                                                  callbacks);
  }

  template <class Object>
  static kube::ObjectPtr Copy(const Object& object, const std::string& version) {
    kube::ObjectPtr copy(object.New());
    auto& made = static_cast<Object&>(*copy);
    made.CopyFrom(object);
    made.mutable_metadata()->set_resourceversion(version);
    return copy;
  }
  void PutService(const corev1::Service& service) {
    services_->services().Put(Copy(service, std::to_string(++version_)));
  }
  void PutSlice(const discoveryv1::EndpointSlice& slice) {
    services_->slices().Put(Copy(slice, std::to_string(++version_)));
  }
  void Listed() {
    services_->services().ListEnds();
    services_->slices().ListEnds();
    api_.RunPosted();
  }
  // "default/web=10.1.0.2,10.1.0.3 " of every row.
  std::string Rules() {
    api_.RunPosted();
    EXPECT_TRUE(driver_.WaitUntilApplied(std::chrono::seconds(20)));
    std::string out;
    for (const auto& [key, row] : back_end_.rows()) {
      out += key.name + "=";
      for (const model::Endpoint& e : row->cluster) {
        out += (out.back() == '=' ? "" : ",") + e.ip.ToString();
      }
      out += " ";
    }
    return out;
  }
  static corev1::Service Web(const std::string& name = "web", const std::string& meta = "") {
    return ServiceOf("clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{port: 80}]", name,
                     meta);
  }
  static discoveryv1::EndpointSlice Slice(const std::string& address,
                                          const std::string& more = "") {
    return SliceOf(
        "addressType: IPv4\nports: [{name: \"\", port: 8080}]\nendpoints: [{addresses: [" +
        address + "], conditions: {ready: true}" + more + "}]\n");
  }

  SystemClock clock_;
  fakes::FakeApi api_;
  FakeServiceBackEnd back_end_;
  ServiceCatalog catalog_;
  ServiceDriver driver_{back_end_, clock_, ServiceDriverOptions(), ServiceDriverCallbacks()};
  std::unique_ptr<ClusterServices> services_;
  std::vector<std::string> log_;
  int version_ = 0;
};

TEST_F(ClusterServicesTest, TheRulesWaitForBothLists) {
  PutService(Web());
  services_->services().ListEnds();
  api_.RunPosted();
  EXPECT_FALSE(driver_.WaitUntilApplied(std::chrono::milliseconds(50)));
  EXPECT_TRUE(back_end_.changes().empty());
  PutSlice(Slice("10.1.0.2"));
  services_->slices().ListEnds();
  EXPECT_EQ(Rules(), "default/web=10.1.0.2 ");
}

TEST_F(ClusterServicesTest, WhatComesInOneTurnIsOneChange) {
  PutService(Web());
  Listed();
  EXPECT_EQ(Rules(), "default/web= ");
  const size_t before = back_end_.changes().size();
  for (int i = 2; i < 50; ++i) PutSlice(Slice("10.1.0." + std::to_string(i)));
  EXPECT_EQ(Rules(), "default/web=10.1.0.49 ");
  EXPECT_EQ(back_end_.changes().size(), before + 1);
}

TEST_F(ClusterServicesTest, WhatGoesTakesItsRulesAlong) {
  PutService(Web());
  PutSlice(Slice("10.1.0.2"));
  Listed();
  EXPECT_EQ(Rules(), "default/web=10.1.0.2 ");
  services_->slices().Gone(Copy(Slice("10.1.0.2"), "9"));
  EXPECT_EQ(Rules(), "default/web= ");
  services_->services().Gone(Copy(Web(), "9"));
  EXPECT_EQ(Rules(), "");
  EXPECT_TRUE(catalog_.Services().empty());
  EXPECT_TRUE(catalog_.Slices().empty());
}

TEST_F(ClusterServicesTest, AServiceOfAnotherProxyIsLeftAlone) {
  PutService(Web());
  Listed();
  EXPECT_EQ(Rules(), "default/web= ");
  PutService(Web("web", "labels: {service.kubernetes.io/service-proxy-name: other}"));
  EXPECT_EQ(Rules(), "");
}

TEST_F(ClusterServicesTest, AnotherZoneMeansOtherHints) {
  PutService(
      ServiceOf("clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], trafficDistribution: "
                "PreferSameZone, ports: [{port: 80}]"));
  const auto slice = [&](const std::string& zone) {
    return Slice("10.1.0." + zone, ", hints: {forZones: [{name: z" + zone + "}]}");
  };
  auto both = slice("1");
  const auto other = slice("2");
  *both.add_endpoints() = other.endpoints(0);
  PutSlice(both);
  Listed();
  EXPECT_EQ(Rules(), "default/web=10.1.0.1,10.1.0.2 ");
  services_->SetZone("z2");
  EXPECT_EQ(Rules(), "default/web=10.1.0.2 ");
}

TEST_F(ClusterServicesTest, TroubleIsToldOnceUntilItIsOver) {
  const Error forbidden(Code::kPermissionDenied, "403");
  services_->slices().Trouble(forbidden);
  services_->slices().Trouble(forbidden);
  EXPECT_EQ(log_, std::vector<std::string>{"endpointslices: 403"});
  Listed();
  services_->slices().Trouble(forbidden);
  EXPECT_EQ(log_.size(), 2u);
}

TEST_F(ClusterServicesTest, ContainersAreToldOfTheServicesOfTheirNamespace) {
  EXPECT_EQ(services_->Variables("default", true), std::nullopt);
  int told = 0;
  services_->WhenKnown([&] {
    ++told;
    EXPECT_TRUE(services_->Variables("default", true));
  });
  corev1::Service server =
      ServiceOf("clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]", "kubernetes");
  PutService(server);
  PutService(
      ServiceOf("clusterIP: 'fd00::7', ports: [{port: 80}, {name: dns-udp, port: 53, "
                "protocol: UDP}]",
                "my-web", "namespace: shop"));
  PutService(ServiceOf("clusterIP: None, ports: [{port: 80}]", "none", "namespace: shop"));
  Listed();
  const std::vector<std::string> of_server = {"KUBERNETES_SERVICE_HOST=10.96.0.1",
                                              "KUBERNETES_SERVICE_PORT=443",
                                              "KUBERNETES_SERVICE_PORT_HTTPS=443",
                                              "KUBERNETES_PORT=tcp://10.96.0.1:443",
                                              "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
                                              "KUBERNETES_PORT_443_TCP_PROTO=tcp",
                                              "KUBERNETES_PORT_443_TCP_PORT=443",
                                              "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1"};
  EXPECT_EQ(services_->Variables("shop", false), of_server);
  std::vector<std::string> all = of_server;
  for (const char* line : {"MY_WEB_SERVICE_HOST=fd00::7", "MY_WEB_SERVICE_PORT=80",
                           "MY_WEB_SERVICE_PORT_DNS_UDP=53", "MY_WEB_PORT=tcp://[fd00::7]:80",
                           "MY_WEB_PORT_80_TCP=tcp://[fd00::7]:80", "MY_WEB_PORT_80_TCP_PROTO=tcp",
                           "MY_WEB_PORT_80_TCP_PORT=80", "MY_WEB_PORT_80_TCP_ADDR=fd00::7",
                           "MY_WEB_PORT_53_UDP=udp://[fd00::7]:53", "MY_WEB_PORT_53_UDP_PROTO=udp",
                           "MY_WEB_PORT_53_UDP_PORT=53", "MY_WEB_PORT_53_UDP_ADDR=fd00::7"}) {
    all.push_back(line);
  }
  EXPECT_EQ(services_->Variables("shop", true), all);
  Listed();
  EXPECT_EQ(told, 1);
}

TEST_F(ClusterServicesTest, WhatIsPostedOutlivesIt) {
  PutService(Web());
  services_.reset();
  api_.RunPosted();
}

}  // namespace
}  // namespace holdfast::agent
