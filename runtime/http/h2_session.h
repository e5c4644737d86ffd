// SPDX-License-Identifier: Apache-2.0
// H2Session: the client's side of one HTTP/2 connection as a state machine without input and output of its own: bytes
// that were read go in, bytes to write and events come out. Windows move only by Consume(). libnghttp2's callbacks do
// nothing but append events, so whoever reads those may call everything here. Single-thread. Source: RFC 9113.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/http/connection.h"
#include "runtime/http/message.h"

struct nghttp2_session;

namespace holdfast::runtime::http {

class H2Session {
 public:
  struct Event {
    enum class Kind : uint8_t { kHead, kBody, kEnd };
    Kind kind = Kind::kHead;
    StreamId stream = 0;
    ResponseHead head{};
    std::string_view bytes{};  // within what Receive() was given
    StreamEnd end{};
  };

  // With the preface and SETTINGS as its first output.
  static Result<std::unique_ptr<H2Session>> Make();
  ~H2Session();
  H2Session(const H2Session&) = delete;
  H2Session& operator=(const H2Session&) = delete;

  // Queued; kUnavailable when the session takes none any more.
  Result<StreamId> Submit(Request request);
  // kUnavailable after a violation of the protocol: nothing may follow but the output, which says so to the peer.
  Result<void> Receive(std::string_view bytes);
  std::vector<Event> TakeEvents();
  // What is to be written next, about `most` bytes; "" when there is nothing.
  Result<std::string> TakeOutput(size_t most);

  void Consume(StreamId stream, size_t bytes);
  // No event of it follows.
  void Reset(StreamId stream);
  void Ping();

  // GOAWAY was received; `in_order` when it named no error.
  bool went_away() const { return went_away_; }
  bool in_order() const { return in_order_; }
  // Neither side has anything left to say.
  bool finished() const;
  size_t streams() const { return streams_.size(); }
  // As many streams as the peer allows at once.
  size_t peer_limit() const;

 private:
  struct Callbacks;
  struct Stream {
    ResponseHead head;
    Headers trailers;
    std::string body;  // of the request
    size_t sent = 0;   // of it
    uint64_t body_limit = kDefaultBodyLimit;
    uint64_t received = 0;
    size_t header_bytes = 0;
    bool head_seen = false, end_seen = false;
    std::optional<StreamEnd> failure;  // found here, not by the peer
  };

  H2Session() = default;
  Stream* FindStream(StreamId stream);
  void TakeHead(StreamId id, Stream& stream);
  void Fail(StreamId id, Stream& stream, StreamEnd failure);
  void End(StreamId id, StreamEnd end);

  nghttp2_session* session_ = nullptr;
  std::map<StreamId, Stream> streams_;
  std::vector<Event> events_;
  bool went_away_ = false, in_order_ = true;
};

}  // namespace holdfast::runtime::http
