// SPDX-License-Identifier: Apache-2.0
#include "agent/api/kubelet/streams/wire/protocols.h"

#include <array>

namespace holdfast::agent::streams {

std::vector<std::string> HeaderWords(std::string_view value) {
  std::vector<std::string> words;
  while (!value.empty()) {
    const size_t comma = value.find(',');
    std::string_view word = value.substr(0, comma);
    value = comma == std::string_view::npos ? std::string_view() : value.substr(comma + 1);
    while (word.starts_with(' ') || word.starts_with('\t')) word.remove_prefix(1);
    while (word.ends_with(' ') || word.ends_with('\t')) word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

std::optional<ChannelProtocol> ChooseChannelProtocol(const std::vector<std::string>& offered) {
  static const std::array<ChannelProtocol, 5> kKnown{{
      {"v5.channel.k8s.io", false, true, true},
      {"v4.channel.k8s.io", false, false, true},
      {"v4.base64.channel.k8s.io", true, false, true},
      {"channel.k8s.io", false, false, false},
      {"base64.channel.k8s.io", true, false, false},
  }};
  if (offered.empty()) return ChannelProtocol{};
  for (const std::string& name : offered) {
    for (const ChannelProtocol& known : kKnown) {
      if (known.name == name) return known;
    }
  }
  return std::nullopt;
}

std::optional<ChannelProtocol> ChooseForwardProtocol(const std::vector<std::string>& offered) {
  if (offered.empty()) return ChannelProtocol{};
  for (const std::string& name : offered) {
    if (name == "v4.channel.k8s.io") return ChannelProtocol{name};
    if (name == "v4.base64.channel.k8s.io") return ChannelProtocol{name, true};
  }
  return std::nullopt;
}

// The clients' list begins with v5, which a kubelet does not take over SPDY.
const std::vector<std::string>& SpdyProtocols() {
  static const std::vector<std::string> kNames{"v4.channel.k8s.io", "v3.channel.k8s.io",
                                               "v2.channel.k8s.io", "channel.k8s.io"};
  return kNames;
}

std::optional<SpdyProtocol> ChooseSpdyProtocol(const std::vector<std::string>& offered) {
  for (const std::string& name : offered) {
    for (size_t age = 0; age < SpdyProtocols().size(); ++age) {
      if (SpdyProtocols()[age] == name) return SpdyProtocol{name, age <= 1, age == 0};
    }
  }
  return std::nullopt;
}

}  // namespace holdfast::agent::streams
