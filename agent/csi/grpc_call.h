// SPDX-License-Identifier: Apache-2.0
// One call of a plugin over its unix socket, with a limit, given up when nobody wants its answer any more. For the sources
// of this folder that speak gRPC only.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {

// A channel to the socket at an absolute path; it connects when it is used.
std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket);

// "rpc error: code = Internal desc = no space left", as a kubelet shows a plugin's refusal.
Error ErrorOfCall(const grpc::Status& status);

// `begin` begins the call: stub.AsyncMethod(context, request, queue). `cancelled`, where there is one, is looked at often.
template <class Reply, class Begin>
Result<Reply> CallPlugin(std::chrono::milliseconds limit, const std::atomic<bool>* cancelled,
                         Begin begin) {
  constexpr std::chrono::milliseconds kLook{100};
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + limit);
  grpc::CompletionQueue queue;
  Reply reply;
  grpc::Status status;
  auto call = begin(&context, &queue);
  call->Finish(&reply, &status, &status);
  void* tag = nullptr;
  bool ok = false;
  while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kLook) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (cancelled != nullptr && *cancelled) context.TryCancel();
  }
  queue.Shutdown();
  if (!status.ok()) return ErrorOfCall(status);
  return reply;
}

}  // namespace holdfast::agent
