// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/api_client.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/cluster/connection_internal.h"
#include "agent/cluster/tls_internal.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kMostAtOnce = 4;
constexpr int kUnauthorized = 401;

}  // namespace

struct ApiClient::Call {
  Call(asio::io_context& io, ApiRequest r, Done d)
      : request(std::move(r)), done(std::move(d)), timer(io) {}

  const ApiRequest request;
  Done done;  // empty once it was called, or nobody waits any more
  asio::steady_timer timer;
  std::shared_ptr<Connection> connection;
};

ApiClient::ApiClient(asio::io_context& io, KubeConfig config, std::chrono::milliseconds limit)
    : io_(io), config_(std::make_shared<const KubeConfig>(std::move(config))), limit_(limit) {}

Result<std::unique_ptr<ApiClient>> ApiClient::Make(asio::io_context& io, KubeConfig config,
                                                   std::chrono::milliseconds limit) {
  if (config.exec) {
    return InvalidArgument(
        "users[].user.exec: a program that makes credentials is for the node's kubeconfig only");
  }
  RETURN_IF_ERROR(MakeTlsContext(config));
  RETURN_IF_ERROR(config.BearerToken());
  return std::unique_ptr<ApiClient>(new ApiClient(io, std::move(config), limit));
}

ApiClient::~ApiClient() {
  for (const CallPtr& call : running_) {
    call->done = nullptr;
    call->timer.cancel();
    if (call->connection) call->connection->Close();
  }
  for (const CallPtr& call : waiting_) {
    call->done = nullptr;
    call->timer.cancel();
  }
  for (const auto& connection : idle_) connection->Close();
}

void ApiClient::Send(ApiRequest request, Done done) {
  const auto call = std::make_shared<Call>(io_, std::move(request), std::move(done));
  call->timer.expires_after(limit_);
  call->timer.async_wait([this, call](const error_code& error) {
    if (error || !call->done) return;
    Finish(call, Error(Code::kDeadlineExceeded,
                       StrCat(config_->server, ": no answer within ", limit_.count(), " ms")));
  });
  waiting_.push_back(call);
  asio::post(io_, [this, call] {
    if (call->done) BeginNext();
  });
}

void ApiClient::BeginNext() {
  if (waiting_.empty() || running_.size() >= kMostAtOnce) return;
  const CallPtr call = waiting_.front();
  waiting_.pop_front();
  running_.push_back(call);
  if (idle_.empty()) return Open(call);
  call->connection = std::move(idle_.back());
  idle_.pop_back();
  Use(call, false);
}

void ApiClient::Open(const CallPtr& call) {
  auto context = MakeTlsContext(*config_);
  if (!context) return Finish(call, std::move(context.error()));
  call->connection = std::make_shared<Connection>(io_, std::move(*context), config_);
  call->connection->Open([this, call](const Result<void>& opened) {
    if (!call->done) return;
    if (!opened) return Finish(call, opened.error());
    Use(call, true);
  });
}

// The server may have ended a kept connection meanwhile: then a fresh one gets the request.
void ApiClient::Use(const CallPtr& call, bool fresh) {
  auto token = config_->BearerToken();
  if (!token) return Finish(call, std::move(token.error()));
  call->connection->Send(call->request, *token, [this, call, fresh](Result<ApiAnswer> answer) {
    if (!call->done) return;
    if (!answer && !fresh) return Open(call);
    Finish(call, std::move(answer));
  });
}

void ApiClient::Finish(const CallPtr& call, Result<ApiAnswer> answer) {
  call->timer.cancel();
  const Done done = std::exchange(call->done, nullptr);
  std::erase(running_, call);
  std::erase(waiting_, call);
  if (call->connection) {
    // Who is not let in comes again with the certificate of the moment.
    const bool keep = answer && answer->status != kUnauthorized && call->connection->usable();
    if (keep) {
      idle_.push_back(std::move(call->connection));
    } else {
      call->connection->Close();
    }
  }
  BeginNext();
  done(std::move(answer));
}

}  // namespace holdfast::agent
