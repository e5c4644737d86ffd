// SPDX-License-Identifier: Apache-2.0
// AddressWatch: reads the service proxy's options again when the node's addresses change, for node
// ports of "primary" and for health checks. One thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "agent/config/agent_config.h"
#include "agent/proxy/fd_thread.h"
#include "agent/proxy/node_options.h"
#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl_watch.h"

namespace holdfast::agent {

class AddressWatch {
 public:
  using Changed = std::function<void(const netproxy::TableOptions& table)>;

  // In the network namespace of the calling thread. `known`: what is in force. `changed` is called
  // from the watch's thread with other options, never with the same twice.
  static Result<std::unique_ptr<AddressWatch>> Start(
      const model::Instance& instance, const ProxyConfig& config, netproxy::TableOptions known,
      Changed changed, std::function<void(const std::string& line)> log);

 private:
  AddressWatch(const model::Instance& instance, const ProxyConfig& config,
               netproxy::TableOptions known, sys::RtnlWatch watch, Changed changed,
               std::function<void(const std::string& line)> log)
      : instance_(instance),
        config_(config),
        known_(std::move(known)),
        watch_(std::move(watch)),
        changed_(std::move(changed)),
        log_(std::move(log)) {}
  bool Look();

  const model::Instance instance_;
  const ProxyConfig config_;
  netproxy::TableOptions known_;
  sys::RtnlWatch watch_;
  const Changed changed_;
  const std::function<void(const std::string& line)> log_;
  std::unique_ptr<FdThread> thread_;  // last: it uses the rest
};

}  // namespace holdfast::agent
