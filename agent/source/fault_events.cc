// SPDX-License-Identifier: Apache-2.0
#include "agent/source/fault_events.h"

namespace holdfast::agent {

void AddFault(EventSink& events, const FaultEvent& fault) {
  events.AddEvent({fault.kind, fault.object_namespace, fault.name, fault.uid, "kubelet"},
                  {true, "FailedValidation", fault.message, "", false});
}

}  // namespace holdfast::agent
