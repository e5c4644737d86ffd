// SPDX-License-Identifier: Apache-2.0
// One request of holdfast-fetch: from the agent's words to libcurl, from the agent's file to the
// registry, and from the registry's bytes to the agent's pipe. Never blocks: while the pipe is full the transfer is paused. Single-thread.
// Source: libcurl's easy interface.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime::fetch {

class Transfer {
 public:
  // `upload`: the file that is sent, or none. `system_authorities`: PEM, outlives it. `tell` is called
  // with each message for the agent.
  Transfer(Request request, UniqueFd pipe, UniqueFd upload, const std::string& system_authorities,
           std::function<void(const Fields&)> tell);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  uint64_t id() const { return request_.id; }
  // CURL*; owned here.
  void* handle() const { return easy_; }
  // The pipe's descriptor while there is something for it to take; -1. Also before more comes: a
  // registry that stands still keeps back nothing that it has sent.
  int WaitsFor() const { return paused_ || ended_ || !rest_.empty() ? pipe_.get() : -1; }

  // Of the connection that it is or was last on, while there is one; -1.
  int Socket() const;
  // It waits for the agent, or something of its answer came within `time`.
  bool MovedWithin(std::chrono::seconds time) const;
  std::chrono::seconds stall() const { return std::chrono::seconds(request_.slow_seconds); }

  // The pipe has room. False: nobody reads it any more.
  bool OnRoom();
  // libcurl's code: the transfer is over, with the rest of its bytes possibly still here.
  void OnEnd(int code);
  // Everything was handed over, and said.
  bool IsOver() const { return ended_ && rest_.empty(); }

 private:
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnUpload(char* data, size_t size, size_t count, void* self);
  static int OnSeek(void* self, int64_t offset, int from);
  void SetUp();
  void SetBody();
  void SetTrust();
  void SetLimits();
  bool Flush();
  void TellHead();
  void TellEnd(int code);
  std::string Reason(int code) const;  // of a failure, for a person
  std::string HeaderOf(const char* name) const;
  std::string Location() const;
  void ReadChallenges(Head& head) const;

  const Request request_;
  UniqueFd pipe_;
  const UniqueFd upload_;
  const std::function<void(const Fields&)> tell_;
  std::string authorities_;
  void* easy_ = nullptr;
  void* headers_ = nullptr;  // curl_slist*
  std::string rest_;         // of a piece that the pipe did not take as a whole
  std::chrono::steady_clock::time_point moved_ = std::chrono::steady_clock::now();
  size_t header_bytes_ = 0;
  bool head_told_ = false;
  bool paused_ = false;
  bool ended_ = false;
  bool too_many_headers_ = false;
  char error_[256] = {};  // CURL_ERROR_SIZE
};

}  // namespace holdfast::runtime::fetch
