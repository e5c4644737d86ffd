// SPDX-License-Identifier: Apache-2.0
// FakeApi: an Api that a test plays by hand. Calls stand in `sent` and `watches` until the test answers them; time is
// the test's, too. One thread; callbacks run within the test's own calls.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/cluster/api.h"

namespace holdfast::fakes {

class FakeApi : public agent::Api {
 public:
  struct Call {
    agent::ApiCall call;
    std::chrono::milliseconds since{};  // when it began
    bool open = true;                   // neither answered nor cancelled
    Done done{};                        // of Send()
    Frame frame{};                      // of Watch()
    std::function<void(Result<void>)> ended{};
    std::function<void(agent::ApiReply)> refused{};
  };
  using CallPtr = std::shared_ptr<Call>;

  agent::TicketPtr Send(agent::ApiCall call, Done done) override {
    auto made = std::make_shared<Call>(
        Call{.call = std::move(call), .since = now, .done = std::move(done)});
    sent.push_back(made);
    return std::make_unique<OfCall>(made);
  }
  agent::TicketPtr Watch(agent::ApiCall call, Frame frame, std::function<void(Result<void>)> ended,
                         std::function<void(agent::ApiReply)> refused) override {
    auto made = std::make_shared<Call>(Call{.call = std::move(call),
                                            .since = now,
                                            .frame = std::move(frame),
                                            .ended = std::move(ended),
                                            .refused = std::move(refused)});
    watches.push_back(made);
    return std::make_unique<OfCall>(made);
  }
  void Post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  agent::TicketPtr After(std::chrono::milliseconds delay, std::function<void()> work) override {
    const auto id = std::pair(now + delay, next_timer_++);
    auto open = std::make_shared<bool>(true);
    timers_[id] = {open, std::move(work)};
    return std::make_unique<OfTimer>(open);
  }
  void CloseAll(const std::string& why) override {
    closed.push_back(why);
    for (const auto& call : Open(sent)) Answer(*call, Unavailable(why));
    for (const auto& call : Open(watches)) End(*call, Unavailable(why));
  }

  // --- the test's side ---

  // Those that wait, oldest first.
  static std::vector<CallPtr> Open(const std::vector<CallPtr>& calls) {
    std::vector<CallPtr> open;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(open),
                 [](const auto& call) { return call->open; });
    return open;
  }
  // Not inline: g++ 12 would follow a failure into the reply that it does not hold (-Wmaybe-uninitialized).
  [[gnu::noinline]] void Answer(Call& call, Result<agent::ApiReply> reply) {
    if (!std::exchange(call.open, false)) return;
    call.done(std::move(reply));
    RunPosted();
  }
  void End(Call& watch, Result<void> result) {
    if (!std::exchange(watch.open, false)) return;
    watch.ended(std::move(result));
    RunPosted();
  }
  void Refuse(Call& watch, agent::ApiReply reply) {
    if (!std::exchange(watch.open, false)) return;
    watch.refused(std::move(reply));
    RunPosted();
  }
  void Send(Call& watch, std::string_view type, std::string_view object) {
    if (watch.open) watch.frame(type, object);
    RunPosted();
  }
  // What was posted, also by what runs here.
  void RunPosted() {
    while (!posted_.empty()) {
      const auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  // Timers run in the order of their time.
  void Advance(std::chrono::milliseconds by) {
    RunPosted();
    const auto until = now + by;
    while (!timers_.empty() && timers_.begin()->first.first <= until) {
      auto [id, timer] = *timers_.begin();
      timers_.erase(timers_.begin());
      now = id.first;
      if (std::exchange(*timer.open, false)) timer.work();
      RunPosted();
    }
    now = until;
  }

  // The way to the server is cut meanwhile: whoever asks learns after ten seconds, the time that a connection may take
  // to be made, or its own limit, that nobody answers.
  void AdvanceWithoutAnswers(std::chrono::milliseconds by) {
    static constexpr std::chrono::seconds kDial{10};
    const auto is_over = [this](const CallPtr& call) {
      return now - call->since >= std::min<std::chrono::milliseconds>(call->call.limit, kDial);
    };
    for (const auto until = now + by; now < until;) {
      Advance(std::chrono::seconds(1));
      for (const auto& call : Open(sent)) {
        if (is_over(call)) Answer(*call, Unavailable("connect: no answer"));
      }
      for (const auto& watch : Open(watches)) {
        if (is_over(watch)) End(*watch, Unavailable("connect: no answer"));
      }
    }
  }

  std::vector<CallPtr> sent, watches;
  std::vector<std::string> closed;
  std::chrono::milliseconds now{0};

 private:
  struct OfCall : agent::Ticket {
    explicit OfCall(CallPtr of) : call(std::move(of)) {}
    ~OfCall() override { call->open = false; }
    CallPtr call;
  };
  struct OfTimer : agent::Ticket {
    explicit OfTimer(std::shared_ptr<bool> of) : open(std::move(of)) {}
    ~OfTimer() override { *open = false; }
    std::shared_ptr<bool> open;
  };
  struct Timer {
    std::shared_ptr<bool> open;
    std::function<void()> work;
  };

  std::deque<std::function<void()>> posted_;
  std::map<std::pair<std::chrono::milliseconds, uint64_t>, Timer> timers_;
  uint64_t next_timer_ = 0;
};

}  // namespace holdfast::fakes
