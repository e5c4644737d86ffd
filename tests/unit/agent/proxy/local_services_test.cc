// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/local_services.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "agent/proxy/shown_services.h"
#include "tests/fakes/fake_pod_view.h"
#include "tests/fakes/fake_service_back_end.h"
#include "tests/unit/agent/proxy/objects.h"

namespace holdfast::agent {
namespace {

// What is as it was stays the same object, as in the manifest directory.
class FakeSource : public PodSource {
 public:
  std::shared_ptr<const PodSnapshot> Snapshot() const override {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  }
  void SetChangeCallback(std::function<void()>) override {}
  void Set(const std::vector<corev1::Pod>& pods, const std::vector<corev1::Service>& services,
           const std::vector<discoveryv1::EndpointSlice>& slices = {}) {
    static const Origin kOrigin = std::make_shared<const std::string>("f");
    auto next = std::make_shared<PodSnapshot>();
    next->complete = true;
    for (const auto& pod : pods)
      next->pods.push_back({std::make_shared<corev1::Pod>(pod), kOrigin});
    const std::lock_guard lock(mutex_);
    next->generation = snapshot_->generation + 1;
    for (const auto& service : services) {
      next->services.push_back({Known(service, snapshot_->services), kOrigin});
    }
    for (const auto& slice : slices) {
      next->slices.push_back({Known(slice, snapshot_->slices), kOrigin});
    }
    snapshot_ = std::move(next);
  }

 private:
  template <class Object>
  static std::shared_ptr<const Object> Known(const Object& object,
                                             const std::vector<DesiredObject<Object>>& before) {
    for (const auto& known : before) {
      if (known.object->SerializeAsString() == object.SerializeAsString()) return known.object;
    }
    return std::make_shared<Object>(object);
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const PodSnapshot> snapshot_ = std::make_shared<PodSnapshot>();
};

class LocalServicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-services-XXXXXX";
    dir_ = ::mkdtemp(pattern);
  }
  void TearDown() override {
    Stop();
    std::filesystem::remove_all(dir_);
  }

  void Start(std::chrono::milliseconds patience = std::chrono::seconds(60)) {
    ServiceRanges ranges;
    ranges.cluster_ips = {*Cidr::Parse("10.96.0.0/24")};
    auto book = ServiceAllocations::Open(dir_, ranges, clock_);
    ASSERT_TRUE(book) << book.error().message();
    catalog_ = std::make_unique<ServiceCatalog>();
    driver_ = std::make_unique<ServiceDriver>(back_end_, clock_, ServiceDriverOptions(),
                                              ServiceDriverCallbacks());
    LocalServicesOptions options;
    options.node_name = "n1";
    options.zone = zone_;
    options.patience = patience;
    ServiceCallbacks callbacks;
    callbacks.trouble = [this](const corev1::Service& service, const ServiceTrouble& trouble) {
      const std::lock_guard lock(mutex_);
      troubles_.push_back(service.metadata().name() + " " + trouble.reason);
    };
    auto started = LocalServices::Start(source_, pods_, std::move(*book), *driver_, *catalog_,
                                        options, callbacks);
    ASSERT_TRUE(started) << started.error().message();
    services_ = std::move(*started);
  }
  void Stop() {
    services_.reset();
    driver_.reset();
    catalog_.reset();
  }
  Result<ExplainedService> Explain(const std::string& name) {
    return ShownServices(*catalog_, *driver_, ServiceDriverOptions().table, {})
        .Explain({"default", name});
  }

