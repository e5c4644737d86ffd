// SPDX-License-Identifier: Apache-2.0
// FdStore: descriptors kept by key, and its verbs on the wire. Holder and launcher each have one:
// what is put goes to both, so that either may die. Single-threaded.
// common/keys.h has the keys.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/keeper/process/server.h"

namespace holdfast::runtime::keeper {

class FdStore {
 public:
  using Fds = std::vector<UniqueFd>;
  // Called after a key got descriptors (for the systemd store, for moving them to high numbers),
  // before a key loses them, and before it is told that one is not kept here: who finds it puts it.
  struct Hooks {
    std::function<void(const std::string& key, Fds& fds)> stored;
    std::function<void(const std::string& key)> dropping;
    std::function<void(const std::string& key)> missed = {};
  };

  explicit FdStore(Hooks hooks) : hooks_(std::move(hooks)) {}

  Result<void> Put(const std::string& key, Fds fds);
  const Fds* Find(const std::string& key) const;
  void Drop(const std::string& key);
  void DropPrefix(const std::string& prefix);
  // Every key that begins with `prefix` begins with `other` from now on, in the place of one that
  // was called so.
  void Rename(const std::string& prefix, const std::string& other);
  std::vector<std::string> Keys(std::string_view prefix = "") const;
  const std::map<std::string, Fds>& entries() const { return entries_; }

  // Serves the store's message types; false for any other type.
  bool Serve(PacketServer& server, PacketServer::ConnectionId id, Message& message);

 private:
  Hooks hooks_;
  std::map<std::string, Fds> entries_;
};

// Copies the keys that `wanted` accepts from the process at `socket_path` into `store`, leaving
// keys alone that are there already. Blocking.
Result<void> CopyKeys(const std::string& socket_path, bool (*wanted)(std::string_view key),
                      FdStore& store);

std::vector<int> Borrow(const FdStore::Fds& fds);

}  // namespace holdfast::runtime::keeper
