// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/requests/targets.h"

#include <string>

#include "agent/api/kubelet/authentication.h"
#include "agent/api/kubelet/log_query.h"
#include "agent/api/kubelet/node_attributes.h"
#include "agent/api/kubelet/request_metrics.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {

void FuzzQuery(std::string_view input) {
  const auto query = agent::api::ParseQuery(input);
  Require(query.size() <= 1000, "pairs are bounded", input);
  const WallTime now{std::chrono::hours(480'000)};
  const auto options = agent::api::ReadLogOptions(query, now);
  if (!options) return;
  Require(options->filter.tail_lines.value_or(0) >= 0, "no number of lines is negative", input);
  Require(options->limit_bytes.value_or(1) >= 1, "no limit is below a byte", input);
  Require(options->filter.since >= WallTime{}, "no time is before all times", input);
}

void FuzzPath(std::string_view input) {
  size_t bytes = 0;
  for (const std::string& part : agent::api::PathParts(input)) bytes += part.size();
  Require(bytes <= input.size(), "decoding makes nothing longer", input);
  const auto rights = agent::api::SubresourcesOf(input);
  Require(!rights.empty(), "every path needs a right", input);
  if (agent::api::IsSession(input)) {
    Require(agent::api::VerbOf("GET", input) == "create" && rights.front() == "proxy",
            "sessions need create on proxy", input);
  }
  Require(agent::api::CountedPath(input).size() < 20, "what is counted is short", input);
  Require(agent::api::BearerToken(input).size() < input.size() + 1, "a token is a part", input);
}

}  // namespace holdfast::fuzz
