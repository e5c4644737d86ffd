// SPDX-License-Identifier: Apache-2.0
// Settings of what the node does when it is short of something: maps of a kubelet's signals.
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "agent/config/access.h"
#include "agent/config/durations.h"
#include "agent/kube/quantity.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::config {
namespace {

using Json = nlohmann::json;
using Values = std::vector<std::string>;

// "15%" or "10Gi".
Result<model::Threshold> ParseThreshold(const std::string& text) {
  if (!text.ends_with('%')) {
    ASSIGN_OR_RETURN(const kube::Amount amount, kube::Amount::Parse(text));
    if (amount.IsNegative()) return InvalidArgument(StrCat("\"", text, "\" must not be negative"));
    return model::Threshold{0, static_cast<uint64_t>(amount.Units())};
  }
  double percent = 0;
  const char* const end = text.data() + text.size() - 1;
  const auto [stop, error] = std::from_chars(text.data(), end, percent);
  if (error != std::errc() || stop != end || !(percent >= 0) || percent >= 100) {
    return InvalidArgument(StrCat("\"", text, "\" is not a share from 0% up to 100%"));
  }
  return model::Threshold{percent, 0};
}

std::string ThresholdText(const model::Threshold& threshold) {
  if (threshold.percent <= 0) return std::to_string(threshold.absolute);
  std::array<char, 32> text{};
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), threshold.percent);
  return StrCat(std::string_view(text.data(), error == std::errc() ? end : text.data()), "%");
}

Result<PressureSignal> SignalOf(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kPressureSignals.size(); ++i) {
    if (static_cast<PressureSignal>(i) == PressureSignal::kPodsMemory) continue;  // follows memory
    if (name == kPressureSignals[i]) return static_cast<PressureSignal>(i);
    known += StrCat(known.empty() ? "" : ", ", kPressureSignals[i]);
  }
  return InvalidArgument(StrCat("\"", name, "\" is none of: ", known));
}

// "imagefs.available=15%"; a kubelet's flags have "<", its file a map.
Result<std::pair<PressureSignal, std::string>> SplitSignal(const std::string& text,
                                                           const char* example) {
  const size_t split = text.find_first_of("=<");
  if (split == std::string::npos) {
    return InvalidArgument(StrCat("\"", text, "\" is not of the form ", example));
  }
  ASSIGN_OR_RETURN(const PressureSignal signal, SignalOf(std::string_view(text).substr(0, split)));
  return std::pair(signal, text.substr(split + 1));
}

}  // namespace

// As with kubelet: what is not named is not kept.
Access Amounts(Place<SignalAmounts> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            SignalAmounts amounts;
            for (const std::string& text : v) {
              ASSIGN_OR_RETURN(const auto entry, SplitSignal(text, "imagefs.available=15%"));
              ASSIGN_OR_RETURN(amounts[entry.first], ParseThreshold(entry.second));
            }
            place.of(c) = std::move(amounts);
            return {};
          },
          [place](const AgentConfig& c) {
            Json json = Json::object();
            for (const auto& [signal, amount] : place.read(c)) {
              json[std::string(NameOf(signal))] = ThresholdText(amount);
            }
            return json;
          }};
}

Access Durations(Place<std::map<PressureSignal, std::chrono::seconds>> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            std::map<PressureSignal, std::chrono::seconds> durations;
            for (const std::string& text : v) {
              ASSIGN_OR_RETURN(const auto entry, SplitSignal(text, "memory.available=1m30s"));
              ASSIGN_OR_RETURN(durations[entry.first], ParseDuration(entry.second));
            }
            place.of(c) = std::move(durations);
            return {};
          },
          [place](const AgentConfig& c) {
            Json json = Json::object();
            for (const auto& [signal, duration] : place.read(c)) {
              json[std::string(NameOf(signal))] = StrCat(duration.count(), "s");
            }
            return json;
          }};
}

}  // namespace holdfast::agent::config
