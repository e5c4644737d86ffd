// SPDX-License-Identifier: Apache-2.0
// What a request for a stream asks for: the path and query that an API server sends to a kubelet. Pure.
// Source: feature-map 1.15.4 and 1.15.5; texts and codes as the kubelet's.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::agent::streams {

enum class StreamVerb : uint8_t { kExec, kAttach, kRun, kPortForward };

struct StreamRequest {
  StreamVerb verb = StreamVerb::kExec;
  std::string pod_namespace;
  std::string pod;
  std::string uid;  // "": whichever
  std::string container;
  std::vector<std::string> command;
  bool input = false;
  bool output = false;
  bool error = false;
  bool tty = false;
  std::vector<std::string> ports;  // of port-forward, unread
  bool operator==(const StreamRequest&) const = default;
};

// An answer instead of a stream: plain text, which kubectl shows to its user.
struct Refusal {
  unsigned status = 0;
  std::string text;
  bool operator==(const Refusal&) const = default;
};
inline std::unexpected<Refusal> Refused(unsigned status, std::string text) {
  return std::unexpected(Refusal{status, std::move(text)});
}

// `target`: path and query as they came.
std::expected<StreamRequest, Refusal> ParseStreamRequest(std::string_view target);

// The ports of a port-forward that has them in its query (WebSocket without a tunnel).
std::expected<std::vector<uint16_t>, Refusal> ParsePorts(const std::vector<std::string>& values);

}  // namespace holdfast::agent::streams
