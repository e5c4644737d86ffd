// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/fd_store.h"

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/common/paths.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr std::chrono::seconds kCopyLimit{2};

}  // namespace

Result<void> FdStore::Put(const std::string& key, Fds fds) {
  if (!IsValidId(key)) return InvalidArgument(StrCat("put: key \"", key, "\" is not valid"));
  if (fds.empty() || fds.size() > kMaxFdsPerKey) {
    return InvalidArgument(StrCat("put ", key, ": ", fds.size(), " descriptors"));
  }
  if (entries_.contains(key)) Drop(key);
  Fds& kept = entries_[key] = std::move(fds);
  if (hooks_.stored) hooks_.stored(key, kept);
  return {};
}

const FdStore::Fds* FdStore::Find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

void FdStore::Drop(const std::string& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  if (hooks_.dropping) hooks_.dropping(key);
  entries_.erase(it);
}

void FdStore::DropPrefix(const std::string& prefix) {
  for (const std::string& key : Keys(prefix)) Drop(key);
}

// The old name first: systemd leaves a descriptor out that it has under another one.
void FdStore::Rename(const std::string& prefix, const std::string& other) {
  for (const std::string& key : Keys(prefix)) {
    if (hooks_.dropping) hooks_.dropping(key);
    Fds fds = std::move(entries_.extract(key).mapped());
    // Valid like the one before it; one that has become too long is as good as gone.
    (void)Put(StrCat(other, std::string_view(key).substr(prefix.size())), std::move(fds));
  }
}

std::vector<std::string> FdStore::Keys(std::string_view prefix) const {
  std::vector<std::string> keys;
  for (auto it = entries_.lower_bound(std::string(prefix)); it != entries_.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    keys.push_back(it->first);
  }
  return keys;
}

bool FdStore::Serve(PacketServer& server, PacketServer::ConnectionId id, Message& message) {
  Decoder in(message.payload);
  const std::string key = in.Text();
  switch (message.type) {
    case MessageType::kPutQuiet:
      (void)Put(key, std::move(message.fds));  // nobody waits for an answer
      return true;
    case MessageType::kDropQuiet:
      Drop(key);
      return true;
    case MessageType::kRenameQuiet:
      if (const std::string other = in.Text(); IsValidId(key) && IsValidId(other)) {
        Rename(key, other);
        HOLDFAST_PAUSE_POINT("keeper.renamed");
      }
      return true;
    case MessageType::kPut:
      if (auto put = Put(key, std::move(message.fds)); !put) {
        server.Fail(id, put.error());
      } else {
        server.Reply(id, MessageType::kOk);
      }
      return true;
    case MessageType::kGet: {
      if (hooks_.missed && Find(key) == nullptr) hooks_.missed(key);
      const Fds* fds = Find(key);
      if (fds == nullptr) {
        server.Fail(id, NotFound(StrCat("get ", key, ": not kept here")));
      } else {
        server.Reply(id, MessageType::kOk, {}, Borrow(*fds));
      }
      return true;
    }
    case MessageType::kDrop:
      Drop(key);
      server.Reply(id, MessageType::kOk);
      return true;
    case MessageType::kDropPrefix:
      if (!key.empty()) DropPrefix(key);
      server.Reply(id, MessageType::kOk);
      return true;
    case MessageType::kListKeys: {
      auto list = ListToMemfd(Keys(key));
      if (!list) {
        server.Fail(id, list.error());
      } else {
        server.Reply(id, MessageType::kOk, {}, std::vector<int>{list->get()});
      }
      return true;
    }
    default:
      return false;
  }
}

Result<void> CopyKeys(const std::string& socket_path, bool (*wanted)(std::string_view key),
                      FdStore& store) {
  ASSIGN_OR_RETURN(Message list, Call(socket_path, MessageType::kListKeys,
                                      Encoder().Text("").Take(), {}, kCopyLimit));
  if (list.fds.empty()) return Internal("list keys: answer without a list");
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, ListFromMemfd(list.fds[0].get()));
  for (const std::string& key : keys) {
    if (!wanted(key) || store.Find(key) != nullptr) continue;
    auto got = Call(socket_path, MessageType::kGet, Encoder().Text(key).Take(), {}, kCopyLimit);
    if (!got && got.error().code() == Code::kNotFound) continue;  // dropped meanwhile
    if (!got) return std::move(got.error());
    RETURN_IF_ERROR(store.Put(key, std::move(got->fds)));
  }
  return {};
}

std::vector<int> Borrow(const FdStore::Fds& fds) {
  std::vector<int> numbers;
  numbers.reserve(fds.size());
  for (const UniqueFd& fd : fds) numbers.push_back(fd.get());
  return numbers;
}

}  // namespace holdfast::runtime::keeper
