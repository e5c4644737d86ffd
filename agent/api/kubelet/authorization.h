// SPDX-License-Identifier: Apache-2.0
// Authorization: whether a user may do something with this node: everything, or what the API server says
// (SubjectAccessReview), which holds for a while. On the HTTPS server's thread.
// Source: control-plane.md 7.2, feature-map 1.15.3; Kubernetes' delegating authorizer.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/api/kubelet/expiring_map.h"
#include "agent/api/kubelet/node_user.h"
#include "agent/cluster/api.h"
#include "agent/http/exchange.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::api {

struct AuthorizationOptions {
  std::string node_name;
  Api* api = nullptr;  // null: everybody who is known may everything (AlwaysAllow)
  std::chrono::milliseconds cache_allowed_for{300'000}, cache_denied_for{30'000};
};

class Authorization {
 public:
  // An error: nobody could say it.
  using Done = std::function<void(Result<bool> allowed)>;

  explicit Authorization(AuthorizationOptions options);
  ~Authorization();
  Authorization(const Authorization&) = delete;
  Authorization& operator=(const Authorization&) = delete;

  // Whether one of `subresources` permits it, asked in their order. `done` is called once, from within or later; not
  // after the destructor.
  void Authorize(const ExchangePtr& exchange, const NodeUser& user, const std::string& verb,
                 std::vector<std::string> subresources, Done done);

 private:
  struct Question;

  void AskNext(const std::shared_ptr<Question>& question);
  void OnReview(const std::shared_ptr<Question>& question, const std::string& key,
                const Result<ApiReply>& reply);

  const AuthorizationOptions options_;
  ExpiringMap<bool> known_;
  std::map<uint64_t, TicketPtr> open_;
  uint64_t next_ = 0;
  const std::shared_ptr<bool> alive_;  // false for what is on its way here after the end
};

}  // namespace holdfast::agent::api
