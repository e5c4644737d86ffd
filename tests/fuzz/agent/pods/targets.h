// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of what a pod is made from and asked: texts that containers, the node and the disk give it.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzEnvFile(std::string_view input);        // the name, and behind it what a container wrote
void FuzzProbeRedirect(std::string_view input);  // where a container's answers lead, a line each
void FuzzResolvConf(std::string_view input);     // the node's
void FuzzKeptInputs(std::string_view input);     // inputs.json

}  // namespace holdfast::fuzz
