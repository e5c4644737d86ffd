// SPDX-License-Identifier: Apache-2.0
// HealthServer: small HTTP answers on any number of ports, from one thread. GET and HEAD of
// requests up to 8 KiB; a connection has 5 s and one answer. A port serves 128 connections at once;
// the next one takes the place of the longest there, so that idle clients keep nobody's health
// check out, least of all another port's. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/proxy_table.h"
#include "netproxy/health/replies.h"

namespace holdfast::agent {

class HealthServer {
 public:
  // From the server's thread; must not block. `path` is the target without its query.
  using Answer = std::function<netproxy::HttpReply(const std::string& path)>;
  using Listeners = std::map<model::Endpoint, Answer>;  // by the address to listen at

  static Result<std::unique_ptr<HealthServer>> Start();
  ~HealthServer();  // ends the thread; no answer runs afterwards
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  // These and no others, within moments. What is there already keeps its socket and gets the new
  // answer. `failed` hears of addresses that cannot be listened at for half a second, once each,
  // from the server's thread; they are tried again every few seconds.
  void Listen(Listeners listeners, std::function<void(const std::string& why)> failed);

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent
