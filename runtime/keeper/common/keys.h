// SPDX-License-Identifier: Apache-2.0
// The keys under which descriptors are kept: the one place that puts them together and cuts them
// up. Pure.
//
//   log.<id>.1 .2   read ends of a container's log pipes (owners: holder and logger)
//   log.<id>.tty    a container's pty master (owners: holder, logger and launcher)
//   log.<id>.relay  both ends of the pipe between a pty and its log (owners: holder and logger)
//   ns.<uid>.<total>.<name>  namespaces and /dev/shm of a pod (owners: holder and launcher); a
//                   sandbox is there only when all `total` of its keys are
//   pool.<id>.<total>.<name>  the same of a sandbox that lies ready for a pod to come, a member of
//                   the agent's pool (same owners)
//   pid.<id>        pidfd of a started process (owner: holder; derived again from start records)
//   anything else   the agent's own (owners: holder and launcher)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/ids.h"

namespace holdfast::runtime::keeper {

enum class LogPart : uint8_t { kStdout, kStderr, kTerminal, kRelay };

struct LogKey {
  std::string id;
  LogPart part = LogPart::kStdout;
  bool operator==(const LogKey&) const = default;
};
std::string MakeLogKey(std::string_view id, LogPart part);
std::string LogPrefix(std::string_view id);  // of all of a container's
std::optional<LogKey> ParseLogKey(std::string_view key);
bool IsLogKey(std::string_view key);

// Whose a sandbox is.
struct SandboxName {
  enum class Kind : uint8_t { kPod, kMember };
  Kind kind = Kind::kPod;
  std::string id;  // the pod's uid, the member's id
  bool operator==(const SandboxName&) const = default;
};
SandboxName PodSandbox(const PodUid& uid);
SandboxName PoolMember(std::string id);

struct SandboxKey {
  SandboxName sandbox;
  size_t total = 0;
  std::string name;
};
std::string SandboxPrefix(const SandboxName& sandbox);  // of all of its keys
std::string MakeSandboxKey(const SandboxKey& key);
std::optional<SandboxKey> ParseSandboxKey(std::string_view key);
extern const char kSandboxPrefix[];  // of all pods'
extern const char kMemberPrefix[];   // of all members'

std::string MakeProcessKey(std::string_view id);
// The id of a process's key, nullopt for any other key.
std::optional<std::string> ProcessOfKey(std::string_view key);

// True for the kinds above, which nobody but the keeper may put.
bool IsKeepersOwn(std::string_view key);
// True for what the launcher, the second owner, keeps: all but the read ends of log pipes and
// pidfds.
bool IsMirrored(std::string_view key);

}  // namespace holdfast::runtime::keeper
