// SPDX-License-Identifier: Apache-2.0
// What a client notices of a back end with many Services: how long its first packet takes, and how
// long after an EndpointSlice changed the new endpoint answers; by way of the table
// (ServiceTracker), without the agent's thread and files. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "holdfast/interfaces/service_back_end.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {

struct Packets {
  std::vector<double> connect;           // microseconds of connect() through the service
  std::vector<double> direct;            // the same to the endpoint's own address
  std::vector<double> change_to_answer;  // microseconds
};

// In the calling thread's network namespace, which must be a fresh one. The service that is looked
// at is in the middle of the others.
Packets MeasurePackets(const Shape& shape, ServiceBackEnd& back_end, size_t connections,
                       size_t changes);

}  // namespace holdfast::bench
