// SPDX-License-Identifier: Apache-2.0
// Guarded: callbacks for an Api that do nothing once their object is gone or was stopped, and keep it while they run:
// whoever is called may end it.
#pragma once

#include <memory>
#include <utility>

namespace holdfast::agent {

// Calls `method` of what `weak` names unless that stopped().
template <class T, class Method>
auto Guarded(std::weak_ptr<T> weak, Method method) {
  return [weak = std::move(weak), method](auto&&... args) {
    const auto self = weak.lock();
    if (self && !self->stopped()) ((*self).*method)(std::forward<decltype(args)>(args)...);
  };
}

}  // namespace holdfast::agent
