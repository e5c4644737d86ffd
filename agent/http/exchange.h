// SPDX-License-Identifier: Apache-2.0
// Exchange: one request that a server read whole, and the ways to answer it: at once, in pieces, or by taking the
// connection. Everything is called on the server's thread, but for Answer() and Post(). One that is dropped without an
// answer is answered 500.
#pragma once

#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/http/upgraded_connection.h"

namespace holdfast::agent {

using HttpRequest = boost::beast::http::request<boost::beast::http::string_body>;

struct HttpAnswer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// Who reads a body that comes in pieces.
struct BodyEvents {
  std::function<void()> passed;  // the head, or the piece before, is on its way: the next may come
  std::function<void()> gone;    // he is not there any more: nothing is called afterwards
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  // The client's certificate and what it sent with it, as DER; nothing is verified yet. Empty without one.
  virtual const std::vector<std::string>& certificates() const = 0;
  virtual const std::string& peer() const = 0;  // "192.0.2.1:4711", for the log

  // Any thread. The first of this, Begin() and Release() counts.
  virtual void Answer(HttpAnswer answer) = 0;
  // The head of an answer whose length nobody knows yet; it is sent at once. `body` of it is not used.
  virtual void Begin(HttpAnswer head, BodyEvents events) = 0;
  virtual void Write(std::string piece) = 0;  // not empty; once after each passed()
  virtual void End() = 0;                     // in place of a Write()
  virtual UpgradedConnection Release() = 0;

  // Any thread: onto the server's. Dropped when the server ends.
  virtual void Post(std::function<void()> work) = 0;
};
using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace holdfast::agent
