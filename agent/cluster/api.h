// SPDX-License-Identifier: Apache-2.0
// Api: what the agent asks of an API server, whatever carries it. Send(), Watch() and Post() may be called from any
// thread; every callback runs on the API thread, one at a time, and must not block. A Ticket may be destroyed on any
// thread: on the API thread no callback follows; on another one that has begun may still run to its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent {

// Of bodies, either way; a patch is always JSON.
inline constexpr char kProtobufType[] = "application/vnd.kubernetes.protobuf";
inline constexpr char kJsonType[] = "application/json";
inline constexpr char kStrategicMergePatchType[] = "application/strategic-merge-patch+json";

enum class ApiVerb : uint8_t { kGet, kPost, kPut, kPatch, kDelete };

// Calls of one lane share connections with each other and with no other lane.
enum class ApiLane : uint8_t { kHeartbeat, kPods, kBulk, kObjects, kEvents };

struct ApiCall {
  ApiVerb verb = ApiVerb::kGet;
  std::string path;  // "/api/v1/nodes/n1?…", with its query
  std::string content_type,
      body;  // "application/vnd.kubernetes.protobuf" with an envelope, or a JSON patch
  ApiLane lane = ApiLane::kObjects;
  std::chrono::milliseconds limit{30'000};
  bool repeatable =
      false;  // after a failure of the transport it may be sent again, unseen by the caller
};

// Whatever the server said; an Error beside it is of the transport only.
struct ApiReply {
  int code = 0;
  std::string reason, message;  // of a Status, when the server sent one: "AlreadyExists", …
  std::string body, content_type;
  std::optional<std::chrono::seconds> retry_after;

  bool ok() const { return code >= 200 && code < 300; }
};

// Of something under way. Destroyed: cancelled, and no callback comes any more.
class Ticket {
 public:
  virtual ~Ticket() = default;
};
using TicketPtr = std::unique_ptr<Ticket>;

class Api {
 public:
  using Done = std::function<void(Result<ApiReply>)>;
  // One event of a watch: its type ("ADDED", "BOOKMARK", "ERROR", …) and the object as it was sent: in its envelope,
  // or JSON. The text lives until the call returns.
  using Frame = std::function<void(std::string_view type, std::string_view object)>;

  virtual ~Api() = default;

  // `done` is called once, at most `limit` from now: kUnavailable, kDeadlineExceeded, kResourceExhausted, with a text
  // that names the call.
  [[nodiscard]] virtual TicketPtr Send(ApiCall call, Done done) = 0;
  // `ended` is called once, after the last frame. {} is a clean end (also when a server goes away in order); an answer
  // other than 200 arrives as `refused` instead of `ended`. `limit` bounds the time to the first byte only.
  [[nodiscard]] virtual TicketPtr Watch(ApiCall call, Frame frame,
                                        std::function<void(Result<void>)> ended,
                                        std::function<void(ApiReply)> refused) = 0;
  // Onto the API thread.
  virtual void Post(std::function<void()> work) = 0;
  [[nodiscard]] virtual TicketPtr After(std::chrono::milliseconds delay,
                                        std::function<void()> work) = 0;
  // Every connection, and what is under way on it with kUnavailable and `why`.
  virtual void CloseAll(const std::string& why) = 0;
};

}  // namespace holdfast::agent
