// SPDX-License-Identifier: Apache-2.0
// LeaseElection: who holds an address, decided by a Lease (coordination.k8s.io/v1) per address: of
// all nodes that see the same control plane at most one answers at any time, whatever is lost,
// late, frozen or divided. It needs no clock in common: each node measures with its own boot time.
//
// The holder renews every 500 ms and may answer until kFence after the moment in which it SENT the
// last renewal that succeeded. A taker first sees the same resourceVersion for kPatience, then
// writes under that version. So whatever the holder renewed last was sent before the taker saw it,
// and its time is over at least a second before the taker's write can succeed. A Lease that is not
// there is waited for in the same way: somebody may have deleted it under a holder. One that was
// given back (no holder) is taken at once: it is given back by one that is silent already.
//
// Pure: it says which request is due and is told how it ended; the requests themselves, one at a
// time per address, are the caller's. One thread, but may_answer() may be asked from any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/base/clock.h"
#include "holdfast/base/ip_address.h"
#include "holdfast/base/result.h"

namespace holdfast::netproxy::announce {

inline constexpr char kLeaseNamespace[] = "kube-system";
// "holdfast-address-198.51.100.7", "holdfast-address-2001-0db8-0000-0000-0000-0000-0000-0007".
std::string LeaseName(const IpAddress& address);

struct LeaseRecord {
  std::string holder;                // spec.holderIdentity; "": given back
  std::chrono::seconds duration{3};  // spec.leaseDurationSeconds, for people
  WallTime acquired;                 // spec.acquireTime, for people
  WallTime renewed;                  // spec.renewTime, for people
  int64_t transitions = 0;           // spec.leaseTransitions
  std::string version;               // metadata.resourceVersion; the server's
  bool operator==(const LeaseRecord&) const = default;
};

struct LeaseRequest {
  enum class Kind : uint8_t {
    kGet,     // kNotFound when there is none
    kCreate,  // kAlreadyExists when there is one
    kUpdate,  // kConflict when the server's version is not `record`'s
  };
  Kind kind = Kind::kGet;
  LeaseRecord record;
};

class LeaseElection {
 public:
  // `identity` is this process's alone: the node's name and something random.
  explicit LeaseElection(std::string identity) : identity_(std::move(identity)) {}

  // What is to be sent now; nothing while an answer is outstanding or nothing is due. To be asked
  // every 100 ms or so. `wanted`: this node could serve the address; once it cannot, it is silent
  // from this call on and gives the Lease back.
  std::optional<LeaseRequest> Next(BootTime now, WallTime wall, bool wanted);
  // How the outstanding request ended: the Lease as the server has it now, or why not. What does
  // not end within a second is to be given up with an error; it may still reach the server later.
  void Done(const Result<LeaseRecord>& answer, BootTime now);

  // To be asked directly before each answer.
  bool MayAnswer(BootTime now) const { return now.since_boot.count() < answer_until_.load(); }
  // Of the Lease as it was seen last; "" when nobody holds it, or nothing is known.
  const std::string& holder() const { return seen_.holder; }
  // Not held, and no answer outstanding.
  bool IsIdle() const { return !outstanding_ && !IsMine(); }

 private:
  enum class Knowledge : uint8_t { kNothing, kNoLease, kLease };

  bool IsMine() const { return knowledge_ == Knowledge::kLease && seen_.holder == identity_; }
  bool IsFree(BootTime now) const;
  LeaseRequest Send(LeaseRequest::Kind kind, LeaseRecord record, BootTime now);
  LeaseRecord Own(WallTime wall) const;
  void See(Knowledge knowledge, const LeaseRecord& record, BootTime now);
  void AfterRead(BootTime now);

  const std::string identity_;
  std::atomic<int64_t> answer_until_{0};  // boot time in nanoseconds
  bool wanted_ = false;
  Knowledge knowledge_ = Knowledge::kNothing;
  LeaseRecord seen_;
  BootTime seen_at_;   // when this version (or that there is none) was seen first
  BootTime next_at_;   // of the next request
  bool take_ = false;  // it was read just now and is free
  std::optional<LeaseRequest::Kind> outstanding_;
  BootTime sent_at_;
};

}  // namespace holdfast::netproxy::announce
