// SPDX-License-Identifier: Apache-2.0
// RegistryClient: questions to the hosts of one registry, with logins, tokens, redirects and new
// tries; one per pull. Single-thread. A login or token goes to the host that it is for and to no
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
#include "runtime/image/pull/verdict.h"

namespace holdfast::runtime {

// A host, and how it was found to be asked.
struct Origin {
  RegistryHost host;
  std::string repository;  // "library/nginx"
  std::vector<RegistryLogin> logins;
  size_t login = 0;           // of these the one that is tried
  std::string authorization;  // header value; "" as long as none was wanted

  std::string Url(const std::string& kind, const std::string& reference) const;
  // The login that it took, or nothing where none was wanted.
  std::optional<RegistryLogin> Shown() const;
};

struct Answer {
  fetch::Head head;
  std::string body;
};

class RegistryClient {
 public:
  // `stop`: asked a few times a second; true ends what is under way with kUnavailable.
  RegistryClient(Fetcher& fetcher, std::function<bool()> stop, std::chrono::seconds stall)
      : fetcher_(fetcher), stop_(std::move(stop)), stall_(stall) {}

  // A document of at most `limit` bytes. Tries the origin's logins in turn.
  Result<Answer> Ask(Origin& origin, const std::string& method, const std::string& url,
                     const std::string& accept, size_t limit);

  // ---- for transfers side by side ----
  fetch::Request RequestFor(const Origin& origin, const std::string& url) const;
  Result<uint64_t> Begin(fetch::Request request, Fetcher::Sink sink) {
    return fetcher_.Begin(std::move(request), std::move(sink));
  }
  void Stop(uint64_t id) { fetcher_.Stop(id); }
  // The next that ended, of those that Begin() started.
  Result<std::optional<FetchEnd>> Next(std::chrono::milliseconds patience);
  // After a 401 of the origin itself.
  Result<void> Authorize(Origin& origin, const std::vector<fetch::Challenge>& challenges);

 private:
  struct Question {
    std::string method, url, accept;
    size_t limit = 0;
  };
  Result<Answer> AskOnce(Origin& origin, const Question& question);
  Result<FetchEnd> Send(fetch::Request request, size_t limit, std::string& body);
  Result<FetchEnd> Await(uint64_t id);
  Result<void> Sleep(std::chrono::milliseconds time);
  Result<void> Obey(Origin& origin, Verdict& verdict, const FetchEnd& end, Attempt& attempt);
  Result<std::string> FetchToken(const Origin& origin, const fetch::Challenge& challenge);
  Result<void> CheckStop() const;

  Fetcher& fetcher_;
  const std::function<bool()> stop_;
  const std::chrono::seconds stall_;
  std::deque<FetchEnd> others_;  // ended while something else was waited for
};

}  // namespace holdfast::runtime
