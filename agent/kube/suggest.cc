// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/suggest.h"

#include <algorithm>
#include <numeric>

#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

// How many letters must be changed, added, removed or swapped with their neighbour; a difference
// in case alone costs nothing.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    row[0] = i + 1;
    for (size_t k = 0; k < b.size(); ++k) {
      const size_t change = ToLower(a[i]) == ToLower(b[k]) ? 0 : 1;
      row[k + 1] = std::min({above[k] + change, above[k + 1] + 1, row[k] + 1});
      const bool swapped = i > 0 && k > 0 && ToLower(a[i]) == ToLower(b[k - 1]) &&
                           ToLower(a[i - 1]) == ToLower(b[k]);
      if (swapped) row[k + 1] = std::min(row[k + 1], before[k - 1] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string DidYouMean(std::string_view written, const std::vector<std::string_view>& names) {
  constexpr size_t kLongestName = 64;
  if (written.empty() || written.size() > kLongestName) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, written.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t distance = Distance(written, name);
    if (distance < best_distance) best = name, best_distance = distance;
  }
  return best.empty() ? "" : StrCat(" (did you mean \"", best, "\"?)");
}

}  // namespace holdfast::agent::kube
