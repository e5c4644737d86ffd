// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/child.h"

#include "runtime/launch/protocol.h"

namespace holdfast::runtime {

void Child::Warn(const std::string& text) { ReportWarning(socket_, text); }

}  // namespace holdfast::runtime
