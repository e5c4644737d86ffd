// SPDX-License-Identifier: Apache-2.0
// Fetcher: the agent's side of one holdfast-fetch, which serves a whole pull. Requests go out, the
// bytes of the answers come through pipes and are handed on in pieces; nothing of the helper's is
// believed. Single-thread; the helper is killed and reaped on destruction.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime {

// How an answer ended: its head, and what became of it.
struct FetchEnd {
  uint64_t id = 0;
  fetch::Head head;
  fetch::End end;
  std::optional<Error> refused;  // the sink's: the rest was not read
};

class Fetcher {
 public:
  // A piece of the body, never empty. An error ends the request.
  using Sink = std::function<Result<void>(const fetch::Head&, std::string_view)>;

  // `environment`: "NAME=value", the proxies.
  static Result<Fetcher> Start(const std::string& program, std::vector<std::string> environment);
  Fetcher(Fetcher&&) noexcept;
  Fetcher& operator=(Fetcher&&) = delete;
  ~Fetcher();

  // Gives the request its id. `upload`: what is sent, or -1; how far the helper is in it shows in the
  // file's offset, and how long it may stand still is the caller's to say.
  Result<uint64_t> Begin(fetch::Request request, Sink sink, int upload = -1);
  void Stop(uint64_t id);
  // Moves bytes until a request has ended or `patience` is over (nullopt). kUnavailable when the
  // helper has gone, or says nothing for longer than any of its own limits.
  Result<std::optional<FetchEnd>> Next(std::chrono::milliseconds patience);
  pid_t PidForTest() const { return pid_; }

 private:
  struct Running;
  Fetcher(pid_t pid, UniqueFd socket);
  Result<void> Wait(std::chrono::milliseconds patience);
  Result<void> Listen();
  Result<void> Note(const fetch::Fields& fields);
  void Read(Running& running);
  bool IsOverdue(std::chrono::steady_clock::time_point now) const;
  std::optional<FetchEnd> TakeEnded();

  pid_t pid_ = -1;
  UniqueFd socket_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::unique_ptr<Running>> running_;
  std::string buffer_;
  std::chrono::steady_clock::time_point heard_;  // when the helper was last heard of
};

}  // namespace holdfast::runtime
