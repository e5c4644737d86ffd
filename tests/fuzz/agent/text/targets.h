// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the agent beside Kubernetes' objects (../kube): texts that containers, users,
// API servers and the disk give it.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast::fuzz {

void FuzzCriLog(std::string_view input);         // lines of a container's log file
void FuzzLabelSelector(std::string_view input);  // -l
void FuzzKubeConfig(std::string_view input);
void FuzzPodRecord(std::string_view input);      // record.json
void FuzzApiAnswer(std::string_view input);      // an API server's answer about a Lease
void FuzzManagedFields(std::string_view input);  // an object of a watch, before it is parsed

}  // namespace holdfast::fuzz
