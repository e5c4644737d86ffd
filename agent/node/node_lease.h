// SPDX-License-Identifier: Apache-2.0
// The Lease by which a node shows that it lives. Pure. Source: control-plane.md 4.7.
#pragma once

#include <string>

#include "holdfast/base/clock.h"
#include "k8s/coordination/v1/lease.pb.h"

namespace holdfast::agent {

// "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
std::string NodeLeasesPath();

// `last` as the server gave it, renewed now and owned by the Node with that UID; a default one is a new Lease.
k8s::io::api::coordination::v1::Lease RenewedLease(k8s::io::api::coordination::v1::Lease last,
                                                   const std::string& node_name,
                                                   const std::string& node_uid, WallTime now);

}  // namespace holdfast::agent
