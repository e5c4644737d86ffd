// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/servers.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <malloc.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "agent/api/grpc/server_core.h"
#include "agent/api/grpc/service.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::api {
namespace {

constexpr int kMaxReceivedMessage = (4 << 20) + (64 << 10);  // a manifest and its frame
constexpr int kMaxSentMessage = 64 << 20;                    // a list of all pods of a full node
constexpr int kMaxMetadata = 8 << 10;
constexpr size_t kMemoryQuota = 128ull << 20;
constexpr std::chrono::seconds kShutdownGrace{1};
// What gRPC may start of its own for a process that serves: timers, executors, pollers.
constexpr size_t kGrpcThreads = 10;
// Of these for a server, once the library itself has been begun.
constexpr size_t kServerThreads = 6;
// And open: an epoll, a wake-up and pipes for each of its loops.
constexpr size_t kGrpcDescriptors = 32;

// gRPC 1.51 goes on without a thread that it is refused, and hangs; without a descriptor for its
// loop it aborts. So it is not begun before there is room.
Result<void> TryDescriptors() {
  std::vector<UniqueFd> room;
  for (size_t i = 0; i < kGrpcDescriptors; ++i) {
    room.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!room.back()) return Error::FromErrno(errno, StrCat("descriptor ", i, " for gRPC"));
  }
  return {};
}

void SetLimits(grpc::ServerBuilder& builder, const ApiOptions& options) {
  builder.SetMaxReceiveMessageSize(kMaxReceivedMessage);
  builder.SetMaxSendMessageSize(kMaxSentMessage);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             static_cast<int>(options.streams_per_connection));
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadata);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(options.connection_idle.count()));
  // Reflection is the one service with threads of its own; it needs no more than one.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
}

}  // namespace

// Servers that come and go together, and all of gRPC with them: it ends with the last of its objects.
class Servers::Generation {
 public:
  Result<grpc::Server*> For(access::OperationSet permitted, ServerCore& core) {
    const auto found = served_.find(permitted);
    if (found != served_.end()) return found->second.server.get();
    RETURN_IF_ERROR(TryDescriptors());
    RETURN_IF_ERROR(core.options.have_threads(quota_ ? kServerThreads : kGrpcThreads));
    if (!quota_) quota_.emplace("holdfast-api").Resize(kMemoryQuota);
    Served served;
    served.service = std::make_unique<NodeAgentService>(core, permitted);
    grpc::ServerBuilder builder;
    builder.RegisterService(served.service.get());
    builder.SetResourceQuota(*quota_);
    SetLimits(builder, core.options);
    served.server = builder.BuildAndStart();
    if (!served.server) return Internal("start gRPC server: refused");
    if (auto* health = served.server->GetHealthCheckService()) {
      health->SetServingStatus("holdfast.v1.NodeAgent", true);
    }
    return served_.emplace(permitted, std::move(served)).first->second.server.get();
  }

  // Returns when every call has ended; those that still go on after `grace` are cancelled.
  void Shutdown(std::chrono::seconds grace) {
    for (auto& [permitted, served] : served_) {
      served.server->Shutdown(std::chrono::system_clock::now() + grace);
    }
  }

 private:
  struct Served {
    std::unique_ptr<NodeAgentService> service;
    std::unique_ptr<grpc::Server> server;
  };

  std::optional<grpc::ResourceQuota> quota_;  // the first of gRPC's objects
  std::map<access::OperationSet, Served> served_;
};

Servers::Servers(ServerCore& core)
    : core_(core), ending_({.name = "api-rest", .threads = 1, .queued = 0}) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
}

Servers::~Servers() = default;

Result<void> Servers::Try(access::OperationSet permitted) {
  RETURN_IF_ERROR(For(permitted));
  return {};
}

Result<void> Servers::Serve(UniqueFd connection, access::OperationSet permitted) {
  ASSIGN_OR_RETURN(grpc::Server* const server, For(permitted));
  grpc::AddInsecureChannelFromFd(server, connection.Release());
  return {};
}

bool Servers::Rest() {
  if (!running_) return true;
  // A call that goes on without its client holds its server up; the next one would need threads of its own beside it.
  if (core_.requests.IsBusy() || core_.log_readers.IsBusy() || core_.transfers.IsBusy()) {
    return false;
  }
  // Whoever holds it last destroys it, which is to be the thread that has the time.
  const auto last = std::make_shared<std::unique_ptr<Generation>>(std::move(running_));
  const auto taken = ending_.TryPost([last] {
    (*last)->Shutdown(std::chrono::seconds(0));
    last->reset();
    (void)::malloc_trim(0);  // it says whether there was any
  });
  if (!taken) running_ = std::move(*last);
  return taken.has_value();
}

Result<grpc::Server*> Servers::For(access::OperationSet permitted) {
  if (!running_) running_ = std::make_unique<Generation>();
  return running_->For(permitted, core_);
}

void Servers::Shutdown() {
  if (running_) running_->Shutdown(kShutdownGrace);
}

}  // namespace holdfast::agent::api
