// SPDX-License-Identifier: Apache-2.0
// FdStore: descriptors kept by key, and its verbs on the wire. Holder and launcher each have one:
// what is put goes to both, so that either may die. Single-threaded.
//
// Keys:  log.<id>.1 .2   read ends of a container's log pipes (second owner: the logger)
//        log.<id>.tty    a container's pty master (second owners: logger and launcher)
//        log.<id>.relay  both ends of the pipe between a pty and its log (second owner: the logger)
//        ns.<uid>.<total>.<name>  namespaces and /dev/shm of a pod (second owner: the launcher); a
//                        sandbox is there only when all `total` of its keys are
//        pid.<id>        pidfd of a started process, holder only (derived again from start records)
//        anything else   the agent's own (second owner: the launcher)
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/server.h"

namespace holdfast::runtime::keeper {

inline constexpr char kLogKeyPrefix[] = "log.";
inline constexpr char kNamespaceKeyPrefix[] = "ns.";
inline constexpr char kPidKeyPrefix[] = "pid.";

class FdStore {
 public:
  using Fds = std::vector<UniqueFd>;
  // Called after a key got descriptors (for the systemd store, for moving them to high numbers) and
  // before a key loses them.
  struct Hooks {
    std::function<void(const std::string& key, Fds& fds)> stored;
    std::function<void(const std::string& key)> dropping;
  };

  explicit FdStore(Hooks hooks) : hooks_(std::move(hooks)) {}

  Result<void> Put(const std::string& key, Fds fds);
  const Fds* Find(const std::string& key) const;
  void Drop(const std::string& key);
  void DropPrefix(const std::string& prefix);
  std::vector<std::string> Keys(std::string_view prefix = "") const;
  const std::map<std::string, Fds>& entries() const { return entries_; }

  // Serves the store's message types; false for any other type.
  bool Serve(PacketServer& server, PacketServer::ConnectionId id, Message& message);

 private:
  Hooks hooks_;
  std::map<std::string, Fds> entries_;
};

struct SandboxKey {
  PodUid uid;
  size_t total = 0;
  std::string name;
};
std::string SandboxPrefix(const PodUid& uid);  // "ns.<uid>."
std::string MakeSandboxKey(const SandboxKey& key);
std::optional<SandboxKey> ParseSandboxKey(std::string_view key);

// True for what the launcher, the second owner, keeps: all but the read ends of log pipes and
// pidfds.
bool IsMirrored(std::string_view key);
bool IsLogKey(std::string_view key);

// Copies the keys that `wanted` accepts from the process at `socket_path` into `store`, leaving
// keys alone that are there already. Blocking.
Result<void> CopyKeys(const std::string& socket_path, bool (*wanted)(std::string_view key),
                      FdStore& store);

std::vector<int> Borrow(const FdStore::Fds& fds);

}  // namespace holdfast::runtime::keeper
