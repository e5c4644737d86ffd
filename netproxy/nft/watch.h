// SPDX-License-Identifier: Apache-2.0
// NftWatch: tells by the kernel's notifications that somebody else touched our tables. Bound to the
// network namespace of the thread that opened it. One thread at a time, but for HearAllBut().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/service_back_end.h"

namespace holdfast::netproxy::nft {

// One message of a transaction.
struct NftTouch {
  uint8_t family = 0;      // NFPROTO_*
  uint8_t message = 0;     // NFT_MSG_*
  std::string_view table;  // "" where the message has none
  std::string_view chain;  // of messages about chains and rules
};

// What a notification is about; `message` begins with its nlmsghdr and says itself how long it is.
NftTouch TouchOf(std::string_view message, uint16_t type);

class NftWatch : public RulesWatch {
 public:
  using IsNews = std::function<bool(const NftTouch&)>;

  // `own_port` is the one sender whose changes are not reported (they are filtered in the kernel).
  // `receive_bytes` bounds what waits unread; 0: the system's default.
  static Result<NftWatch> Open(const std::string& table, uint32_t own_port, int receive_bytes = 0);
  // `is_news` is called by Drain() with what anybody does.
  static Result<NftWatch> Open(IsNews is_news, int receive_bytes = 0);

  int fd() const override { return fd_.get(); }
  // Lost notifications are news.
  Result<bool> Drain() override;
  // From now on; 0: hears everybody. Thread-safe.
  Result<void> HearAllBut(uint32_t port) const;

 private:
  NftWatch(IsNews is_news, UniqueFd fd) : is_news_(std::move(is_news)), fd_(std::move(fd)) {}

  IsNews is_news_;
  UniqueFd fd_;
};

}  // namespace holdfast::netproxy::nft
