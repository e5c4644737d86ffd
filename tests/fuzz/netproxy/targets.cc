// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/netproxy/targets.h"

#include <span>
#include <string>

#include "netproxy/announce/frames.h"
#include "netproxy/podnet/record.h"
#include "netproxy/services/iptables/saved.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzFrame(std::string_view input) {
  namespace announce = netproxy::announce;
  const std::span bytes(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  const announce::Heard heard = announce::Parse(bytes);
  if (!heard.question) return;
  announce::Speaker speaker;
  speaker.mac = {2, 0, 0, 0, 0, 1};
  speaker.link_local = IpAddress::Parse("fe80::1").value();
  const announce::Heard answer = announce::Parse(announce::Answer(*heard.question, speaker));
  Require(answer.claim && answer.claim->address == heard.question->address &&
              answer.claim->mac == speaker.mac,
          "our answer to a question claims what was asked for", input);
}

void FuzzSavedRules(std::string_view input) {
  namespace iptables = netproxy::iptables;
  const auto saved = iptables::ParseSaved(input);
  if (!saved) return;
  for (const iptables::SavedTable& table : saved->tables) {
    for (const auto& [chain, rules] : table) {
      for (const std::string& rule : rules) {
        (void)iptables::Canonical(rule);
        (void)iptables::TargetOf(rule);
      }
    }
  }
}

void FuzzAddressRecord(std::string_view input) {
  const PodUid uid("uid-1");
  const auto record = netproxy::ParseRecord(uid, input);
  if (!record) return;
  const auto again = netproxy::ParseRecord(uid, netproxy::FormatRecord(*record));
  Require(again.has_value() && *again == *record, "what is written is read", input);
}

}  // namespace holdfast::fuzz
