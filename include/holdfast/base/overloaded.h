// SPDX-License-Identifier: Apache-2.0
// One visitor out of several lambdas, for std::visit.
#pragma once

namespace holdfast {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace holdfast
