// SPDX-License-Identifier: Apache-2.0
// HttpsServer: HTTP/1.1 over TLS for a few hundred clients, on one thread of its own. It reads requests whole, within
// limits of size and time, and hands them to one function; what that may block on is for others. Keeps connections
// open between requests; when there are too many, one of the address that has the most gives way. Thread-safe.
// Source: feature-map 1.15, control-plane.md 7.1; a kubelet's time limits where it has some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "agent/http/exchange.h"
#include "agent/http/https_limits.h"
#include "agent/http/serving_certificate.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct HttpsServerOptions {
  std::string address = "0.0.0.0";  // "0.0.0.0" and "::": of both families, as in Go
  uint16_t port = 0;                // 0: any; port() says which
  HttpsLimits limits;
  // On the server's thread; must not block.
  std::function<void(ExchangePtr)> handler;
  std::function<void(const std::string& line)> log;
};

class HttpsServer {
 public:
  // `certificate` is borrowed. An address that cannot be had now is tried again, and the log says so once.
  static Result<std::unique_ptr<HttpsServer>> Start(HttpsServerOptions options,
                                                    const ServingCertificate& certificate);
  ~HttpsServer();
  HttpsServer(const HttpsServer&) = delete;
  HttpsServer& operator=(const HttpsServer&) = delete;

  // Readers of bodies are told that they are gone; afterwards the handler is not called any more and nothing runs on
  // the thread. Exchanges may be answered until the destructor.
  void Stop();
  uint16_t port() const;  // 0 while it does not listen

 private:
  class Impl;
  explicit HttpsServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent
