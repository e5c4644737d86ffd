// SPDX-License-Identifier: Apache-2.0
// A check by the gRPC health protocol: one unary call on an HTTP/2 connection without TLS.
// Source: Kubernetes' probe/grpc/grpc.go.
#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>

#include "agent/probe/grpc_health.h"
#include "agent/probe/running_check_internal.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"
#include "runtime/http/h2_session.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using runtime::http::H2Session;
using How = CheckOutcome::How;

// A server that does not listen yet is dialled again, as by gRPC's own clients.
constexpr std::chrono::seconds kDialAgain{1};
constexpr size_t kMostOutput = 64 * 1024;

class GrpcChecking : public CheckBase {
 public:
  GrpcChecking(asio::io_context& io, GrpcCheck check)
      : CheckBase(io), check_(std::move(check)), dialler_(io), again_(io) {}

 private:
  std::shared_ptr<GrpcChecking> Self() {
    return std::static_pointer_cast<GrpcChecking>(shared_from_this());
  }

  std::string Peer() const { return JoinHostPort(check_.host, check_.port); }
  std::string Limit() const {
    return StrCat(std::chrono::duration_cast<std::chrono::seconds>(*limit_).count(), "s");
  }

  CheckOutcome OnLimit() override {
    if (answered_)
      return {How::kFailure, StrCat("timeout: health rpc did not complete within ", Limit())};
    return {How::kFailure, StrCat("timeout: failed to connect service \"", Peer(), "\" within ",
                                  Limit(), ": context deadline exceeded")};
  }

  void Go() override {
    dialler_.Dial(check_.host, check_.port, [self = Self()](const Result<void>& connected) {
      if (self->ended()) return;
      connected ? self->Ask() : self->DialAgain();
    });
  }

  void DialAgain() {
    dialler_.Close();
    again_.expires_after(kDialAgain);
    again_.async_wait([self = Self()](const error_code& cancelled) {
      if (!cancelled && !self->ended()) self->Go();
    });
  }

  void Ask() {
    auto session = H2Session::Make();
    if (!session) return End({How::kError, session.error().message()});
    session_ = std::move(*session);
    runtime::http::Request request;
    request.method = "POST";
    request.scheme = "http";
    request.authority = Peer();
    request.path = kHealthPath;
    request.headers = {{"content-type", "application/grpc"},
                       {"te", "trailers"},
                       {"user-agent", "kube-probe/1.36"}};
    request.body = HealthQuestion(check_.service);
    request.body_limit = kCheckOutput;
    if (auto sent = session_->Submit(std::move(request)); !sent) {
      return End({How::kError, sent.error().message()});
    }
    Write();
  }

  // Until there is nothing more to say for now.
  void Write() {
    auto output = session_->TakeOutput(kMostOutput);
    if (!output) return FailCall(output.error().message());
    if (output->empty()) return Read();
    output_ = std::move(*output);
    asio::async_write(dialler_.socket(), asio::buffer(output_),
                      [self = Self()](const error_code& error, size_t) {
                        if (self->ended()) return;
                        if (error) return self->FailCall(SocketError(error));
                        self->Write();
                      });
  }

  void Read() {
    dialler_.socket().async_read_some(asio::buffer(piece_),
                                      [self = Self()](const error_code& error, size_t n) {
                                        if (self->ended()) return;
                                        if (error) return self->FailCall(SocketError(error));
                                        self->OnBytes({self->piece_.data(), n});
                                      });
  }

  void OnBytes(std::string_view bytes) {
    answered_ = true;
    if (auto taken = session_->Receive(bytes); !taken) return FailCall(taken.error().message());
    for (const H2Session::Event& event : session_->TakeEvents()) {
      if (event.kind == H2Session::Event::Kind::kHead) head_ = event.head;
      if (event.kind == H2Session::Event::Kind::kBody) body_.append(event.bytes);
      if (event.kind == H2Session::Event::Kind::kEnd) return OnEnd(event.end);
    }
    Write();
  }

  void OnEnd(const runtime::http::StreamEnd& end) {
    if (end.how != runtime::http::StreamEnd::How::kComplete) return FailCall(end.error.message());
    End(HealthOutcome(head_.status, end.trailers.empty() ? head_.headers : end.trailers, body_));
  }

  void FailCall(const std::string& why) {
    Fail(StrCat("error: health rpc probe failed: rpc error: code = Unavailable desc = ", why));
  }

  void Close() override {
    dialler_.Close();
    (void)again_.cancel();
  }

  const GrpcCheck check_;
  Dialler dialler_;
  asio::steady_timer again_;
  std::unique_ptr<H2Session> session_;
  std::string output_;
  std::array<char, 4096> piece_{};
  runtime::http::ResponseHead head_;
  std::string body_;
  bool answered_ = false;  // there is a peer that speaks
};

}  // namespace

std::shared_ptr<CheckBase> MakeGrpcCheck(asio::io_context& io, GrpcCheck check) {
  return std::make_shared<GrpcChecking>(io, std::move(check));
}

}  // namespace holdfast::agent
