// SPDX-License-Identifier: Apache-2.0
// The names of gRPC's status codes as Go prints them, who knows no gRPC included. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "holdfast/base/strings.h"

namespace holdfast {

// "Unavailable"; of a number that is no code "Code(99)".
inline std::string GrpcCodeName(size_t code) {
  constexpr std::array kNames = {
      "OK",       "Canceled",       "Unknown",          "InvalidArgument",   "DeadlineExceeded",
      "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
      "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
      "DataLoss", "Unauthenticated"};
  return code < kNames.size() ? std::string(kNames[code]) : StrCat("Code(", code, ")");
}

}  // namespace holdfast
