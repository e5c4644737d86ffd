// SPDX-License-Identifier: Apache-2.0
// FieldError: what is wrong with one field of an object, worded as Kubernetes words it. Value type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::kube {

struct FieldError {
  enum class Type : uint8_t {
    kRequired,
    kInvalid,
    kDuplicate,
    kNotSupported,
    kForbidden,
    kTooLong,
    kTooMany,
    kNotFound,
  };

  Type type = Type::kInvalid;
  std::string path;    // "spec.containers[0].name"
  std::string value;   // as shown: quoted text, number, …; empty where the type shows none
  std::string detail;  // may be empty

  // `Invalid value: "X": a lowercase RFC 1123 label must consist of …`
  std::string Message() const;
  // The path in front of it.
  std::string ToString() const;
  bool operator==(const FieldError&) const = default;
};

using FieldErrors = std::vector<FieldError>;

}  // namespace holdfast::agent::kube
