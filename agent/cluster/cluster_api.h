// SPDX-License-Identifier: Apache-2.0
// ClusterApi: the Api of a real API server, over HTTP/2 (HTTP/1.1 where the server has no other). One thread of its own
// carries everything; each lane has connections of its own, so that neither watches nor large lists hold up a
// heartbeat. Thread-safe; destroyed on another thread than its own, after which nobody is called any more.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/result.h"
#include "runtime/http/options.h"

namespace holdfast::agent {

struct ClusterApiOptions {
  // An error: there are no credentials yet, and calls end with it.
  Result<KubeConfig> config = Unavailable("no credentials yet");
  std::string version = "0";  // of this program; "holdfast/VERSION" is who writes fields
  std::chrono::milliseconds dial_limit{10'000};
  std::chrono::milliseconds first_back_off{50}, longest_back_off{10'000};
  // A token's file is read again after it; a connection that is older and is answered 401 gets no more calls, so that
  // the next one has the certificate of the moment.
  std::chrono::milliseconds credentials_last{10'000};
  std::chrono::milliseconds rotate_every{
      60'000};  // between two connections that go for new credentials
  // The server does not take the credentials. On the API thread; must not block.
  std::function<void()> unauthorized = [] {};
  runtime::http::ConnectionOptions connection;
  // A Lease lasts 40 s: what is dead must be found sooner.
  runtime::http::ConnectionOptions heartbeat{.ping_after = std::chrono::seconds(5),
                                             .ping_limit = std::chrono::seconds(5)};
};

class ClusterApi : public Api {
 public:
  // Connections are made when they are needed, from the calling thread's network namespace. kInvalidArgument when
  // certificates or keys cannot be used, kResourceExhausted without a thread.
  static Result<std::unique_ptr<ClusterApi>> Start(ClusterApiOptions options);
  ~ClusterApi() override;
  ClusterApi(const ClusterApi&) = delete;
  ClusterApi& operator=(const ClusterApi&) = delete;

  TicketPtr Send(ApiCall call, Done done) override;
  TicketPtr Watch(ApiCall call, Frame frame, std::function<void(Result<void>)> ended,
                  std::function<void(ApiReply)> refused) override;
  void Post(std::function<void()> work) override;
  TicketPtr After(std::chrono::milliseconds delay, std::function<void()> work) override;
  void CloseAll(const std::string& why) override;

  // Another way to the server, or another client certificate: new connections use it at once; the old ones go one by
  // one, and their watches end in order. An error: no connection is made any more, and calls end with it.
  void SetConfig(Result<KubeConfig> config);

 private:
  class Core;
  explicit ClusterApi(std::shared_ptr<Core> core);
  const std::shared_ptr<Core> core_;  // of the Tickets, too, which may outlive this
};

}  // namespace holdfast::agent
