// SPDX-License-Identifier: Apache-2.0
// Checks that only connect, or only wait; and the connecting that others begin with.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>

#include "agent/probe/running_check_internal.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/host_port.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

// A name that has more is tried with so many of them.
constexpr size_t kMostAddresses = 8;

class TcpChecking : public CheckBase {
 public:
  TcpChecking(asio::io_context& io, TcpCheck check)
      : CheckBase(io), check_(std::move(check)), dialler_(io) {}

 private:
  void Go() override {
    dialler_.Dial(check_.host, check_.port,
                  [self = shared_from_this(), this](const Result<void>& connected) {
                    if (connected) return End({});
                    FailDial(connected.error(), "");
                  });
  }
  void Close() override { dialler_.Close(); }
  CheckOutcome OnLimit() override {
    return {CheckOutcome::How::kFailure,
            StrCat("dial tcp ", JoinHostPort(check_.host, check_.port), ": i/o timeout")};
  }

  const TcpCheck check_;
  Dialler dialler_;
};

class SleepChecking : public CheckBase {
 public:
  SleepChecking(asio::io_context& io, SleepCheck check)
      : CheckBase(io), check_(check), sleep_(io) {}

 private:
  void Go() override {
    sleep_.expires_after(check_.time);
    sleep_.async_wait([self = shared_from_this(), this](const error_code& cancelled) {
      if (!cancelled) End({});
    });
  }
  void Close() override { (void)sleep_.cancel(); }
  CheckOutcome OnLimit() override { return {CheckOutcome::How::kFailure, "container terminated"}; }

  const SleepCheck check_;
  asio::steady_timer sleep_;
};

}  // namespace

std::string SocketError(const error_code& error) {
  std::string text = error.message();
  if (!text.empty()) text[0] = ToLower(text[0]);
  return text;
}

// Its callers keep it alive by what they capture in `connected`.
void Dialler::Dial(const std::string& host, uint16_t port, Connected connected) {
  closed_ = false;
  error_code bad;
  const auto address = asio::ip::make_address(host, bad);
  if (!bad) return Connect({{address, port}}, std::move(connected));
  resolver_.async_resolve(
      host, std::to_string(port), tcp::resolver::numeric_service,
      [this, host, connected = std::move(connected)](const error_code& error, const auto& found) {
        if (closed_) return;
        std::vector<tcp::endpoint> endpoints;
        for (const auto& entry : found) {
          if (endpoints.size() < kMostAddresses) endpoints.push_back(entry.endpoint());
        }
        if (error || endpoints.empty()) {
          return connected(Unavailable(StrCat("dial tcp: lookup ", host, ": no such host")));
        }
        Connect(std::move(endpoints), connected);
      });
}

Result<void> Dialler::Open(const tcp& protocol) {
  error_code error;
  (void)socket_.open(protocol, error);
  if (error) return Error::FromErrno(error.value(), "dial tcp: socket");
  return {};
}

// One after the other.
void Dialler::Connect(std::vector<tcp::endpoint> endpoints, Connected connected) {
  const tcp::endpoint endpoint = endpoints.front();
  endpoints.erase(endpoints.begin());
  if (auto opened = Open(endpoint.protocol()); !opened) {
    return asio::post(socket_.get_executor(),
                      [opened, connected = std::move(connected)] { connected(opened); });
  }
  socket_.async_connect(endpoint, [this, endpoint, others = std::move(endpoints),
                                   connected = std::move(connected)](const error_code& e) mutable {
    if (!e) return connected({});
    if (closed_) return;
    error_code ignored;
    (void)socket_.close(ignored);
    if (!others.empty()) return Connect(std::move(others), std::move(connected));
    const std::string peer = JoinHostPort(endpoint.address().to_string(), endpoint.port());
    connected(Unavailable(StrCat("dial tcp ", peer, ": connect: ", SocketError(e))));
  });
}

void Dialler::Close() {
  closed_ = true;
  error_code ignored;
  resolver_.cancel();
  (void)socket_.close(ignored);
}

std::shared_ptr<CheckBase> MakeTcpCheck(asio::io_context& io, TcpCheck check) {
  return std::make_shared<TcpChecking>(io, std::move(check));
}

std::shared_ptr<CheckBase> MakeSleepCheck(asio::io_context& io, SleepCheck check) {
  return std::make_shared<SleepChecking>(io, check);
}

}  // namespace holdfast::agent
