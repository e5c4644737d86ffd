// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/cli/port_forwarder.h"

#include <grpcpp/grpcpp.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>

#include "agent/cli/out.h"
#include "agent/cli/table.h"
#include "agent/kube/pod_status.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace asio = boost::asio;
namespace core = ::k8s::io::api::core::v1;
using tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptAgain{200};  // after a failure: no descriptor, say

// Shared with gRPC's threads, which may still be about to leave it when everything is over.
using LoopPtr = std::shared_ptr<asio::io_context>;

template <class Work>
void PostTo(LoopPtr io, Work work) {
  asio::post(*io, std::move(work));
}

// One connection and its call. gRPC's threads only hand over what happened; everything else is on the loop.
class ForwardedConnection final
    : public grpc::ClientBidiReactor<v1::PortForwardRequest, v1::PortForwardResponse>,
      public std::enable_shared_from_this<ForwardedConnection> {
 public:
  ForwardedConnection(LoopPtr io, tcp::socket socket, const core::Pod& pod, ForwardedPort port)
      : io_(std::move(io)),
        busy_(asio::make_work_guard(*io_)),
        socket_(std::move(socket)),
        port_(port) {
    auto& start = *request_.mutable_start();
    start.set_namespace_(pod.metadata().namespace_());
    start.set_pod(pod.metadata().name());
    start.set_port(port.remote);
  }

  void Start(v1::NodeAgent::Stub& stub) {
    self_ = shared_from_this();
    stub.async()->PortForward(&context_, this);
    AddHold();  // until nothing more is begun from outside of gRPC's callbacks
    StartWrite(&request_);
    StartRead(&response_);
    StartCall();
  }

  void GiveUp() { context_.TryCancel(); }

  // ---- gRPC's threads --------------------------------------------------------------------------

  void OnWriteDone(bool ok) override {
    PostTo(io_, [self = shared_from_this(), ok] {
      if (ok) self->ReadSocket();
    });
  }
  void OnReadDone(bool ok) override {
    PostTo(io_, [self = shared_from_this(), ok] { self->Received(ok); });
  }
  void OnDone(const grpc::Status& status) override {
    PostTo(io_, [self = std::move(self_), status] { self->Over(status); });
  }

 private:
  void ReadSocket() {
    if (over_) return;
    socket_.async_read_some(asio::buffer(bytes_),
                            [self = shared_from_this()](const auto& error, size_t size) {
                              if (self->over_) return;
                              if (error == asio::error::eof) return self->StartWritesDone();
                              if (error) return self->GiveUp();
                              self->request_.set_data(self->bytes_.data(), size);
                              self->StartWrite(&self->request_);
                            });
  }

  void Received(bool ok) {
    if (!ok) return LetGo();
    asio::async_write(socket_, asio::buffer(response_.data()),
                      [self = shared_from_this()](const auto& error, size_t) {
                        if (self->over_) return;
                        if (!error) return self->StartRead(&self->response_);
                        self->GiveUp();
                        self->LetGo();
                      });
  }

  // The pod's side has ended.
  void LetGo() {
    if (std::exchange(over_, true)) return;
    boost::system::error_code ignored;  // the client may have gone as well
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    socket_.close(ignored);
    RemoveHold();
  }

  void Over(const grpc::Status& status) {
    busy_.reset();
    if (status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) return;
    std::fprintf(stderr, "error: an error occurred forwarding %u -> %u: %s\n", port_.local,
                 port_.remote, Visible(status.error_message()).c_str());
  }

  const LoopPtr io_;
  asio::executor_work_guard<asio::io_context::executor_type> busy_;
  tcp::socket socket_;
  const ForwardedPort port_;
  grpc::ClientContext context_;
  std::shared_ptr<ForwardedConnection> self_;  // until the call is over
  v1::PortForwardRequest request_;
  v1::PortForwardResponse response_;
  std::array<char, 32 * 1024> bytes_{};
  bool over_ = false;
};

// Sees the pod end, and the agent.
class PodWatch final : public grpc::ClientReadReactor<v1::PodChange> {
 public:
  PodWatch(LoopPtr io, const core::Pod& pod, std::function<void()> gone)
      : io_(std::move(io)),
        busy_(asio::make_work_guard(*io_)),
        uid_(pod.metadata().uid()),
        gone_(std::move(gone)) {
    request_.set_namespace_(pod.metadata().namespace_());
    request_.set_name(pod.metadata().name());
  }

  void Start(v1::NodeAgent::Stub& stub) {
    stub.async()->WatchPods(&context_, &request_, this);
    StartRead(&change_);
    StartCall();
  }
  void GiveUp() { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (!Goes()) return StartRead(&change_);
    context_.TryCancel();
  }
  void OnDone(const grpc::Status&) override {
    PostTo(io_, [this] {
      busy_.reset();
      gone_();
    });
  }

 private:
  bool Goes() const {
    if (change_.type() == v1::BOOKMARK) return false;
    const core::Pod& pod = change_.pod();
    return change_.type() == v1::DELETED || pod.metadata().uid() != uid_ ||
           kube::IsTerminalPhase(pod.status().phase());
  }