  // "default/web=10.88.0.2,10.88.0.3 " of every row.
  std::string Rules() {
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
  bool RulesBecome(const std::string& expected) {
    return Eventually([&] { return Rules() == expected; });
  }
  std::vector<std::string> Troubles() {
    const std::lock_guard lock(mutex_);
    return troubles_;
  }

  std::string dir_;
  std::string zone_;  // of the node
  FakeSource source_;
  FakePodView pods_;
  FakeServiceBackEnd back_end_;
  SystemClock clock_;
  std::mutex mutex_;
  std::vector<std::string> troubles_;
  std::unique_ptr<ServiceCatalog> catalog_;
  std::unique_ptr<ServiceDriver> driver_;
  std::unique_ptr<LocalServices> services_;
};

const char kSelector[] = "selector: {app: web}, ports: [{port: 80}]";

TEST_F(LocalServicesTest, WhatCannotBeRecordedIsNotUsedAndTheOthersGoOn) {
  const corev1::Service old = ServiceOf("ports: [{port: 80}]", "old");
  const corev1::Service late = ServiceOf("ports: [{port: 80}]", "late");
  const auto slice = [](const std::string& name, const std::string& endpoint) {
    return SliceOf("addressType: IPv4\nports: [{name: \"\", port: 80}]\nendpoints: [{addresses: [" +
                       endpoint + "]}]\n",
                   name + "-1", name);
  };
  source_.Set({}, {old}, {slice("old", "10.50.0.1")});
  Start();
  ASSERT_TRUE(RulesBecome("default/old=10.50.0.1 ")) << Rules();
  Stop();
  Start();
  // From here on nothing can be recorded.
  std::filesystem::rename(dir_ + "/records", dir_ + "/aside");
  std::filesystem::create_directory(dir_ + "/records");
  source_.Set({}, {old, late}, {slice("old", "10.50.0.2"), slice("late", "10.50.0.9")});
  services_->SourceChanged();
  ASSERT_TRUE(Eventually([&] { return !Troubles().empty(); }));
  EXPECT_EQ(Troubles(), std::vector<std::string>{"late ClusterIPNotAllocated"});
  EXPECT_TRUE(RulesBecome("default/old=10.50.0.2 ")) << Rules();
  for (const ServicePtr& service : catalog_->Services()) {
    EXPECT_EQ(service->spec().clusterip().empty(), service->metadata().name() == "late");
  }
  std::filesystem::remove(dir_ + "/records");
  std::filesystem::rename(dir_ + "/aside", dir_ + "/records");
  EXPECT_TRUE(RulesBecome("default/late=10.50.0.9 default/old=10.50.0.2 ")) << Rules();
  EXPECT_EQ(Troubles().size(), 1u) << "told once";
}

TEST_F(LocalServicesTest, HintsOfTheNodesZoneAreFollowed) {
  const auto slice = SliceOf(
      "addressType: IPv4\nports: [{name: \"\", port: 80}]\nendpoints:\n"
      "- {addresses: [10.50.0.1], hints: {forZones: [{name: z1}]}}\n"
      "- {addresses: [10.50.0.2], hints: {forZones: [{name: z2}]}}\n",
      "web-1", "web");
  source_.Set({}, {ServiceOf("ports: [{port: 80}]")}, {slice});
  Start();
  EXPECT_TRUE(RulesBecome("default/web=10.50.0.1,10.50.0.2 ")) << "no zone: " << Rules();
  services_.reset();
  zone_ = "z2";
  Start();
  EXPECT_TRUE(RulesBecome("default/web=10.50.0.2 ")) << Rules();
}

TEST_F(LocalServicesTest, WhatAServiceDoesNotGetIsToldOncePerVersion) {
  const corev1::Service plain = ServiceOf("ports: [{port: 80}]", "plain");
  corev1::Service balanced =
      ServiceOf("type: LoadBalancer, loadBalancerIP: 192.0.2.1, ports: [{port: 80}]", "lb");
  source_.Set({}, {plain, balanced});
  Start();
  ASSERT_TRUE(Eventually([&] { return !Troubles().empty(); }));
  EXPECT_EQ(Troubles(), std::vector<std::string>{"lb FieldNotHonoured"});
  corev1::Service other = plain;
  (*other.mutable_metadata()->mutable_labels())["a"] = "b";
  source_.Set({}, {other, balanced});
  services_->SourceChanged();
  balanced.mutable_spec()->set_loadbalancerip("192.0.2.2");
  source_.Set({}, {other, balanced});
  services_->SourceChanged();
  ASSERT_TRUE(Eventually([&] { return Troubles().size() > 1; }));
  EXPECT_EQ(Troubles().size(), 2u);
}

TEST_F(LocalServicesTest, FollowsPodsAsTheyBecomeReadyAndGo) {
  source_.Set({}, {ServiceOf(kSelector)});
  Start();
  ASSERT_TRUE(RulesBecome("default/web= "));
  pods_.SetPod(PodOf("a", "10.88.0.2"));
  pods_.SetPod(PodOf("b", "10.88.0.3", false));
  ASSERT_TRUE(RulesBecome("default/web=10.88.0.2 ")) << Rules();
  pods_.SetPod(PodOf("b", "10.88.0.3", true));
  ASSERT_TRUE(RulesBecome("default/web=10.88.0.2,10.88.0.3 ")) << Rules();
  pods_.SetPod(PodOf("b", "10.88.0.3", true, "app: db"));
  ASSERT_TRUE(RulesBecome("default/web=10.88.0.2 ")) << "its labels changed: " << Rules();
  pods_.RemovePod("uid-a");
  ASSERT_TRUE(RulesBecome("default/web= ")) << Rules();
}

TEST_F(LocalServicesTest, WaitsUntilEveryDesiredPodHasAStatus) {
  source_.Set({PodOf("a", ""), PodOf("b", "")}, {ServiceOf(kSelector)});
  pods_.SetPod(PodOf("a", "10.88.0.2"));
  Start();
  ASSERT_TRUE(Eventually([&] { return catalog_->Slices().size() == 1; }));
  EXPECT_TRUE(back_end_.changes().empty()) << "the rules of before stay";
  pods_.SetPod(PodOf("b", "10.88.0.3"));
  ASSERT_TRUE(RulesBecome("default/web=10.88.0.2,10.88.0.3 ")) << Rules();
  EXPECT_EQ(back_end_.changes().size(), 1u);
}

TEST_F(LocalServicesTest, DoesNotWaitForever) {
  source_.Set({PodOf("never", "")}, {ServiceOf(kSelector)});
  Start(std::chrono::milliseconds(1));
  ASSERT_TRUE(RulesBecome("default/web= "));
}

TEST_F(LocalServicesTest, ServicesComeChangeAndGo) {
  source_.Set({}, {ServiceOf(kSelector), ServiceOf("ports: [{port: 80}]", "other")},
              {SliceOf("addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: "
                       "[192.0.2.1]}]\n",
                       "written", "other")});
  pods_.SetPod(PodOf("a", "10.88.0.2"));
  Start();
  ASSERT_TRUE(RulesBecome("default/other=192.0.2.1 default/web=10.88.0.2 ")) << Rules();
  EXPECT_EQ(catalog_->Services().size(), 2u);
  EXPECT_EQ(catalog_->Slices().size(), 2u);
  const auto explained = Explain("other");
  ASSERT_TRUE(explained);
  EXPECT_EQ(explained->slices.size(), 1u);
  EXPECT_EQ(explained->table.ports.at(0).endpoints.size(), 1u);
  EXPECT_EQ(Explain("nobody").error().message(), "services \"nobody\" not found");

  // Its selector goes, its slices with it; the other's slice is somebody else's now.
  source_.Set({}, {ServiceOf("ports: [{port: 80}]"), ServiceOf("ports: [{port: 80}]", "other")},
              {SliceOf("addressType: IPv4\nports: [{port: 80}]\nendpoints: [{addresses: "
                       "[192.0.2.1]}]\n",
                       "written", "web")});
  services_->SourceChanged();
  ASSERT_TRUE(RulesBecome("default/other= default/web=192.0.2.1 ")) << Rules();

  source_.Set({}, {});
  services_->SourceChanged();
  ASSERT_TRUE(RulesBecome(""));
  ASSERT_TRUE(Eventually([&] { return catalog_->Services().empty(); }));
  Stop();
  EXPECT_TRUE(ServiceAllocations::Open(dir_, {}, clock_)->Names().empty())
      << "addresses are free again";
}

// A pod that comes with its Service is told of it: until the Services of its files have their addresses nothing is said.
TEST_F(LocalServicesTest, VariablesWaitForTheServicesOfAGeneration) {
  corev1::Service elsewhere = ServiceOf("ports: [{port: 80}]", "elsewhere");
  elsewhere.mutable_metadata()->set_namespace_("other");
  Start();
  EXPECT_EQ(services_->Variables("default", true, 0), std::nullopt) << "nothing was read";
  source_.Set({}, {ServiceOf("clusterIP: 10.96.0.7, ports: [{port: 80}]"), elsewhere});
  const uint64_t first = source_.Snapshot()->generation;
  EXPECT_EQ(services_->Variables("default", true, first), std::nullopt) << "not told yet";
  std::atomic<int> told = 0;
  services_->SetListener([&told] { ++told; });
  services_->SourceChanged();
  EXPECT_TRUE(Eventually([&] { return told == 1; }));
  const std::vector<std::string> of_web = {
      "WEB_SERVICE_HOST=10.96.0.7",    "WEB_SERVICE_PORT=80",
      "WEB_PORT=tcp://10.96.0.7:80",   "WEB_PORT_80_TCP=tcp://10.96.0.7:80",
      "WEB_PORT_80_TCP_PROTO=tcp",     "WEB_PORT_80_TCP_PORT=80",
      "WEB_PORT_80_TCP_ADDR=10.96.0.7"};
  EXPECT_EQ(services_->Variables("default", true, first), of_web);
  EXPECT_EQ(services_->Variables("default", false, first), std::vector<std::string>{});
  services_->SourceChanged();
  source_.Set({}, {});
  const uint64_t second = source_.Snapshot()->generation;
  ASSERT_GT(second, first);
  EXPECT_EQ(services_->Variables("default", true, second), std::nullopt) << "others are wanted";
  EXPECT_EQ(services_->Variables("default", true, first), of_web) << "who came before them";
  services_->SourceChanged();
  EXPECT_TRUE(Eventually([&] { return told == 2; }));
  EXPECT_EQ(services_->Variables("default", true, second), std::vector<std::string>{});
  services_->SetListener({});
}

TEST_F(LocalServicesTest, ManyAtOnceKeepTheirAddressesOverARestart) {
  std::vector<corev1::Service> services;
  for (int i = 0; i < 100; ++i) {
    services.push_back(ServiceOf("ports: [{port: 80}]", "many" + std::to_string(i)));
  }
  source_.Set({}, services);
  const auto addresses = [this] {
    std::map<std::string, std::string> out;
    for (const auto& service : catalog_->Services()) {
      out[service->metadata().name()] = service->spec().clusterip();
    }
    return out;
  };
  Start();
  ASSERT_TRUE(Eventually([&] { return back_end_.rows().size() == 100; }));
  const auto before = addresses();
  Stop();
  std::reverse(services.begin(), services.end());
  source_.Set({}, services);
  Start();
  ASSERT_TRUE(Eventually([&] { return catalog_->Services().size() == 100; }));
  EXPECT_EQ(addresses(), before);
  EXPECT_FALSE(before.at("many7").empty());
}

TEST_F(LocalServicesTest, NewVersionsAreTakenAndWhatOneGivesUpAnotherGets) {
  const auto asking = [](const std::string& name, const std::string& ip) {
    return ServiceOf("clusterIP: " + ip + ", ports: [{port: 80}]", name);
  };
  const auto slice = [](const std::string& endpoint) {
    return SliceOf("addressType: IPv4\nports: [{name: \"\", port: 80}]\nendpoints: [{addresses: [" +
                       endpoint + "]}]\n",
                   "a-1", "a");
  };
  const auto address_of = [&](const std::string& name) -> std::string {
    for (const ServicePtr& service : catalog_->Services()) {
      if (service->metadata().name() == name) return service->spec().clusterip();
    }
    return "none";
  };
  source_.Set({}, {asking("a", "10.96.0.10"), asking("b", "10.96.0.11")}, {slice("10.50.0.1")});
  Start();
  ASSERT_TRUE(RulesBecome("default/a=10.50.0.1 default/b= ")) << Rules();
  source_.Set({}, {asking("a", "10.96.0.10"), asking("b", "10.96.0.11")}, {slice("10.50.0.2")});
  services_->SourceChanged();
  EXPECT_TRUE(RulesBecome("default/a=10.50.0.2 default/b= ")) << Rules();
  source_.Set({}, {asking("a", "10.96.0.10"), asking("b", "10.96.0.10")}, {slice("10.50.0.2")});
  services_->SourceChanged();
  EXPECT_TRUE(Eventually([&] { return address_of("b").empty(); })) << address_of("b");
  source_.Set({}, {asking("a", "10.96.0.12"), asking("b", "10.96.0.10")}, {slice("10.50.0.2")});
  services_->SourceChanged();
  EXPECT_TRUE(Eventually([&] { return address_of("b") == "10.96.0.10"; })) << address_of("b");
}

TEST_F(LocalServicesTest, WhoChoosesAnAddressComesBeforeWhoTakesAny) {
  // "a" would take any; b to d choose. "d" chooses what "c" has chosen.
  std::vector<corev1::Service> services = {ServiceOf("ports: [{port: 80}]", "a")};
  for (const auto& [name, ip] : std::map<std::string, std::string>{
           {"b", "10.96.0.77"}, {"c", "10.96.0.78"}, {"d", "10.96.0.78"}}) {
    services.push_back(ServiceOf("clusterIP: " + ip + ", ports: [{port: 80}]", name));
  }
  source_.Set({}, services);
  Start();
  ASSERT_TRUE(RulesBecome("default/a= default/b= default/c= ")) << Rules();
  ASSERT_TRUE(Eventually([&] { return !Troubles().empty(); }));
  EXPECT_THAT(Troubles(), ::testing::ElementsAre("d ClusterIPAlreadyAllocated"));
  EXPECT_EQ(Explain("d")->troubles.size(), 1u);
  services.erase(services.begin() + 2);
  source_.Set({}, services);
  services_->SourceChanged();
  ASSERT_TRUE(RulesBecome("default/a= default/b= default/d= ")) << Rules();
}

}  // namespace
}  // namespace holdfast::agent
