// SPDX-License-Identifier: Apache-2.0
// TokenStore: the tokens of service accounts that pods mount, each bound to its pod, asked for at once and renewed in
// time: at 80 % of the life that the server gave (no later than after a day), minus up to 10 % of it at random. While
// that fails it is tried each minute, and the old token stays as long as it is valid. Everything runs on the API
// thread, where it is destroyed, too. Source: control-plane.md 6.1, join.md traps 38, 41, 42.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "agent/cluster/api.h"
#include "agent/objects/object_requests.h"
#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"
#include "holdfast/base/clock.h"

namespace holdfast::agent {

class TokenStore {
 public:
  using Changed = std::function<void(const PodUid& uid, const TokenRef& ref, TokenInput input)>;

  TokenStore(Api& api, const Clock& clock, Changed changed);
  ~TokenStore();

  // The tokens that the pod mounts.
  void Use(const TokenOwner& owner, const std::set<TokenRef>& refs);
  void Drop(const PodUid& uid);

 private:
  struct Token;
  using Tokens = std::map<TokenRef, std::unique_ptr<Token>>;

  void Ask(Token& token);
  void AskAfter(Token& token, std::chrono::milliseconds delay);
  void OnAnswer(Token& token, Result<ApiReply> reply);
  void OnIssued(Token& token, IssuedToken issued);
  void OnTrouble(Token& token, const std::string& why);
  void Wait(Token& token, std::chrono::milliseconds least);
  void LookAtClock(Token& token);
  bool IsValid(const Token& token) const;

  double Random() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  Api& api_;
  const Clock& clock_;
  const Changed changed_;
  std::minstd_rand random_{std::random_device()()};
  std::map<PodUid, Tokens> pods_;
};

}  // namespace holdfast::agent
