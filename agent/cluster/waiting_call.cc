// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/waiting_call.h"

#include <chrono>
#include <future>
#include <memory>
#include <utility>

namespace holdfast::agent {
namespace {

// How often somebody who waits looks whether he still is to. (A flag has no wake-up of its own.)
constexpr std::chrono::milliseconds kFlagLook{50};

}  // namespace

Result<ApiReply> SendAndWait(Api& api, ApiCall call, const std::atomic<bool>* cancelled) {
  // Shared: a callback that has begun when the ticket goes may still run.
  const auto promise = std::make_shared<std::promise<Result<ApiReply>>>();
  auto answer = promise->get_future();
  const TicketPtr ticket = api.Send(
      std::move(call), [promise](Result<ApiReply> reply) { promise->set_value(std::move(reply)); });
  while (cancelled != nullptr && answer.wait_for(kFlagLook) != std::future_status::ready) {
    if (*cancelled) return Unavailable("it was given up");
  }
  return answer.get();
}

}  // namespace holdfast::agent
