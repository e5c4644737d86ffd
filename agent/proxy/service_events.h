// SPDX-License-Identifier: Apache-2.0
// What people are told of Services, as events.
#pragma once

#include "agent/events/event_sink.h"
#include "agent/kube/types_fwd.h"
#include "agent/proxy/announcements.h"
#include "agent/proxy/service_completion.h"

namespace holdfast::agent {

void AddTrouble(EventSink& events, const corev1::Service& service, const ServiceTrouble& trouble);

// This node began or ceased to answer for an address.
void AddAddressHeld(EventSink& events, const corev1::Service& service, const AddressHeld& address);

}  // namespace holdfast::agent
