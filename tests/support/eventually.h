// SPDX-License-Identifier: Apache-2.0
// For what happens in its own time.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace holdfast::test_support {

// Asks until `holds`; false when it still does not after the patience, which only guards against
// hanging.
inline bool Eventually(const std::function<bool()>& holds,
                       std::chrono::seconds patience = std::chrono::seconds(20)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace holdfast::test_support
