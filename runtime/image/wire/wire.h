// SPDX-License-Identifier: Apache-2.0
// What the agent and holdfast-fetch tell each other, one message per packet of a SEQPACKET socket.
//
//   agent -> helper   "get" and two descriptors: a file that holds the Request (EncodeRequest), and
//                     the pipe for the answer's body, closed by the helper at its end; a third is
//                     the file that is to be sent, open for reading, whose offset both share
//                     "stop" id
//   helper -> agent   "head" …   the final answer's status and headers, before its body
//                     "end" …    after it; with an error or without
//
// A message is a list of fields, each a length and as many bytes. Everything that comes from the
// helper is untrusted: lengths are checked, and the agent compares it, parses nothing further than
// numbers, and follows no link or challenge that its own rules do not allow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

namespace holdfast::runtime::fetch {

using Fields = std::vector<std::string>;

inline constexpr std::string_view kGet = "get";
inline constexpr std::string_view kStop = "stop";
inline constexpr std::string_view kHead = "head";
inline constexpr std::string_view kEnd = "end";

inline constexpr size_t kMaxRequestBytes = 4 << 20;
inline constexpr size_t kMaxHeaderBytes = 32 << 10;  // of one answer, less than a packet
inline constexpr size_t kMaxFields = 200;

std::string Encode(const Fields& fields);
Result<Fields> Decode(std::string_view data);

// How a server is to be known, and how the client shows itself to it: PEM texts.
struct Trust {
  std::string authorities;  // beside the system's
  std::string certificate;
  std::string key;
  bool verify = true;
  bool operator==(const Trust&) const = default;
};

struct Request {
  uint64_t id = 0;
  std::string method = "GET";        // or HEAD, POST, PUT
  std::string url;                   // http or https
  std::vector<std::string> headers;  // "Name: value"
  std::string body;                  // of POST and PUT
  uint64_t upload_bytes = 0;         // of PUT, in place of `body`: of the third descriptor
  Trust trust;
  uint64_t connect_ms = 30'000;
  uint64_t total_ms = 0;       // 0: no limit
  uint64_t slow_bytes = 1024;  // fewer in a second, for slow_seconds on end, is a stall
  uint64_t slow_seconds = 30;  // 0: nothing is
};

// A challenge of WWW-Authenticate (RFC 9110, 11.6.1) as the helper read it.
struct Challenge {
  std::string scheme;  // lower case
  std::string realm, service, scope, error;
  bool operator==(const Challenge&) const = default;
};

struct Head {
  uint64_t id = 0;
  int64_t status = 0;
  int64_t length = -1;  // Content-Length
  int64_t offset = -1;  // where the body begins, of Content-Range
  std::string content_type;
  std::string digest;       // Docker-Content-Digest
  std::string retry_after;  // as it came
  std::vector<Challenge> challenges;
};

struct End {
  uint64_t id = 0;
  std::string error;         // "" when the answer is complete
  bool certificate = false;  // it failed for want of trust: trying again is of no use
  std::string location;      // absolute: where a 3xx leads, where what a 2xx began goes on
};

std::string EncodeRequest(const Request& request);
Result<Request> DecodeRequest(std::string_view text);
// Of a message that begins with its kind; kInvalidArgument when it is not what was expected.
Fields FieldsOf(const Head& head);
Result<Head> DecodeHead(const Fields& fields);
Fields FieldsOf(const End& end);
Result<End> DecodeEnd(const Fields& fields);
Result<uint64_t> Number(std::string_view text);

}  // namespace holdfast::runtime::fetch
