// SPDX-License-Identifier: Apache-2.0
// PodRulesGuard: puts the pod network's rules (masquerade, source check, host ports) back as soon
// as somebody else took them away. One thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/proxy/fd_thread.h"
#include "holdfast/base/result.h"
#include "netproxy/nft/watch.h"
#include "netproxy/podnet/pod_net.h"

namespace holdfast::agent {

class PodRulesGuard {
 public:
  // In the network namespace of the calling thread; `network` is borrowed. `log` is called from the
  // guard's thread.
  static Result<std::unique_ptr<PodRulesGuard>> Start(
      netproxy::PodNet& network, const std::string& table_name,
      std::function<void(const std::string& line)> log);

 private:
  PodRulesGuard(netproxy::PodNet& network, netproxy::nft::NftWatch watch,
                std::function<void(const std::string& line)> log)
      : network_(network), watch_(std::move(watch)), log_(std::move(log)) {}
  bool Look();

  netproxy::PodNet& network_;
  netproxy::nft::NftWatch watch_;
  const std::function<void(const std::string& line)> log_;
  std::unique_ptr<FdThread> thread_;  // last: it uses the rest
};

}  // namespace holdfast::agent
