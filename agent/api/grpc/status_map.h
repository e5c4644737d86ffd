// SPDX-License-Identifier: Apache-2.0
// Error -> grpc::Status: the one place where our codes become gRPC's.
#pragma once

#include <grpcpp/support/status.h>

#include "holdfast/base/error.h"

namespace holdfast::agent::api {

grpc::StatusCode StatusCodeOf(Code code);

// The message is passed on; text that is not UTF-8 or longer than 8 KiB is cut, since it travels in
// an HTTP/2 trailer.
// A full disk is INTERNAL, like a broken one: RESOURCE_EXHAUSTED is read as "too many requests".
grpc::Status ToStatus(const Error& error);

}  // namespace holdfast::agent::api
