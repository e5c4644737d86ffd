// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/cni/targets.h"

#include <string>

#include "agent/cni/add_result.h"
#include "agent/cni/attachment.h"
#include "agent/cni/network_config.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

namespace cni = agent::cni;

void FuzzCniConfig(std::string_view input) {
  const std::string text(input);
  for (const auto& network : {cni::ParseNetworkList(text), cni::ParseSinglePlugin(text)}) {
    if (!network) continue;
    Require(cni::IsKnownVersion(network->version), "a version is chosen that is spoken", input);
    Require(!network->name.empty() && !network->plugins.empty(), "it has a name and plugins",
            input);
    for (const cni::Json& plugin : network->plugins) {
      Require(!cni::TypeOf(plugin).empty(), "each plugin has a program", input);
    }
    (void)cni::Declares(*network, "portMappings");
  }
}

void FuzzCniResult(std::string_view input) {
  for (const char* version : {"0.3.1", "0.4.0", "1.0.0", "1.1.0"}) {
    const auto result = cni::ReadAddResult(std::string(input), version);
    if (!result) continue;
    for (const bool v6_first : {false, true}) {
      Require(cni::PodAddresses(*result, "eth0", v6_first).size() <= 2, "one of each family",
              input);
    }
    const auto again = cni::ReadAddResult(cni::Print(*result), version);
    Require(again && cni::Print(*again) == cni::Print(*result), "what is handed on is read", input);
  }
}

void FuzzCniAttachment(std::string_view input) {
  const PodUid uid("uid-1");
  const auto attachment = cni::DecodeAttachment(uid, std::string(input));
  if (!attachment) return;
  const std::string text = cni::EncodeAttachment(*attachment);
  const auto again = cni::DecodeAttachment(uid, text);
  Require(again && cni::EncodeAttachment(*again) == text, "what is written is read", input);
}

}  // namespace holdfast::fuzz
