// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/http/targets.h"

#include <map>

#include "runtime/http/h2_session.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using runtime::http::H2Session;
using runtime::http::StreamId;
using Kind = H2Session::Event::Kind;

// What a connection relies on: head, body, end, in this order, and nothing of a stream that was reset.
class Order {
 public:
  explicit Order(std::string_view input) : input_(input) {}

  void Take(H2Session& session) {
    for (const H2Session::Event& event : session.TakeEvents()) {
      State& state = states_[event.stream];
      Require(!state.ended, "nothing follows the end", input_);
      if (event.kind == Kind::kHead) {
        Require(!state.head && event.head.status >= 200, "one final head", input_);
        state.head = true;
      }
      if (event.kind == Kind::kBody) {
        Require(state.head, "the head comes before the body", input_);
        session.Consume(event.stream, event.bytes.size());
      }
      if (event.kind == Kind::kEnd) state.ended = true;
    }
  }
  void Reset(H2Session& session, StreamId stream) {
    session.Reset(stream);
    states_[stream].ended = true;
  }

 private:
  struct State {
    bool head = false, ended = false;
  };
  const std::string_view input_;
  std::map<StreamId, State> states_;
};

}  // namespace

void FuzzH2Session(std::string_view input) {
  auto session = H2Session::Make();
  Require(session.has_value(), "a session can be made", input);
  H2Session& h2 = **session;
  runtime::http::Request request;
  request.authority = "a";
  request.body_limit = 1000;
  const auto first = h2.Submit(request);
  request.method = "POST";
  request.body = "body";
  const auto second = h2.Submit(request);
  Require(first && second && h2.TakeOutput(1 << 20), "requests can be sent", input);
  Order order(input);
  size_t step = 0;
  while (!input.empty()) {
    const std::string_view part = input.substr(0, 1 + (step++ % 3) * 40);
    input.remove_prefix(part.size());
    const bool received = h2.Receive(part).has_value();
    order.Take(h2);
    if (step == 5) order.Reset(h2, *second);
    if (!h2.TakeOutput(1 << 20) || !received) break;
    order.Take(h2);
  }
  (void)h2.finished();
}

}  // namespace holdfast::fuzz
