// SPDX-License-Identifier: Apache-2.0
// What is fuzzed of the Kubernetes codec. Each takes any input; it aborts when a promise is broken:
// what was read and printed is read again as the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace holdfast::agent::kube::fuzz {

void FuzzManifest(std::string_view input);  // reader, defaults, validation, YAML and JSON printing
void FuzzEnvelope(std::string_view input);  // protobuf in the API server's envelope
void FuzzQuantity(std::string_view input);  // quantities, times, durations, base64

}  // namespace holdfast::agent::kube::fuzz