  const LoopPtr io_;
  asio::executor_work_guard<asio::io_context::executor_type> busy_;
  const std::string uid_;
  const std::function<void()> gone_;
  grpc::ClientContext context_;
  v1::WatchPodsRequest request_;
  v1::PodChange change_;
};

class PortForwarder {
 public:
  PortForwarder(Session& session, const core::Pod& pod)
      : session_(session),
        pod_(pod),
        signals_(*io_, SIGINT),
        watch_(io_, pod, [this] { Lost(); }) {}

  int Run(const std::vector<ListenAddress>& addresses, const std::vector<ForwardedPort>& ports) {
    bool some = false;
    for (const ForwardedPort& port : ports) some |= ListenOn(port, addresses);
    if (!some) return Report(Unavailable("unable to listen on any of the requested ports"));
    watch_.Start(session_.stub());
    signals_.async_wait([this](const auto& error, int) {
      if (!error) Stop(kOk);
    });
    io_->run();
    return code_;
  }

 private:
  struct Listener {
    Listener(asio::io_context& io, ForwardedPort of) : acceptor(io), again(io), port(of) {}
    tcp::acceptor acceptor;
    asio::steady_timer again;
    ForwardedPort port;
  };

  // Of addresses that need not be, one is enough.
  bool ListenOn(ForwardedPort port, const std::vector<ListenAddress>& addresses) {
    std::string failed;
    bool required_failed = false;
    size_t listening = 0;
    for (const ListenAddress& each : addresses) {
      const auto error = Listen(each.address, port);
      if (!error) {
        ++listening;
        continue;
      }
      required_failed |= each.required;
      failed += StrCat(failed.empty() ? "" : " ", "unable to create listener: Error listen tcp ",
                       JoinHostPort(each.address, port.local), ": ", error.message());
    }
    if (listening > 0 && !required_failed) return true;
    std::fprintf(stderr,
                 "Unable to listen on port %u: Listeners failed to create with the following "
                 "errors: [%s]\n",
                 port.local, failed.c_str());
    return listening > 0;
  }

  // A free port that was chosen for the first address is that of the others too.
  boost::system::error_code Listen(const std::string& address, ForwardedPort& port) {
    auto listener = std::make_unique<Listener>(*io_, port);
    const tcp::endpoint endpoint(asio::ip::make_address(address), port.local);
    boost::system::error_code error;
    tcp::acceptor& acceptor = listener->acceptor;
    (void)acceptor.open(endpoint.protocol(), error);
    if (error) return error;
    (void)acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && endpoint.address().is_v6()) {
      (void)acceptor.set_option(asio::ip::v6_only(true), error);
    }
    if (!error) (void)acceptor.bind(endpoint, error);
    if (!error) (void)acceptor.listen(tcp::acceptor::max_listen_connections, error);
    if (error) return error;
    port.local = listener->port.local = acceptor.local_endpoint(error).port();
    Print(StrCat("Forwarding from ", JoinHostPort(address, port.local), " -> ", port.remote, "\n"));
    listeners_.push_back(std::move(listener));
    Accept(*listeners_.back());
    return {};
  }

  void Accept(Listener& listener) {
    listener.acceptor.async_accept([this, &listener](const auto& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || stopped_) return;
      if (error) {
        std::fprintf(stderr, "error: accept on port %u: %s\n", listener.port.local,
                     error.message().c_str());
        listener.again.expires_after(kAcceptAgain);
        return listener.again.async_wait([this, &listener](const auto& cancelled) {
          if (!cancelled) Accept(listener);
        });
      }
      Print(StrCat("Handling connection for ", listener.port.local, "\n"));
      const auto connection =
          std::make_shared<ForwardedConnection>(io_, std::move(socket), pod_, listener.port);
      std::erase_if(connections_, [](const auto& each) { return each.expired(); });
      connections_.push_back(connection);
      connection->Start(session_.stub());
      Accept(listener);
    });
  }

  void Lost() {
    if (stopped_) return;
    std::fprintf(stderr, "error: lost connection to pod\n");
    Stop(kFailed);
  }

  // The loop ends when nothing is left in it.
  void Stop(int code) {
    if (std::exchange(stopped_, true)) return;
    code_ = code;
    for (const auto& listener : listeners_) {
      boost::system::error_code ignored;  // it ends either way
      listener->acceptor.close(ignored);
      listener->again.cancel();
    }
    for (const auto& each : connections_) {
      if (const auto connection = each.lock()) connection->GiveUp();
    }
    watch_.GiveUp();
    signals_.cancel();
  }

  Session& session_;
  const core::Pod& pod_;
  const LoopPtr io_ = std::make_shared<asio::io_context>(1);
  asio::signal_set signals_;
  PodWatch watch_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<std::weak_ptr<ForwardedConnection>> connections_;
  bool stopped_ = false;
  int code_ = kOk;
};

}  // namespace

int ForwardPorts(Session& session, const core::Pod& pod,
                 const std::vector<ListenAddress>& addresses,
                 const std::vector<ForwardedPort>& ports) {
  return PortForwarder(session, pod).Run(addresses, ports);
}

}  // namespace holdfast::agent::cli
