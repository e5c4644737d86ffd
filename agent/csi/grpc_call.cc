// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/grpc_call.h"

#include "holdfast/base/grpc_code.h"

namespace holdfast::agent {
namespace {

// A plugin's words go into an event.
constexpr size_t kMostOfAText = 1024;
constexpr int kMostOfAnAnswer = 1 << 20;

Code CodeOfCall(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::NOT_FOUND:
      return Code::kNotFound;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
      return Code::kInvalidArgument;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return Code::kConflict;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return Code::kResourceExhausted;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Code::kDeadlineExceeded;
    case grpc::StatusCode::UNIMPLEMENTED:
      return Code::kUnsupported;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::ABORTED:  // another call for the volume is under way
      return Code::kUnavailable;
    default:
      return Code::kInternal;
  }
}

}  // namespace

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
  grpc::ChannelArguments arguments;
  // A proxy of the environment is for networks; and each plugin has connections of its own.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(kMostOfAnAnswer);
  return grpc::CreateCustomChannel("unix://" + socket, grpc::InsecureChannelCredentials(),
                                   arguments);
}

Error ErrorOfCall(const grpc::Status& status) {
  return {CodeOfCall(status.error_code()),
          StrCat("rpc error: code = ", GrpcCodeName(static_cast<size_t>(status.error_code())),
                 " desc = ", status.error_message().substr(0, kMostOfAText))};
}

}  // namespace holdfast::agent
