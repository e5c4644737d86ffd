// SPDX-License-Identifier: Apache-2.0
// Cuts metadata.managedFields, often the larger half of an object, out of an envelope before it is parsed. Pure;
// thread-safe. The bytes are untrusted. Source: proto/k8s/meta/v1/meta.proto, protobuf's encoding.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::agent {

enum class EnvelopeHolds : uint8_t { kObject, kList };

// The same envelope without them. What is no envelope, or does not read as protobuf down to there, comes back as it is:
// whoever parses it says what is wrong with it.
std::string WithoutManagedFields(std::string_view envelope, EnvelopeHolds holds);

}  // namespace holdfast::agent
