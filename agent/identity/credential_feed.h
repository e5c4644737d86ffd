// SPDX-License-Identifier: Apache-2.0
// CredentialFeed: what a kubeconfig comes to at each time. Certificates that its files hold are read again, tokens and
// certificates that a program makes are made again before they end and when the server refuses them; what cannot be
// read or made leaves what was there before. On the API thread. Source: control-plane.md 2.1.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/cluster/api.h"
#include "agent/cluster/kubeconfig.h"
#include "agent/identity/exec_credential.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// The kubeconfig with the texts of its files in their places. A token's file stays one, since it is read for each call.
// kInvalidArgument when a certificate and its key do not belong together.
Result<KubeConfig> LoadFiles(KubeConfig config);

struct CredentialFeedOptions {
  KubeConfig config;
  // The output of config.exec, given KUBERNETES_EXEC_INFO. May block.
  std::function<Result<std::string>(const ExecPlugin&, const std::string& info)> run;
  std::function<void(Result<KubeConfig>)> publish;  // an error only as long as there was nothing
  std::function<void()> told;                       // trouble() may be another
  std::function<void(const std::string& line)> log;
};

class CredentialFeed {
 public:
  // `api` (for its timers) and `clock` are borrowed. Nothing is published before Refresh().
  CredentialFeed(Api& api, const Clock& clock, CredentialFeedOptions options);
  ~CredentialFeed();
  CredentialFeed(const CredentialFeed&) = delete;
  CredentialFeed& operator=(const CredentialFeed&) = delete;

  // Reads, or makes, now.
  void Refresh();
  // The server does not take what was published: as Refresh(), but not again within seconds.
  void Refused();

  // What was published last; absent: nothing could be.
  const std::optional<KubeConfig>& current() const { return current_; }
  const std::string& trouble() const { return trouble_; }  // of the last try; "" when it went well

 private:
  void Soon(std::chrono::milliseconds delay);
  void Sleep();
  Result<KubeConfig> Make();
  void Take(KubeConfig made);
  void TakeTrouble(Error error);
  std::chrono::milliseconds UntilRenewal() const;

  Api& api_;
  const Clock& clock_;
  const CredentialFeedOptions options_;
  std::optional<KubeConfig> current_;
  std::optional<WallTime> expires_;  // of what a program made
  std::string trouble_;
  int failures_ = 0;
  BootTime last_;
  TicketPtr timer_;
};

}  // namespace holdfast::agent
