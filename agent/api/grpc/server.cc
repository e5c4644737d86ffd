// SPDX-License-Identifier: Apache-2.0
#include "agent/api/grpc/server.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "agent/access/roles.h"
#include "agent/api/grpc/acceptor.h"
#include "agent/api/grpc/listen.h"
#include "agent/api/grpc/server_core.h"
#include "agent/api/grpc/servers.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {

using api::Acceptor;
using api::ApiSocket;
using api::ServerCore;
using api::Servers;

namespace {

constexpr size_t kMaxGroupFile = 4ull << 20;

Result<access::RoleTable> LoadRoles(const ApiOptions& options, const model::Instance& instance) {
  auto text = sys::ReadFileAt(AT_FDCWD, options.group_file, kMaxGroupFile);
  // A machine without the file has root only.
  if (!text && text.error().code() == Code::kNotFound) text = std::string();
  if (!text) return std::move(text.error()).Wrap("read groups");
  return access::ReadRoleTable(*text, instance.api_group, ::geteuid());
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
    core_.peer_of = [this](const std::string& peer) { return acceptor_->Peers().Find(peer); };
    RETURN_IF_ERROR(servers_->Try(access::OperationSet::All()));
    auto acceptor = Acceptor::Create(
        socket_.fd(), std::move(roles),
        api::ConnectionLimits{.per_uid = core_.options.connections_per_uid,
                              .reserve = core_.options.connection_reserve,
                              .streams = core_.options.streams_per_connection,
                              .handshake = core_.options.handshake_time,
                              .rest = core_.options.rest},
        [this](UniqueFd connection, access::OperationSet permitted) {
          return servers_->Serve(std::move(connection), permitted);
        },
        [this](const access::Peer& peer, const std::string& reason) { AuditRefused(peer, reason); },
        // It looks at the whole heap: not on the acceptor's thread.
        [this] { core_.requests.Post([] { (void)::malloc_trim(0); }); },
        [this] { return servers_->Rest(); });
    if (!acceptor) return std::move(acceptor.error());
    acceptor_ = std::move(*acceptor);
    return acceptor_->Start();
  }

  // 1. No new connections. 2. Sessions end, calls are cancelled. 3. Workers are joined. 4. What
  // the servers had to say last goes to the clients.
  ~Impl() {
    if (acceptor_) acceptor_->StopAccepting();
    core_.sessions.EndAll();
    servers_->Shutdown();
    core_.sessions.Finish();
    core_.transfers.Finish();
    core_.log_readers.Finish();
    core_.requests.Finish();
    servers_.reset();
    if (acceptor_) acceptor_->Stop();
  }

 private:
  void AuditRefused(const access::Peer& peer, const std::string& reason) {
    access::AuditEntry entry{
        .stage = "refused", .uid = peer.uid, .pid = peer.pid, .method = "connect"};
    entry.outcome = reason;
    AuditRefusal(core_, std::move(entry));
  }

  ServerCore core_;
  ApiSocket socket_;
  std::optional<Servers> servers_{core_};
  std::unique_ptr<Acceptor> acceptor_;
};

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ApiServer::~ApiServer() = default;

Result<std::unique_ptr<ApiServer>> ApiServer::Start(NodeOperations& node,
                                                    const model::Instance& instance,
                                                    const Clock& clock, access::AuditLog& audit,
                                                    ApiOptions options) {
  if (options.socket_path.empty()) options.socket_path = instance.ApiSocket();
  ASSIGN_OR_RETURN(access::RoleTable roles, LoadRoles(options, instance));
  ASSIGN_OR_RETURN(ApiSocket socket, ApiSocket::Listen(options.socket_path, roles.socket_group));
  auto impl =
      std::make_unique<Impl>(node, instance, clock, audit, std::move(options), std::move(socket));
  RETURN_IF_ERROR(impl->Start(std::move(roles)));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

}  // namespace holdfast::agent
