// SPDX-License-Identifier: Apache-2.0
#include "agent/prepare_downgrade.h"

#include <memory>

#include "agent/pod/state/pod_state_store.h"
#include "agent/root_lock.h"
#include "netproxy/podnet/address_book.h"

namespace holdfast::agent {

Result<void> PrepareDowngrade(const AgentConfig& config) {
  ASSIGN_OR_RETURN(const UniqueFd lock, LockRoot(config.instance.root_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<PodStateStore> pods, PodStateStore::Open(config.instance));
  ASSIGN_OR_RETURN(netproxy::AddressBook addresses,
                   netproxy::AddressBook::Open(config.instance.NetworkDir()));
  RETURN_IF_ERROR(WithContext(pods->LeaveAsFiles(), "pods"));
  return WithContext(addresses.LeaveAsFiles(), "addresses of pods");
}

}  // namespace holdfast::agent
