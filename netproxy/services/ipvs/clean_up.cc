// SPDX-License-Identifier: Apache-2.0
// What takes everything of ours away, by whatever process.
#include <algorithm>
#include <utility>

#include "holdfast/sys/pause_point.h"
#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"
#include "netproxy/services/ipvs/back_end.h"

namespace holdfast::netproxy::ipvs {

// Nobody serves, then nobody has the addresses, then nobody looks at packets.
Result<bool> IpvsBackEnd::CleanUp(const IpvsOptions& options) {
  ASSIGN_OR_RETURN(ServiceAddresses addresses,
                   ServiceAddresses::Open(options.device, options.use_dummy));
  ASSIGN_OR_RETURN(const std::set<IpAddress> kube_proxy, addresses.ListKubeProxy());
  bool any = false;
  auto kernel = IpvsKernel::Open();
  if (!kernel && kernel.error().code() != Code::kNotFound) return std::move(kernel.error());
  if (kernel) {
    ASSIGN_OR_RETURN(const Observed observed, kernel->ListVirtuals());
    std::vector<Operation> away;
    for (const auto& [key, server] : observed) {
      const bool excluded =
          key.mark == 0 &&
          std::any_of(options.exclude_cidrs.begin(), options.exclude_cidrs.end(),
                      [&](const Cidr& cidr) { return cidr.Contains(key.address); });
      const bool leftover = key.mark == 0 && kube_proxy.contains(key.address);
      if (!excluded && (leftover || (server.config.flags & kOwnFlag) != 0))
        away.push_back({Operation::Kind::kDeleteVirtual, key, {}, {}, 1});
    }
    ASSIGN_OR_RETURN(const std::vector<int> errors, kernel->Send(away));
    (void)errors;  // gone meanwhile is as good
    any = !away.empty();
  }
  HOLDFAST_PAUSE_POINT("ipvs.cleanup.servers_gone");
  ASSIGN_OR_RETURN(const bool ours, addresses.Remove());
  ASSIGN_OR_RETURN(const bool kube_proxys, addresses.RemoveKubeProxy());
  any |= ours || kube_proxys;
  ASSIGN_OR_RETURN(sys::NfSocket nft, sys::NfSocket::Open());
  for (const nft::Family family : {nft::Family::kIp, nft::Family::kIp6}) {
    ASSIGN_OR_RETURN(const bool there, nft::KernelHasTable(nft, family, options.nft_table));
    if (there) RETURN_IF_ERROR(nft::Commit(nft, nft::Remove(family, options.nft_table)));
    any |= there;
  }
  RETURN_IF_ERROR(Parameters(options.state_dir).Restore(kernel ? &*kernel : nullptr));
  return any;
}

}  // namespace holdfast::netproxy::ipvs
