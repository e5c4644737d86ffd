// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/cleanup.h"

#include "holdfast/sys/nfnl.h"
#include "netproxy/nft/commit.h"
#include "netproxy/nft/observe.h"

namespace holdfast::netproxy::nft {

Result<std::vector<std::string>> RemoveKubeProxyTables() {
  static const std::string kTable = "kube-proxy";
  ASSIGN_OR_RETURN(sys::NfSocket socket, sys::NfSocket::Open());
  std::vector<std::string> removed;
  for (const Family family : {Family::kIp, Family::kIp6}) {
    ASSIGN_OR_RETURN(const bool there, KernelHasTable(socket, family, kTable));
    if (!there) continue;
    RETURN_IF_ERROR(Commit(socket, Remove(family, kTable)));
    removed.push_back(ToString(family) + " " + kTable);
  }
  return removed;
}

}  // namespace holdfast::netproxy::nft
