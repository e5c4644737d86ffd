// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/status_map.h"

#include <cerrno>
#include <string>

namespace holdfast::agent::api {
namespace {

// gRPC's peers refuse metadata above 8 KiB by default; percent-encoding may triple a byte.
constexpr size_t kMaxMessageBytes = 6 * 1024;

}  // namespace

grpc::StatusCode StatusCodeOf(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Code::kUnsupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case Code::kConflict:
      return grpc::StatusCode::ABORTED;
    case Code::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kDeadlineExceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kInternal:
      return grpc::StatusCode::INTERNAL;
  }
  return grpc::StatusCode::INTERNAL;
}

grpc::Status ToStatus(const Error& error) {
  std::string message = error.message();
  if (message.size() > kMaxMessageBytes) {
    size_t end = kMaxMessageBytes;
    // Not in the middle of a UTF-8 sequence.
    while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0u) == 0x80u) --end;
    message.resize(end);
    message += " … (cut)";
  }
  const bool disk_is_full = error.sys_errno() == ENOSPC || error.sys_errno() == EDQUOT;
  return {disk_is_full ? grpc::StatusCode::INTERNAL : StatusCodeOf(error.code()), message};
}

}  // namespace holdfast::agent::api
