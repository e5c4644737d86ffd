// SPDX-License-Identifier: Apache-2.0
// What is wrong in the manifest directory, as an event.
#pragma once

#include "agent/events/event_sink.h"
#include "agent/source/source_faults.h"

namespace holdfast::agent {

void AddFault(EventSink& events, const FaultEvent& fault);

}  // namespace holdfast::agent
