// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/server.h"

#include <fcntl.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "agent/access/roles.h"
#include "agent/api/grpc/acceptor.h"
#include "agent/api/grpc/listen.h"
#include "agent/api/grpc/server_core.h"
#include "agent/api/grpc/service.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {

using api::Acceptor;
using api::ApiSocket;
using api::NodeAgentService;
using api::ServerCore;

namespace {

constexpr size_t kMaxGroupFile = 4ull << 20;
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

// One gRPC server for all callers with the same permissions: the permission belongs to the server
// object, so nothing that a caller sends can change it.
struct ServedSet {
  std::unique_ptr<NodeAgentService> service;
  std::unique_ptr<grpc::Server> server;
};

Result<access::RoleTable> LoadRoles(const ApiOptions& options, const model::Instance& instance) {
  auto text = sys::ReadFileAt(AT_FDCWD, options.group_file, kMaxGroupFile);
  // A machine without the file has root only.
  if (!text && text.error().code() == Code::kNotFound) text = std::string();
  if (!text) return std::move(text.error()).Wrap("read groups");
  return access::ReadRoleTable(*text, instance.api_group, ::geteuid());
}

// gRPC 1.51 goes on without a thread that it is refused, and hangs; without a descriptor for its
// loop it aborts. So it is not begun before there is room.
Result<void> TryWhatGrpcNeeds(size_t threads) {
  std::vector<UniqueFd> room;
  for (size_t i = 0; i < kGrpcDescriptors; ++i) {
    room.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!room.back()) return Error::FromErrno(errno, StrCat("descriptor ", i, " for gRPC"));
  }
  return sys::TryThreads(threads);
}

}  // namespace

class ApiServer::Impl {
 public:
  Impl(NodeOperations& node, const model::Instance& instance, const Clock& clock,
       access::AuditLog& audit, ApiOptions options, ApiSocket socket)
      : core_(node, instance, clock, audit, std::move(options)), socket_(std::move(socket)) {}

  Result<void> Start(access::RoleTable roles) {
    RETURN_IF_ERROR(core_.sessions.Start());
    RETURN_IF_ERROR(core_.requests.Start());
    RETURN_IF_ERROR(core_.log_readers.Start());
    core_.peer_of = [this](const std::string& peer) { return acceptor_->PeerOf(peer); };
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    quota_.Resize(kMemoryQuota);
    // Root's server is made at once, so that a server that cannot be made fails the start.
    RETURN_IF_ERROR(ServerFor(access::OperationSet::All()));
    auto acceptor = Acceptor::Create(
        socket_.fd(), std::move(roles),
        api::ConnectionLimits{.per_uid = core_.options.connections_per_uid,
                              .reserve = core_.options.connection_reserve,
                              .streams = core_.options.streams_per_connection,
                              .handshake = core_.options.handshake_time},
        [this](UniqueFd connection, access::OperationSet permitted) {
          return Serve(std::move(connection), permitted);
        },
        [this](const access::Peer& peer, const std::string& reason) { AuditRefused(peer, reason); },
        // It looks at the whole heap: not on the acceptor's thread.
        [this] { core_.requests.Post([] { (void)::malloc_trim(0); }); });
    if (!acceptor) return std::move(acceptor.error());
    acceptor_ = std::move(*acceptor);
    return acceptor_->Start();
  }

  // 1. No new connections. 2. Sessions end, calls are cancelled. 3. Workers are joined. 4. What
  // the servers had to say last goes to the clients.
  ~Impl() {
    if (acceptor_) acceptor_->StopAccepting();
    core_.sessions.EndAll();
    for (auto& [permitted, served] : servers_) {
      served.server->Shutdown(std::chrono::system_clock::now() + kShutdownGrace);
    }
    core_.sessions.Finish();
    core_.transfers.Finish();
    core_.log_readers.Finish();
    core_.requests.Finish();
    servers_.clear();
    if (acceptor_) acceptor_->Stop();
  }

 private:
  // On the acceptor's thread.
  Result<void> Serve(UniqueFd connection, access::OperationSet permitted) {
    ASSIGN_OR_RETURN(grpc::Server* const server, ServerFor(permitted));
    grpc::AddInsecureChannelFromFd(server, connection.Release());
    return {};
  }

  // On the acceptor's thread, and once before it runs.
  Result<grpc::Server*> ServerFor(access::OperationSet permitted) {
    const auto found = servers_.find(permitted);
    if (found != servers_.end()) return found->second.server.get();
    // Nor another server of it.
    RETURN_IF_ERROR(TryWhatGrpcNeeds(kServerThreads));
    ServedSet served;
    served.service = std::make_unique<NodeAgentService>(core_, permitted);
    grpc::ServerBuilder builder;
    builder.RegisterService(served.service.get());
    builder.SetResourceQuota(quota_);
    builder.SetMaxReceiveMessageSize(kMaxReceivedMessage);
    builder.SetMaxSendMessageSize(kMaxSentMessage);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                               static_cast<int>(core_.options.streams_per_connection));
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadata);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                               static_cast<int>(core_.options.connection_idle.count()));
    // Reflection is the one service with threads of its own; it needs no more than one.
    builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
    builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
    served.server = builder.BuildAndStart();
    if (!served.server) return Internal("start gRPC server: refused");
    if (auto* health = served.server->GetHealthCheckService()) {
      health->SetServingStatus("holdfast.v1.NodeAgent", true);
    }
    return servers_.emplace(permitted, std::move(served)).first->second.server.get();
  }

  void AuditRefused(const access::Peer& peer, const std::string& reason) {
    access::AuditEntry entry{
        .stage = "refused", .uid = peer.uid, .pid = peer.pid, .method = "connect"};
    entry.outcome = reason;
    AuditRefusal(core_, std::move(entry));
  }

  ServerCore core_;
  ApiSocket socket_;
  grpc::ResourceQuota quota_{"holdfast-api"};
  std::map<access::OperationSet, ServedSet> servers_;
  std::unique_ptr<Acceptor> acceptor_;
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::Start(NodeOperations& node,
                                                    const model::Instance& instance,
                                                    const Clock& clock, access::AuditLog& audit,
                                                    ApiOptions options) {
  RETURN_IF_ERROR(TryWhatGrpcNeeds(kGrpcThreads));
  if (options.socket_path.empty()) options.socket_path = instance.ApiSocket();
  ASSIGN_OR_RETURN(access::RoleTable roles, LoadRoles(options, instance));
  ASSIGN_OR_RETURN(ApiSocket socket, ApiSocket::Listen(options.socket_path, roles.socket_group));
  auto impl =
      std::make_unique<Impl>(node, instance, clock, audit, std::move(options), std::move(socket));
  RETURN_IF_ERROR(impl->Start(std::move(roles)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

}  // namespace holdfast::agent
