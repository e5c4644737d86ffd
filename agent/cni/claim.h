// SPDX-License-Identifier: Apache-2.0
// CniNetwork::Claim: the right to have a verb done for one pod; one holder at a time, and none while garbage is
// collected.
#pragma once

#include <mutex>
#include <utility>

#include "agent/cni/cni_network.h"

namespace holdfast::agent {

class CniNetwork::Claim {
 public:
  // Waits for its turn, which the time limits of the verbs bound.
  Claim(CniNetwork& network, PodUid uid) : network_(network), uid_(std::move(uid)) {
    std::unique_lock lock(network_.mutex_);
    network_.freed_.wait(
        lock, [this] { return !network_.collecting_ && !network_.busy_.contains(uid_); });
    network_.busy_.insert(uid_);
  }
  // Does not wait: false when it is another's turn.
  Claim(CniNetwork& network, PodUid uid, std::try_to_lock_t /*at_once*/)
      : network_(network), uid_(std::move(uid)) {
    const std::lock_guard lock(network_.mutex_);
    holds_ = !network_.collecting_ && network_.busy_.insert(uid_).second;
  }
  explicit operator bool() const { return holds_; }
  ~Claim() {
    if (!holds_) return;
    {
      const std::lock_guard lock(network_.mutex_);
      network_.busy_.erase(uid_);
    }
    network_.freed_.notify_all();
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  CniNetwork& network_;
  const PodUid uid_;
  bool holds_ = true;
};

}  // namespace holdfast::agent
