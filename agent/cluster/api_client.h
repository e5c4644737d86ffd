// SPDX-License-Identifier: Apache-2.0
// ApiClient: requests to the API server that a kubeconfig names, over HTTP/1.1 and TLS, on a few
// connections that are kept. Each request ends within its time limit, whatever the network does.
// Works on the thread that runs the io_context; only that one may call it.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

class Connection;

enum class ApiMethod : uint8_t { kGet, kPost, kPut };

struct ApiRequest {
  ApiMethod method = ApiMethod::kGet;
  std::string path;  // "/apis/coordination.k8s.io/v1/…", with its query
  std::string body;  // JSON; "" for none
};

struct ApiAnswer {
  int status = 0;
  std::string body;
};

class ApiClient {
 public:
  // Whatever the server said, or why nothing came: kUnavailable, kDeadlineExceeded.
  using Done = std::function<void(Result<ApiAnswer>)>;

  // `io` is borrowed. kInvalidArgument when certificates or keys of the kubeconfig cannot be used.
  static Result<std::unique_ptr<ApiClient>> Make(boost::asio::io_context& io, KubeConfig config,
                                                 std::chrono::milliseconds limit);
  ~ApiClient();  // what is under way ends without its `done`
  ApiClient(const ApiClient&) = delete;
  ApiClient& operator=(const ApiClient&) = delete;

  // `done` is called once, not from within, at most `limit` from now. A request may reach the
  // server even so, later, and more than once: it must say which state it builds on.
  void Send(ApiRequest request, Done done);

 private:
  struct Call;
  using CallPtr = std::shared_ptr<Call>;  // of the timer's and the connection's operations

  ApiClient(boost::asio::io_context& io, KubeConfig config, std::chrono::milliseconds limit);
  void BeginNext();
  void Open(const CallPtr& call);
  void Use(const CallPtr& call, bool fresh);
  void Finish(const CallPtr& call, Result<ApiAnswer> answer);

  boost::asio::io_context& io_;
  const std::shared_ptr<const KubeConfig> config_;  // of the connections, too
  const std::chrono::milliseconds limit_;
  std::vector<std::shared_ptr<Connection>> idle_;
  std::vector<CallPtr> running_;
  std::deque<CallPtr> waiting_;
};

}  // namespace holdfast::agent
