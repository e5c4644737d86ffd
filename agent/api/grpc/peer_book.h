// SPDX-License-Identifier: Apache-2.0
// PeerBook: who is behind grpc::ServerContext::peer(), "fd:<number>". The numbers come from a rotating range, so that one
// names one connection for long after its end: a call that came in before that may still be about to ask. Thread-safe.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "agent/access/peer.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::api {

class PeerBook {
 public:
  // `fd`, which gRPC is to serve, under a number of the range that is `peer`'s from now on.
  Result<UniqueFd> Enter(UniqueFd fd, access::Peer peer);
  std::optional<access::Peer> Find(const std::string& grpc_peer) const;

 private:
  Result<UniqueFd> Numbered(UniqueFd fd);

  mutable std::mutex mutex_;
  int next_number_ = kFirstNumber;
  std::unordered_map<int, access::Peer> peers_;

  static constexpr int kFirstNumber = 256;
  static constexpr int kLastNumber = 2047;
};

}  // namespace holdfast::agent::api
