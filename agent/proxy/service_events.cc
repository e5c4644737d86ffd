// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_events.h"

#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

EventSubject SubjectOf(const corev1::Service& service) {
  const auto& meta = service.metadata();
  return {"Service", meta.namespace_(), meta.name(), meta.uid(), "service-proxy"};
}

}  // namespace

void AddTrouble(EventSink& events, const corev1::Service& service, const ServiceTrouble& trouble) {
  events.AddEvent(SubjectOf(service), {true, trouble.reason, trouble.message, "", false});
}

void AddAddressHeld(EventSink& events, const corev1::Service& service, const AddressHeld& address) {
  const char* reason = address.held ? "AddressAnnounced" : "AddressReleased";
  events.AddEvent(SubjectOf(service), {false, reason, address.text, "", false});
}

}  // namespace holdfast::agent
