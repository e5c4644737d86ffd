// SPDX-License-Identifier: Apache-2.0
// Connection: requests and their answers on one connection, HTTP/2 or HTTP/1.1. Works on the thread that runs its
// io_context; only that one may call it. Handlers are called from the connection's own turns, never from within
// Start(), Cancel() or Consume(), and may call each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "holdfast/base/result.h"
#include "runtime/http/message.h"

namespace holdfast::runtime::http {

// How an answer ended.
struct StreamEnd {
  enum class How : uint8_t {
    kComplete,
    kNotProcessed,  // the peer surely did nothing with the request: it may be sent again
    kWentAway,      // the peer said in order that it goes away, and went before the answer's end
    kFailed,
  };
  How how = How::kComplete;
  Error error{Code::kUnavailable, ""};  // of all but kComplete: kUnavailable, kResourceExhausted
  Headers trailers = {};                // of kComplete, HTTP/2: what came after the body
};

class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  virtual void OnHead(ResponseHead head) = 0;
  // Part of the body; the text lives until the call returns. Whoever has no use for it any more says so by
  // Connection::Consume(): the peer never sends more than kStreamWindow beyond that.
  virtual void OnBody(std::string_view bytes) = 0;
  // Once, last.
  virtual void OnEnd(StreamEnd end) = 0;
};

using StreamId = int32_t;

class Connection {
 public:
  virtual ~Connection() = default;

  // kUnavailable when no request can begin here any more; nothing was sent then.
  virtual Result<StreamId> Start(Request request, std::shared_ptr<ResponseHandler> handler) = 0;
  virtual void Consume(StreamId stream, size_t bytes) = 0;
  // Its handler is called no more.
  virtual void Cancel(StreamId stream) = 0;
  // No further requests; closes after the last answer.
  virtual void Drain() = 0;
  // At once: what is under way ends with `why`.
  virtual void Close(const Error& why) = 0;

  virtual bool multiplexed() const = 0;
  // False for ever after any trouble.
  virtual bool usable() const = 0;
  virtual bool closed() const = 0;
  // So many requests may begin now.
  virtual size_t room() const = 0;
  virtual size_t running() const = 0;
};

}  // namespace holdfast::runtime::http
