// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace holdfast::agent {

inline constexpr char kVersion[] = HOLDFAST_VERSION;

}  // namespace holdfast::agent
