// SPDX-License-Identifier: Apache-2.0
// Authentication: who sends a request: by his certificate, or by a bearer token that the API server is asked about
// (TokenReview). What it said holds for a while; the token itself is not kept. On the HTTPS server's thread.
// Source: control-plane.md 7.2, feature-map 1.15.2; Kubernetes' delegating authenticator.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/api/kubelet/expiring_map.h"
#include "agent/api/kubelet/node_user.h"
#include "agent/cluster/api.h"
#include "agent/http/client_authority.h"
#include "agent/http/exchange.h"

namespace holdfast::agent::api {

struct AuthenticationOptions {
  const ClientAuthority& clients;
  Api* api = nullptr;  // null: tokens are not believed
  std::chrono::milliseconds cache_for{120'000};
  bool anonymous = false;
  std::function<void(const std::string& line)> log;
};

class Authentication {
 public:
  // Nobody: 401.
  using Done = std::function<void(std::optional<NodeUser>)>;

  explicit Authentication(AuthenticationOptions options);
  ~Authentication();
  Authentication(const Authentication&) = delete;
  Authentication& operator=(const Authentication&) = delete;

  // `done` is called once, from within or later; not after the destructor.
  void Authenticate(const ExchangePtr& exchange, Done done);

 private:
  struct Question;
  using Answer = std::optional<NodeUser>;

  void Ask(const ExchangePtr& exchange, const std::string& token, Done done);
  void OnReview(const std::string& key, const Result<ApiReply>& reply);

  const AuthenticationOptions options_;
  ExpiringMap<Answer> known_;
  std::map<std::string, std::unique_ptr<Question>> open_;
  const std::shared_ptr<bool> alive_;  // false for what is on its way here after the end
};

// Of an Authorization header; "" without one of that form. Pure.
std::string BearerToken(std::string_view header);

}  // namespace holdfast::agent::api
