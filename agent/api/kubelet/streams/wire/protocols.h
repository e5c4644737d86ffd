// SPDX-License-Identifier: Apache-2.0
// Which sub-protocol both sides speak: the first of the client's list that a kubelet takes. Pure.
// Source: control-plane 7.3, 7.4, 7.6.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::streams {

// The words of a header that may be a comma list and may come several times.
std::vector<std::string> HeaderWords(std::string_view value);

// How exec and attach are spoken over WebSocket.
struct ChannelProtocol {
  std::string name;              // to be echoed; "" when none was asked for
  bool base64 = false;           // text frames
  bool closes_channels = false;  // v5: channel 255
  bool status_is_json = false;   // v4 and later
  bool operator==(const ChannelProtocol&) const = default;
};
std::optional<ChannelProtocol> ChooseChannelProtocol(const std::vector<std::string>& offered);

// Port-forward over channels, two for each port: the old way.
std::optional<ChannelProtocol> ChooseForwardProtocol(const std::vector<std::string>& offered);

// exec and attach over SPDY.
struct SpdyProtocol {
  std::string name;
  bool has_resize = false;      // v3 and later
  bool status_is_json = false;  // v4
  bool operator==(const SpdyProtocol&) const = default;
};
std::optional<SpdyProtocol> ChooseSpdyProtocol(const std::vector<std::string>& offered);
// Newest first, for who offered none of them.
const std::vector<std::string>& SpdyProtocols();

inline constexpr char kForwardProtocol[] = "portforward.k8s.io";
// A SPDY connection as the bytes of a WebSocket.
inline constexpr char kTunnelProtocol[] = "SPDY/3.1+portforward.k8s.io";

}  // namespace holdfast::agent::streams
