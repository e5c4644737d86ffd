// SPDX-License-Identifier: Apache-2.0
// What is read for pod networks that CNI plugins make.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzCniConfig(std::string_view input);      // a .conflist or a .conf
void FuzzCniResult(std::string_view input);      // what a plugin's ADD writes
void FuzzCniAttachment(std::string_view input);  // the record of a pod's attachment

}  // namespace holdfast::fuzz
