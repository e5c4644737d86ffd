// SPDX-License-Identifier: Apache-2.0
#include "agent/config/access.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "agent/config/durations.h"
#include "agent/kube/quantity.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::config {
namespace {

using Json = nlohmann::json;
using Values = std::vector<std::string>;

template <class Value>
auto Getter(const Place<Value>& place) {
  return [place](const AgentConfig& c) { return Json(place.read(c)); };
}

Result<void> SetAmount(const std::string& text, NodeAmounts& amounts) {
  const size_t split = text.find('=');
  if (split == std::string::npos) {
    return InvalidArgument(StrCat("\"", text, "\" is not of the form memory=1Gi"));
  }
  const std::string name = text.substr(0, split);
  ASSIGN_OR_RETURN(const kube::Amount amount, kube::Amount::Parse(text.substr(split + 1)));
  if (amount.IsNegative()) return InvalidArgument(StrCat(name, ": must not be negative"));
  if (name == "cpu") {
    amounts.cpu_milli = amount.Milli();
  } else if (name == "memory") {
    amounts.memory_bytes = amount.Units();
  } else if (name == "pid") {
    amounts.pids = amount.Units();
  } else {
    return InvalidArgument(StrCat("\"", name, "\" is none of: cpu, memory, pid"));
  }
  return {};
}

Result<void> SetEnforced(AgentConfig& c, const Values& v) {
  const bool none = v.empty() || (v.size() == 1 && v.front() == "none");
  for (const std::string& what : v) {
    if (none || what == "pods") continue;
    return InvalidArgument(StrCat("\"", what, "\" is none of: pods, none"));
  }
  c.node.enforce_allocatable = !none;
  return {};
}

template <class Value>
Access NumberOf(Place<Value> place, Value least, Value most) {
  return {[=](AgentConfig& c, const Values& v) -> Result<void> {
            const std::string& text = v.front();
            const char* const end = text.data() + text.size();
            Value value = 0;
            const auto [stop, error] = std::from_chars(text.data(), end, value);
            if (error != std::errc() || stop != end || value < least || value > most) {
              return InvalidArgument(
                  StrCat("\"", text, "\" is not a number from ", least, " to ", most));
            }
            place.of(c) = value;
            return {};
          },
          Getter(place)};
}

}  // namespace

Access Text(Place<std::string> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            place.of(c) = v.front();
            return {};
          },
          Getter(place)};
}

Access Path(Place<std::string> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            std::string path = v.front();
            while (path.size() > 1 && path.back() == '/') path.pop_back();
            const std::string framed = path + "/";
            if (!path.starts_with('/') || framed.find("/../") != std::string::npos ||
                framed.find("/./") != std::string::npos) {
              return InvalidArgument(StrCat("\"", v.front(), "\" is not an absolute path"));
            }
            place.of(c) = path;
            return {};
          },
          Getter(place)};
}

Access PathOrNone(Place<std::string> place) {
  const Access path = Path(place);
  return {[place, path](AgentConfig& c, const Values& v) -> Result<void> {
            if (!v.front().empty()) return path.set(c, v);
            place.of(c).clear();
            return {};
          },
          path.get};
}

Access List(Place<std::vector<std::string>> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            place.of(c) = v;
            return {};
          },
          Getter(place)};
}

Access OneOf(Place<std::string> place, const Values& allowed) {
  return {[place, allowed](AgentConfig& c, const Values& v) -> Result<void> {
            std::string known;
            for (const std::string& value : allowed) {
              if (v.front() == value) {
                place.of(c) = value;
                return {};
              }
              known += StrCat(known.empty() ? "" : ", ", value);
            }
            return InvalidArgument(StrCat("\"", v.front(), "\" is none of: ", known));
          },
          Getter(place)};
}

Access Bool(Place<bool> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            if (v.front() != "true" && v.front() != "false") {
              return InvalidArgument(StrCat("\"", v.front(), "\" is none of: true, false"));
            }
            place.of(c) = v.front() == "true";
            return {};
          },
          Getter(place)};
}

Access BindAddress(Place<std::string> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            const std::string text = v.empty() ? std::string() : v.front();
            const auto parsed = ParseBindAddress(text);
            if (!parsed) return parsed.error();
            place.of(c) = text;
            return {};
          },
          Getter(place)};
}

Access Number(Place<uint32_t> place, uint32_t least, uint32_t most) {
  return NumberOf(place, least, most);
}

Access Number(Place<int64_t> place, int64_t least, int64_t most) {
  return NumberOf(place, least, most);
}

Access Size(Place<uint64_t> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            ASSIGN_OR_RETURN(const kube::Amount amount, kube::Amount::Parse(v.front()));
            if (amount.Units() < 4096)
              return InvalidArgument(StrCat("\"", v.front(), "\" is below 4Ki"));
            place.of(c) = static_cast<uint64_t>(amount.Units());
            return {};
          },
          [place](const AgentConfig& c) { return Json(std::to_string(place.read(c))); }};
}

Access Amounts(Place<NodeAmounts> place) {
  return {[place](AgentConfig& c, const Values& v) -> Result<void> {
            NodeAmounts amounts;
            for (const std::string& text : v) RETURN_IF_ERROR(SetAmount(text, amounts));
            place.of(c) = amounts;
            return {};
          },
          [place](const AgentConfig& c) {
            const NodeAmounts& amounts = place.read(c);
            return Json{{"cpu", StrCat(amounts.cpu_milli, "m")},
                        {"memory", std::to_string(amounts.memory_bytes)},
                        {"pid", std::to_string(amounts.pids)}};
          }};
}

Access Enforced() {
  return {SetEnforced, [](const AgentConfig& c) {
            return Json::array({c.node.enforce_allocatable ? "pods" : "none"});
          }};
}

Access Share(Place<double> place) {
  return {[=](AgentConfig& c, const Values& v) -> Result<void> {
            const std::string& text = v.front();
            const char* const end = text.data() + text.size();
            double value = 0;
            const auto [stop, error] =
                std::from_chars(text.data(), end, value, std::chars_format::fixed);
            if (error != std::errc() || stop != end || !(value > 0 && value <= 1)) {
              return InvalidArgument(StrCat("\"", text, "\" is not above 0 and at most 1"));
            }
            place.of(c) = value;
            return {};
          },
          Getter(place)};
}

Access Duration(Place<std::chrono::seconds> place, int64_t least, int64_t most) {
  return {[=](AgentConfig& c, const Values& v) -> Result<void> {
            ASSIGN_OR_RETURN(const std::chrono::seconds value, ParseDuration(v.front()));
            if (value.count() < least || value.count() > most) {
              return InvalidArgument(
                  StrCat("\"", v.front(), "\" is not from ", least, "s to ", most, "s"));
            }
            place.of(c) = value;
            return {};
          },
          [place](const AgentConfig& c) { return Json(StrCat(place.read(c).count(), "s")); }};
}

}  // namespace holdfast::agent::config
