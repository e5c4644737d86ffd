// SPDX-License-Identifier: Apache-2.0
// CredentialProviders: logins for registries that programs make, kept as long as these say. A
// program runs once for all who ask for the same image at a time, on a thread of its own, with
// limits of time and output; nobody waits for a program of other images. Thread-safe.
// Source: kubernetes pkg/credentialprovider/plugin; feature-map 1.18.9.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/base/bounded_program.h"
#include "agent/images/keyring.h"
#include "agent/images/provider_config.h"
#include "agent/objects/account_tokens.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct CredentialProvidersOptions {
  std::vector<CredentialProvider> providers;
  std::string programs;  // the directory that they are in
  std::function<void(const std::string&)> log;
  ProgramLimits limits;
  std::string owner = {};  // of each BoundedProgram; those of a former agent are ended
};

class CredentialProviders {
 public:
  // `clock` is borrowed.
  static Result<std::unique_ptr<CredentialProviders>> Start(const Clock& clock,
                                                            CredentialProvidersOptions options);
  ~CredentialProviders();
  CredentialProviders(const CredentialProviders&) = delete;
  CredentialProviders& operator=(const CredentialProviders&) = delete;

  // Where those that are told of a pod's account have it from; before that pods have none. Borrowed.
  void UseAccounts(AccountTokens& accounts);
  // What all that are for the image ("registry.example/team/app", without tag) give, in their
  // order. One that fails is told and gives nothing. Blocks while they run, until `cancelled`.
  // `pod`: that it is pulled for and that has an account; null: there is none.
  ProvidedLogins Provide(const std::string& image, const TokenOwner* pod,
                         const std::atomic<bool>& cancelled);
  // Ends the programs that run, and all that begin from then on.
  void Stop();

 private:
  struct State;
  explicit CredentialProviders(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace holdfast::agent
