// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_lease.h"

#include <utility>

#include "agent/kube/times.h"

namespace holdfast::agent {
namespace {

constexpr char kNamespace[] = "kube-node-lease";
constexpr int32_t kDurationSeconds = 40;

}  // namespace

std::string NodeLeasesPath() {
  return std::string("/apis/coordination.k8s.io/v1/namespaces/") + kNamespace + "/leases";
}

k8s::io::api::coordination::v1::Lease RenewedLease(k8s::io::api::coordination::v1::Lease last,
                                                   const std::string& node_name,
                                                   const std::string& node_uid, WallTime now) {
  auto& meta = *last.mutable_metadata();
  meta.set_name(node_name);
  meta.set_namespace_(kNamespace);
  meta.clear_ownerreferences();
  auto& owner = *meta.add_ownerreferences();
  owner.set_apiversion("v1");
  owner.set_kind("Node");
  owner.set_name(node_name);
  owner.set_uid(node_uid);
  last.mutable_spec()->set_holderidentity(node_name);
  last.mutable_spec()->set_leasedurationseconds(kDurationSeconds);
  kube::SetTime(now, last.mutable_spec()->mutable_renewtime());
  return last;
}

}  // namespace holdfast::agent
