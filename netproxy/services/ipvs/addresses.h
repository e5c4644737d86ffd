// SPDX-License-Identifier: Apache-2.0
// The node has every service's address, so that packets to it meet IPVS: on a dummy device of ours,
// or, where the kernel has no such kind of device, by routes of the table `local`. Bound to the
// network namespace of the thread that opened it. One thread at a time.
#pragma once

#include <set>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::netproxy::ipvs {

class ServiceAddresses {
 public:
  static Result<ServiceAddresses> Open(const std::string& device, bool use_dummy);

  // The device is there and up, or routes are chosen.
  Result<void> Prepare();
  bool by_route() const { return by_route_; }
  // Of both kinds.
  Result<std::set<IpAddress>> List();
  // What other links have; link-local addresses are no matter here.
  Result<std::set<IpAddress>> NodeAddresses();
  Result<void> Bind(const IpAddress& ip);
  Result<void> Unbind(const IpAddress& ip);
  // False when nothing was there.
  Result<bool> Remove();

  // kube-proxy's device: what is on it, and away with it.
  Result<std::set<IpAddress>> ListKubeProxy();
  Result<bool> RemoveKubeProxy();

 private:
  ServiceAddresses(sys::Rtnl rtnl, std::string device, bool use_dummy)
      : rtnl_(std::move(rtnl)), device_(std::move(device)), use_dummy_(use_dummy) {}
  Result<std::set<IpAddress>> ListOn(const std::string& device);
  Result<bool> RemoveDevice(const std::string& device);

  sys::Rtnl rtnl_;
  std::string device_;
  bool use_dummy_ = true;
  bool by_route_ = false;
  int link_ = 0;  // the device, or loopback
};

}  // namespace holdfast::netproxy::ipvs
