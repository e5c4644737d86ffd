// SPDX-License-Identifier: Apache-2.0
// AccountTokens: what a program that makes logins may know of the pod that an image is pulled for: its service account,
// and a token of it that is bound to the pod. Thread-safe; each call blocks until the API server has answered or the
// caller gives up. Source: KEP-4412; kubernetes pkg/credentialprovider/plugin.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "agent/cluster/api.h"
#include "agent/objects/object_requests.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct ServiceAccountInfo {
  std::string uid;
  std::map<std::string, std::string> annotations;
};

class AccountTokens {
 public:
  virtual ~AccountTokens() = default;
  virtual Result<ServiceAccountInfo> Account(const TokenOwner& pod,
                                             const std::atomic<bool>& cancelled) = 0;
  // For `audience`, of the account that has this UID.
  virtual Result<std::string> Token(const TokenOwner& pod, const std::string& account_uid,
                                    const std::string& audience,
                                    const std::atomic<bool>& cancelled) = 0;
};

class ApiAccountTokens final : public AccountTokens {
 public:
  // Both are borrowed.
  ApiAccountTokens(Api& api, const Clock& clock) : api_(api), clock_(clock) {}

  Result<ServiceAccountInfo> Account(const TokenOwner& pod,
                                     const std::atomic<bool>& cancelled) override;
  // One that was given before, as long as most of its life is left.
  Result<std::string> Token(const TokenOwner& pod, const std::string& account_uid,
                            const std::string& audience,
                            const std::atomic<bool>& cancelled) override;

 private:
  struct Kept {
    std::shared_ptr<const std::string> text;
    WallTime issued, renew;
  };

  Result<ApiReply> Ask(const ApiCall& call, const std::atomic<bool>& cancelled);
  std::shared_ptr<const std::string> Find(const std::string& key);
  void Keep(const std::string& key, const IssuedToken& issued);

  Api& api_;
  const Clock& clock_;
  std::mutex mutex_;
  std::map<std::string, Kept> kept_;
};

}  // namespace holdfast::agent
