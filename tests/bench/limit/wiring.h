// SPDX-License-Identifier: Apache-2.0
// The least that gives a pod its network: the kernel's objects of netproxy/podnet/wiring.h (veth, addresses, routes and
// neighbours of both families, the same parameters of both ends), each end in one netlink call, with numbers that
// we choose, one queue per veth, and nothing that looks, remembers or repairs. What PodNet is measured against.
//
// Pods are numbers: `number` has the link bareNUMBER and the addresses 10.99.0.2 + NUMBER and fd00:99::2 + NUMBER.
// Single-threaded; a failure ends the program.
#pragma once

#include <string>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/sysctl.h"

namespace holdfast::bench {

class BareNode {
 public:
  BareNode();  // in the calling thread's network namespace, whose `lo` gets the node's addresses

  // A pod's whole node end; its other end appears as eth0 in `netns`, down.
  void SetUp(int number, int netns);
  // The same in two parts: what can lie ready before the pod is known, and what is left then.
  void MakeLink(int number, int netns);
  void TakeLink(int number);
  // Until packets pass, as PodNet waits.
  void AwaitRunning(int number);

  static std::string LinkName(int number);

 private:
  void WriteFiles(int number);

  UniqueFd socket_;
  UniqueFd ipv6_;  // /proc/sys/net/ipv6/conf
};

// While it lives the calling thread is in that network namespace.
class InNamespace {
 public:
  explicit InNamespace(int netns);
  ~InNamespace();
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  UniqueFd home_;
};

// Both by a thread that is in the pod's network namespace. eth0's parameters that have files only, by `procfs`, a
// directory; and all the rest of the pod's end, with its loopback.
void TunePodEnd(int procfs);
void WirePodEnd(int number);

// A whole pod in `netns`, from a thread in the node's namespace; and the same in two parts.
void WirePod(BareNode& node, sys::RenewedProcfs& procfs, int number, int netns);
void MakeReadyPod(BareNode& node, sys::RenewedProcfs& procfs, int number, int netns);
void WireReadyPod(BareNode& node, int number, int netns);

}  // namespace holdfast::bench
