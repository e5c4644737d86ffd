// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/keys.h"

#include <array>
#include <charconv>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::string_view kLogs = "log.";
constexpr std::string_view kProcesses = "pid.";
// By LogPart.
constexpr std::array<std::string_view, 4> kLogParts{"1", "2", "tty", "relay"};

}  // namespace

const char kSandboxPrefix[] = "ns.";
const char kMemberPrefix[] = "pool.";

std::string LogPrefix(std::string_view id) { return StrCat(kLogs, id, "."); }

std::string MakeLogKey(std::string_view id, LogPart part) {
  return StrCat(LogPrefix(id), kLogParts[static_cast<size_t>(part)]);
}

std::optional<LogKey> ParseLogKey(std::string_view key) {
  const size_t dot = key.rfind('.');
  if (!IsLogKey(key) || dot <= kLogs.size()) return std::nullopt;
  const std::string_view which = key.substr(dot + 1);
  for (size_t part = 0; part < kLogParts.size(); ++part) {
    if (which == kLogParts[part]) {
      return LogKey{std::string(key.substr(kLogs.size(), dot - kLogs.size())),
                    static_cast<LogPart>(part)};
    }
  }
  return std::nullopt;
}

bool IsLogKey(std::string_view key) { return key.starts_with(kLogs); }

SandboxName PodSandbox(const PodUid& uid) { return {SandboxName::Kind::kPod, uid.value}; }

SandboxName PoolMember(std::string id) { return {SandboxName::Kind::kMember, std::move(id)}; }

std::string SandboxPrefix(const SandboxName& sandbox) {
  return StrCat(sandbox.kind == SandboxName::Kind::kPod ? kSandboxPrefix : kMemberPrefix,
                sandbox.id, ".");
}

std::string MakeSandboxKey(const SandboxKey& key) {
  return StrCat(SandboxPrefix(key.sandbox), key.total, ".", key.name);
}

std::optional<SandboxKey> ParseSandboxKey(std::string_view key) {
  const bool pod = key.starts_with(kSandboxPrefix);
  if (!pod && !key.starts_with(kMemberPrefix)) return std::nullopt;
  key.remove_prefix(key.find('.') + 1);
  const size_t name = key.rfind('.');
  const size_t total =
      name == std::string_view::npos || name == 0 ? name : key.rfind('.', name - 1);
  if (total == std::string_view::npos || total == 0) return std::nullopt;
  std::string id(key.substr(0, total));
  SandboxKey out{pod ? PodSandbox(PodUid(std::move(id))) : PoolMember(std::move(id)), 0,
                 std::string(key.substr(name + 1))};
  const std::string_view digits = key.substr(total + 1, name - total - 1);
  const auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out.total);
  if (error != std::errc() || rest != digits.data() + digits.size()) return std::nullopt;
  return out;
}

std::string MakeProcessKey(std::string_view id) { return StrCat(kProcesses, id); }

std::optional<std::string> ProcessOfKey(std::string_view key) {
  if (!key.starts_with(kProcesses)) return std::nullopt;
  return std::string(key.substr(kProcesses.size()));
}

bool IsKeepersOwn(std::string_view key) {
  return key.starts_with(kLogs) || key.starts_with(kSandboxPrefix) ||
         key.starts_with(kMemberPrefix) || key.starts_with(kProcesses);
}

bool IsMirrored(std::string_view key) {
  if (key.starts_with(kProcesses)) return false;
  if (!IsLogKey(key)) return true;
  const auto log = ParseLogKey(key);
  return log && log->part == LogPart::kTerminal;
}

}  // namespace holdfast::runtime::keeper
