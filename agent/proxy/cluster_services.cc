// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/cluster_services.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/proxy/convert.h"
#include "agent/proxy/service_variables.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kFlushRetry{1};
// Services of another proxy: we have no rules for them.
// Slices of headless Services, which no rule needs; "!service.kubernetes.io/headless".
constexpr char kNotHeadless[] = "labelSelector=%21service.kubernetes.io%2Fheadless";

}  // namespace

class ClusterServices::Followed : public ObjectHandler {
 public:
  explicit Followed(ClusterServices& all, std::string what) : all_(all), what_(std::move(what)) {}

  void ListBegins() override {}
  void ListEnds() override {
    complete_ = true;
    trouble_.clear();
    all_.FlushSoon();
  }
  void Trouble(const Error& error) override {
    const std::string line = StrCat(what_, ": ", error.message());
    if (line == trouble_) return;
    trouble_ = line;
    if (all_.callbacks_.log) all_.callbacks_.log(line);
  }

  bool complete() const { return complete_; }

 protected:
  ClusterServices& all_;

 private:
  const std::string what_;
  bool complete_ = false;
  std::string trouble_;  // told last
};

class ClusterServices::Services : public Followed {
 public:
  explicit Services(ClusterServices& all) : Followed(all, "services") {}

  void Put(kube::ObjectPtr object) override {
    const ServicePtr service(static_cast<const corev1::Service*>(object.release()));
    const model::ServiceName name = NameOf(*service);
    if (service->metadata().labels().contains(kProxyNameLabel)) return Remove(name);
    const ServicePtr before = all_.catalog_.Find(name);
    if (before != nullptr &&
        before->metadata().resourceversion() == service->metadata().resourceversion()) {
      return;  // a list that was read again
    }
    all_.feed_.SetService(*service);
    all_.catalog_.SetService(name, service, {});
    all_.FlushSoon();
  }
  void Gone(kube::ObjectPtr last) override {
    Remove(NameOf(static_cast<const corev1::Service&>(*last)));
  }

 private:
  void Remove(const model::ServiceName& name) {
    all_.feed_.RemoveService(name);
    all_.catalog_.RemoveService(name);
    all_.FlushSoon();
  }
};

class ClusterServices::Slices : public Followed {
 public:
  explicit Slices(ClusterServices& all) : Followed(all, "endpointslices") {}

  void Put(kube::ObjectPtr object) override {
    const SlicePtr slice(static_cast<const discoveryv1::EndpointSlice*>(object.release()));
    all_.feed_.SetSlice(*slice);
    all_.catalog_.SetSlice(slice);
    all_.FlushSoon();
  }
  void Gone(kube::ObjectPtr last) override {
    const auto& meta = static_cast<const discoveryv1::EndpointSlice&>(*last).metadata();
    all_.feed_.RemoveSlice(meta.namespace_(), meta.name());
    all_.catalog_.RemoveSlice({meta.namespace_(), meta.name()});
    all_.FlushSoon();
  }
};

ClusterServices::ClusterServices(Api& api, ServiceDriver& driver, ServiceCatalog& catalog,
                                 NodeIdentity node, ServiceCallbacks callbacks)
    : api_(api),
      driver_(driver),
      catalog_(catalog),
      node_(std::move(node)),
      callbacks_(std::move(callbacks)),
      feed_(node_),
      services_(std::make_unique<Services>(*this)),
      slices_(std::make_unique<Slices>(*this)),
      alive_(std::make_shared<ClusterServices*>(this)) {}

ClusterServices::~ClusterServices() { *alive_ = nullptr; }

ObjectHandler& ClusterServices::services() { return *services_; }
ObjectHandler& ClusterServices::slices() { return *slices_; }

void ClusterServices::Follow() {
  services_ticket_ =
      Reflect(api_, {"/api/v1/services", "", {"v1", "Service"}, ApiLane::kBulk}, *services_);
  slices_ticket_ = Reflect(api_,
                           {"/apis/discovery.k8s.io/v1/endpointslices",
                            kNotHeadless,
                            {"discovery.k8s.io/v1", "EndpointSlice"},
                            ApiLane::kBulk},
                           *slices_);
}

void ClusterServices::SetZone(const std::string& zone) {
  if (zone == node_.zone) return;
  node_.zone = zone;
  feed_.SetNode(node_);
  for (const SlicePtr& slice : catalog_.Slices()) feed_.SetSlice(*slice);
  FlushSoon();
}

std::optional<std::vector<std::string>> ClusterServices::Variables(const std::string& of_namespace,
                                                                   bool links) const {
  if (!services_known_) return std::nullopt;
  return VariablesIn(catalog_, of_namespace, links);
}

void ClusterServices::FlushSoon() {
  if (std::exchange(flush_posted_, true)) return;
  api_.Post([alive = alive_] {
    if (*alive != nullptr) (*alive)->Flush();
  });
}

void ClusterServices::Flush() {
  flush_posted_ = false;
  if (services_->complete() && !services_known_.exchange(true) && known_) known_();
  feed_.Flush(driver_);
  if (started_ || !services_->complete() || !slices_->complete()) return;
  const auto started = driver_.Start();
  started_ = started.has_value();
  if (started_) return feed_.Began();
  // The kernel may refuse a thread at any time.
  if (callbacks_.log) callbacks_.log(StrCat("services: ", started.error().message()));
  retry_ = api_.After(kFlushRetry, [this] { Flush(); });
}

}  // namespace holdfast::agent
