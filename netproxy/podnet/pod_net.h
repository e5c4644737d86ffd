// SPDX-License-Identifier: Apache-2.0
// PodNet: the PodNetwork of one agent, in the network namespace of the thread that opened it.
// Thread-safe: one lock, since the kernel takes one (RTNL) anyway. State on disk: record.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "holdfast/interfaces/pod_network.h"
#include "holdfast/model/instance.h"
#include "holdfast/sys/rtnl.h"
#include "netproxy/podnet/address_book.h"
#include "netproxy/podnet/host_rules.h"
#include "netproxy/podnet/pod_links.h"
#include "netproxy/podnet/range_record.h"
#include "netproxy/podnet/ready_link.h"

namespace holdfast::netproxy {

class PodNet : public PodNetwork {
 public:
  // Reads the address book. Without pod_cidrs the ranges are those of the last SetRanges(). kConflict while another agent uses the same directory,
  // kInvalidArgument for bad CIDRs or a bad interface prefix. Changes nothing in the kernel.
  static Result<std::unique_ptr<PodNet>> Open(const model::Instance& instance);

  Result<void> Ensure() override;
  Result<void> Release() override;
  Result<std::vector<std::string>> Setup(const PodNetworkRequest& request) override;
  Result<void> Teardown(const PodUid& uid) override;
  std::vector<std::string> Addresses(const PodUid& uid) override;
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>& live, bool repair) override;
  std::vector<std::string> TakeWarnings() override;

  // In a cluster, where the ranges come from the Node: `own` are the addresses of this node's pods, at
  // most one range per family; none: stays as it is. Pods of a former range keep their addresses, and
  // that range lives until the last of them is gone. `direct`: other pods and nodes, which see the
  // address of a pod itself; nullopt: stay as they are. kInvalidArgument, and nothing changes, for ranges
  // that cannot be used.
  Result<void> SetRanges(std::vector<Cidr> own, std::optional<std::vector<Cidr>> direct);

  std::string NotReadyBecause() override;
  std::vector<std::string> LeftOut(const PodNetworkRequest& request) override;
  bool Holds(const PodUid& uid) override { return !Addresses(uid).empty(); }

  // Makes the link of a pod to come ready in its network namespace (ready_link.h); nothing while no address could be given
  // to a pod. Waits for no other call, and none waits for it.
  Result<void> MakeReady(int network_namespace);

  // Puts the rules back that somebody else took away or changed; true when there were any. Nothing
  // before the first Ensure().
  Result<bool> RepairRules();
  // nft::NftWatch does not report what this sender changes.
  uint32_t rules_sender() const { return rules_.port(); }

  // Takes the node-wide parts away; for an uninstall, when no pod is left.
  Result<void> RemoveNodeParts();

 private:
  // What MakeReady() works with, in the node's namespace.
  struct ReadyLinks {
    std::mutex mutex;  // guards the rest
    sys::Rtnl rtnl;
    NodeSysctls sysctls;
  };

  PodNet(const model::Instance& instance, AddressBook book, sys::Rtnl rtnl, NsFd home,
         sys::Rtnl ready_rtnl, HostRules rules)
      : instance_(instance),
        book_(std::move(book)),
        rtnl_(std::move(rtnl)),
        links_(rtnl_, std::move(home), instance.interface_prefix),
        rules_(std::move(rules)),
        ready_{.mutex = {}, .rtnl = std::move(ready_rtnl), .sysctls = {}} {}

  Result<void> OpenRanges(std::vector<Cidr> configured);
  Result<void> ChangeRanges(std::vector<Cidr> own, std::vector<Cidr> direct);
  Result<void> UseRanges();
  Result<void> DropFormerRanges();
  bool IsHeld(const Cidr& range) const;
  std::vector<Cidr> AllRanges() const;
  Result<void> AdoptRecords();
  Result<void> EnsureLocked();
  Result<std::vector<std::string>> SetupLocked(const PodNetworkRequest& request);
  Result<void> TeardownLocked(const PodUid& uid);

  // Addresses that the kernel routes to interfaces of ours.
  Result<void> MarkOccupied();
  Result<const PodRecord*> EnsureRecord(const PodNetworkRequest& request);
  Result<void> CheckHostPorts(const PodRecord& record);
  bool FitsRanges(const PodRecord& record) const;
  Result<void> Wire(const PodRecord& record, bool loopback_ports, int netns);
  // Frees what waits in releasing_ and whose interface is gone; looks at `limit` at most.
  Result<void> ReleaseGone(size_t limit);

  const model::Instance instance_;
  std::mutex mutex_;  // guards all below
  RangeRecord ranges_;
  AddressBook book_;
  sys::Rtnl rtnl_;
  PodLinks links_;
  HostRules rules_;
  std::deque<PodUid> releasing_;
  bool ensured_ = false;
  uint32_t mtu_ = 0;  // known once ensured_
  std::vector<std::string> warnings_;
  std::vector<std::string> node_warnings_;  // of the last Ensure(): told once, not at every resync

  // Not guarded: as the last EnsureLocked() left it; without an MTU none is made ready.
  std::atomic<LinkShape> ready_shape_;
  ReadyLinks ready_;
};

}  // namespace holdfast::netproxy
