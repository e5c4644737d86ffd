// SPDX-License-Identifier: Apache-2.0
// What an election wants of a Lease as requests to an API server, and what its answers say. Pure;
// thread-safe.
#pragma once

#include "agent/cluster/api_client.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"
#include "netproxy/announce/lease_election.h"

namespace holdfast::agent {

// The Lease is ours wholly: an update leaves nothing of what somebody else wrote into it.
ApiRequest ToApiRequest(const IpAddress& address, const netproxy::announce::LeaseRequest& request);

// kNotFound, kConflict, kAlreadyExists as the election expects them; whatever else is no Lease is
// kUnavailable, with what the server said.
Result<netproxy::announce::LeaseRecord> ReadLease(const ApiAnswer& answer,
                                                  const ApiRequest& request);

}  // namespace holdfast::agent
