// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/describe.h"
#include "agent/cli/rows.h"

namespace holdfast::agent::cli {

void DescribeEvents(const Events& events, WallTime now, DescribeWriter& out) {
  if (events.empty()) return out.Line(0, "Events:", "<none>");
  out.Text(0, "Events:");
  out.Row(1, {"Type", "Reason", "Age", "From", "Message"});
  out.Row(1, {"----", "------", "----", "----", "-------"});
  for (const auto& event : events) {
    const std::string& from = event.source().component().empty() ? event.reportingcomponent()
                                                                 : event.source().component();
    out.Row(1, {event.type(), event.reason(), LastSeen(event, now), from, event.message()});
  }
}

}  // namespace holdfast::agent::cli
