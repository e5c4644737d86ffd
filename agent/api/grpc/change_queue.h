// SPDX-License-Identifier: Apache-2.0
// ChangeQueue: what one watcher has yet to be told. Changes of one object that were not taken yet
// are merged, so the queue is bounded by the number of objects, not by the rate of changes. Not
// thread-safe; its owner locks.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace holdfast::agent::api {

enum class Change : uint8_t { kAdded, kModified, kDeleted, kBookmark };

template <class Ptr>
class ChangeQueue {
 public:
  struct Item {
    Change change;
    std::string key;
    Ptr object;
  };

  explicit ChangeQueue(size_t limit) : limit_(limit) {}

  // The object is now `object`. False: more than the limit is pending; the watcher is to be ended.
  bool Set(const std::string& key, Ptr object) {
    const auto pending = pending_.find(key);
    if (pending == pending_.end()) {
      return Append(told_.contains(key) ? Change::kModified : Change::kAdded, key,
                    std::move(object));
    }
    Item& item = *pending->second;
    if (item.change == Change::kDeleted)
      item.change = Change::kModified;  // back before it was told
    item.object = std::move(object);
    return true;
  }

  // The object is gone (or no longer matches); `object` is how it was last.
  bool Remove(const std::string& key, Ptr object) {
    const auto pending = pending_.find(key);
    if (pending == pending_.end()) {
      if (!told_.contains(key)) return true;  // the watcher never knew it
      return Append(Change::kDeleted, key, std::move(object));
    }
    if (pending->second->change == Change::kAdded) {  // came and went untold
      items_.erase(pending->second);
      pending_.erase(pending);
      return true;
    }
    pending->second->change = Change::kDeleted;
    pending->second->object = std::move(object);
    return true;
  }

  // Everything from before is in front of it.
  void Bookmark() { items_.push_back({Change::kBookmark, {}, {}}); }

  std::optional<Item> Take() {
    if (items_.empty()) return std::nullopt;
    Item item = std::move(items_.front());
    items_.pop_front();
    if (item.change == Change::kBookmark) return item;
    pending_.erase(item.key);
    if (item.change == Change::kDeleted) {
      told_.erase(item.key);
    } else {
      told_.insert(item.key);
    }
    return item;
  }

  size_t size() const { return items_.size(); }

 private:
  bool Append(Change change, const std::string& key, Ptr object) {
    if (items_.size() >= limit_) return false;
    items_.push_back({change, key, std::move(object)});
    pending_.emplace(key, std::prev(items_.end()));
    return true;
  }

  const size_t limit_;
  std::list<Item> items_;
  std::unordered_map<std::string, typename std::list<Item>::iterator> pending_;
  std::unordered_set<std::string> told_;  // keys the watcher knows to exist
};

}  // namespace holdfast::agent::api
