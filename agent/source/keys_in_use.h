// SPDX-License-Identifier: Apache-2.0
// How many have each of the keys that only one should have; so that whether any has two is known without looking at all.
// Single-thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace holdfast::agent {

class KeysInUse {
 public:
  // One who had the keys `before`, all of which were put in by an earlier call, has `after` now.
  void Exchange(const std::vector<std::string>& before, const std::vector<std::string>& after) {
    for (const std::string& key : before) {
      const auto used = users_.find(key);
      if (used->second == 2) --doubled_;
      if (--used->second == 0) users_.erase(used);
    }
    for (const std::string& key : after) {
      if (++users_[key] == 2) ++doubled_;
    }
  }
  bool AreAllDifferent() const { return doubled_ == 0; }

 private:
  std::map<std::string, size_t> users_;
  size_t doubled_ = 0;  // keys that several have
};

}  // namespace holdfast::agent
