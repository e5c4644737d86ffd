// SPDX-License-Identifier: Apache-2.0
// Maps of what holds until some time, of which there may be so many at most. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

namespace holdfast {

// Takes away what is over, and, where `most` are left, the one that is over first: there is room for one more.
template <class Key, class Value, class Time>
void MakeRoom(std::map<Key, Value>& kept, size_t most, Time now, Time Value::* until) {
  const auto until_of = [until](const auto& entry) { return entry.second.*until; };
  std::erase_if(kept, [&](const auto& entry) { return until_of(entry) <= now; });
  if (kept.size() >= most) kept.erase(std::ranges::min_element(kept, {}, until_of));
}

}  // namespace holdfast
