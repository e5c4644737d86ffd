// SPDX-License-Identifier: Apache-2.0
// AddressLease: the Lease of one address as two threads of this node share it: one carries out its
// requests (whoever calls Next and Done), others answer for the address while it is held. It is
// kept while one of those wants it and says so again in time, so that a thread which stands still
// gives it up. Pure: time comes from outside. Thread-safe; MayAnswer() waits for nobody.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "netproxy/announce/lease_election.h"

namespace holdfast::netproxy::announce {

class AddressLease {
 public:
  explicit AddressLease(std::string identity) : election_(std::move(identity)) {}

  // --- Who answers; `who` is anything that tells them apart ---

  // From then on `who` is silent unless it says so again.
  void Want(const void* who, BootTime until);
  // It is silent from before this call on.
  void Unwant(const void* who);
  // To be asked directly before each answer.
  bool MayAnswer(BootTime now) const { return election_.MayAnswer(now); }
  // "held by node-2/4c1d", and why nothing is known.
  std::string Describe() const;

  // --- Who carries the requests out: see LeaseElection ---

  std::optional<LeaseRequest> Next(BootTime now, WallTime wall);
  // What is new about the API server, for people; "" when nothing is.
  std::string Done(const Result<LeaseRecord>& answer, BootTime now);
  // Not held, and nothing under way.
  bool IsIdle() const;

 private:
  mutable std::mutex mutex_;  // guards what follows, but for election_.MayAnswer()
  LeaseElection election_;
  std::map<const void*, BootTime> wanted_until_;
  std::string trouble_;  // with the API server; "" when there is none
};

}  // namespace holdfast::netproxy::announce
