// SPDX-License-Identifier: Apache-2.0
// RegistryClient: questions to the hosts of one registry, with logins, tokens, redirects and new
// tries; one per pull or push. Single-thread. A login or token goes to the host that it is for and to no
// other, whatever redirects and challenges say.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"
#include "runtime/image/pull/fetcher.h"
#include "runtime/image/pull/registry_host.h"
#include "runtime/image/pull/token.h"
#include "runtime/image/pull/verdict.h"

namespace holdfast::runtime {

enum class Purpose : uint8_t { kPull, kPush };

// A host, and how it was found to be asked.
struct Origin {
  RegistryHost host;
  std::string repository;  // "library/nginx"
  std::vector<RegistryLogin> logins;
  size_t login = 0;           // of these the one that is tried
  std::string authorization;  // header value; "" as long as none was wanted
  TokenScope scope;           // of the tokens that it is shown

  std::string Url(const std::string& kind, const std::string& reference) const;
  // The login that it took, or nothing where none was wanted.
  std::optional<RegistryLogin> Shown() const;
};

// Of `hosts` those that are asked for the repository ("docker.io/library/nginx"), each with the logins
// for it: those of a mirror are looked up by its own name, since those of the registry are not for it.
std::vector<Origin> OriginsOf(std::vector<RegistryHost> hosts, const std::string& repository,
                              const RegistryLogins& logins, Purpose purpose);

struct Question {
  std::string method = "GET";
  std::string url;
  std::string accept = {};
  size_t limit = 0;  // bytes of the answer
  std::string body = {};
  std::string content_type = {};  // of `body`
};

struct Answer {
  fetch::Head head;
  std::string body;
  std::string location;
};

class RegistryClient {
 public:
  // `stop`: asked a few times a second; true ends what is under way with kUnavailable.
  RegistryClient(Fetcher& fetcher, std::function<bool()> stop, std::chrono::seconds stall,
                 Purpose purpose)
      : fetcher_(fetcher), stop_(std::move(stop)), stall_(stall), purpose_(purpose) {}

  // A 2xx's. Tries the origin's logins in turn.
  Result<Answer> Ask(Origin& origin, const Question& question);
  // kUnavailable once it is to stop.
  Result<void> CheckStop() const;
  // How long a transfer may stand still.
  std::chrono::seconds stall() const { return stall_; }

  // ---- for transfers side by side ----
  fetch::Request RequestFor(const Origin& origin, const std::string& url) const;
  Result<uint64_t> Begin(fetch::Request request, Fetcher::Sink sink, int upload = -1) {
    return fetcher_.Begin(std::move(request), std::move(sink), upload);
  }
  void Stop(uint64_t id) { fetcher_.Stop(id); }
  // The next that ended, of those that Begin() started.
  Result<std::optional<FetchEnd>> Next(std::chrono::milliseconds patience);
  // After a 401 of the origin itself.
  Result<void> Authorize(Origin& origin, const std::vector<fetch::Challenge>& challenges);

 private:
  std::string_view Verb() const { return purpose_ == Purpose::kPull ? "pull" : "push"; }
  Result<Answer> AskOnce(Origin& origin, const Question& question);
  Result<FetchEnd> Send(fetch::Request request, size_t limit, std::string& body);
  Result<FetchEnd> Await(uint64_t id);
  Result<void> Sleep(std::chrono::milliseconds time);
  Result<void> Obey(Origin& origin, Verdict& verdict, const FetchEnd& end, Attempt& attempt);
  Result<std::string> FetchToken(const Origin& origin, const fetch::Challenge& challenge);

  Fetcher& fetcher_;
  const std::function<bool()> stop_;
  const std::chrono::seconds stall_;
  const Purpose purpose_;
  std::deque<FetchEnd> others_;  // ended while something else was waited for
};

}  // namespace holdfast::runtime
