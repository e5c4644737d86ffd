// SPDX-License-Identifier: Apache-2.0
#include "agent/report/event_poster.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "agent/report/event_queue.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMostWaiting = 1000;
constexpr size_t kMostOnTheirWay = 2;
constexpr int kMostPosts = 12;
constexpr seconds kPause{10};  // after a try that failed
// Before the first of several: what they tell of is still being done, and that comes first.
constexpr milliseconds kGather{100};
constexpr milliseconds kHold{100};
constexpr int kMostHolds = 10;
constexpr seconds kQuietAboutLost{60};  // between two lines about lost events

std::string PathOf(const corev1::Event& event) {
  return StrCat("/api/v1/namespaces/", event.metadata().namespace_(), "/events");
}

ApiCall CreationOf(const corev1::Event& event) {
  corev1::Event fresh = event;  // without what only a server may give
  fresh.mutable_metadata()->clear_resourceversion();
  fresh.mutable_metadata()->clear_creationtimestamp();
  return PostOf(PathOf(event), fresh);
}

ApiCall PatchOf(const corev1::Event& event) {
  const kube::Node whole = kube::ToTree(event);
  kube::Node patch = kube::Node::Map();
  for (const char* key : {"count", "lastTimestamp", "message"}) {
    if (const kube::Node* value = whole.Find(key)) patch.Add(key, *value);
  }
  ApiCall call;
  call.verb = ApiVerb::kPatch;
  call.path = StrCat(PathOf(event), "/", event.metadata().name());
  call.content_type = kStrategicMergePatchType;
  call.body = kube::CompactJson(patch);
  return call;
}

// The server, or the way to it, is in trouble: the same may work later.
bool IsTrouble(const Result<ApiReply>& reply) {
  return !reply || reply->code == 429 || reply->code >= 500;
}

}  // namespace

class EventPoster::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Api& api, EventPosterOptions options) : api_(api), options_(std::move(options)) {}

  // From any thread, under the view's lock.
  void Add(const EventChange& change) {
    {
      const std::lock_guard lock(mutex_);
      if (!queue_.Add(change)) ++dropped_;
      if (std::exchange(posted_, true)) return;
    }
    api_.Post(Guarded(weak_from_this(), &Impl::Drain));
  }

  void Stop() {
    stopped_ = true;
    on_their_way_.clear();
    pause_.reset();
    hold_.reset();
    quiet_.reset();
  }
  bool stopped() const { return stopped_; }

 private:
  void Drain() {
    {
      const std::lock_guard lock(mutex_);
      posted_ = false;
    }
    if (!quiet_) TellDropped();
    if (on_their_way_.empty()) Hold(kGather);
    Pump();
  }

  void Pump() {
    if (pause_ || hold_) return;
    while (on_their_way_.size() < kMostOnTheirWay) {
      if (Holds()) return;
      std::optional<WaitingEvent> next = Take();
      if (!next) return;
      Send(std::move(*next));
    }
  }

  bool Holds() {
    if (!options_.busy || !options_.busy()) {
      holds_ = 0;
      return false;
    }
    if (holds_ >= kMostHolds) return false;
    ++holds_;
    Hold(kHold);
    return true;
  }

  void Hold(milliseconds span) {
    if (!hold_) hold_ = api_.After(span, Guarded(weak_from_this(), &Impl::HoldEnds));
  }

  void HoldEnds() {
    hold_.reset();
    Pump();
  }

  std::optional<WaitingEvent> Take() {
    const std::lock_guard lock(mutex_);
    return queue_.Take();
  }

  void Send(WaitingEvent waiting) {
    ApiCall call = waiting.create ? CreationOf(*waiting.event) : PatchOf(*waiting.event);
    call.lane = ApiLane::kEvents;
    const uint64_t id = ++last_id_;
    TicketPtr& ticket = on_their_way_[id];
    ticket = api_.Send(std::move(call), [weak = weak_from_this(), id, waiting = std::move(waiting)](
                                            const Result<ApiReply>& reply) {
      const auto self = weak.lock();
      if (self && !self->stopped()) self->OnReply(id, waiting, reply);
    });
  }

  // (`sent` by value: the call that owns the argument may go with its ticket.)
  void OnReply(uint64_t id, WaitingEvent sent, const Result<ApiReply>& reply) {
    on_their_way_.erase(id);
    if (IsTrouble(reply)) {
      Delay(std::move(sent), reply);
    } else if (reply->code == 404 && !sent.create) {  // it expired there
      sent.create = true;
      PutBack(std::move(sent));
    } else {
      Finish(sent);
      // 409: an earlier try arrived after all.
      if (!reply->ok() && reply->code != 409) TellRefused(*reply, sent);
    }
    Pump();
  }

  void Delay(WaitingEvent failed, const Result<ApiReply>& reply) {
    if (++failed.tries >= kMostPosts) {
      Finish(failed);
      const std::lock_guard lock(mutex_);
      ++dropped_;
    } else {
      PutBack(std::move(failed));
    }
    const seconds asked = reply && reply->retry_after ? *reply->retry_after : kPause;
    pause_ = api_.After(std::max(asked, seconds(1)), Guarded(weak_from_this(), &Impl::Resume));
  }

  void Resume() {
    pause_.reset();
    if (!quiet_) TellDropped();
    Pump();
  }

  void Finish(const WaitingEvent& sent) {
    const std::lock_guard lock(mutex_);
    queue_.Finish(sent);
  }

  void PutBack(WaitingEvent failed) {
    const std::lock_guard lock(mutex_);
    queue_.PutBack(std::move(failed));
  }

  void TellDropped() {
    size_t dropped = 0;
    {
      const std::lock_guard lock(mutex_);
      dropped = std::exchange(dropped_, 0);
    }
    if (dropped == 0) return;
    Tell(StrCat("events: ", dropped, " were not sent: ", kMostWaiting,
                " wait, or the API server was away for too long"));
  }

  void TellRefused(const ApiReply& reply, const WaitingEvent& sent) {
    if (quiet_) return;
    Tell(StrCat("events: ", ErrorOf(reply, StrCat("POST ", PathOf(*sent.event))).message()));
  }

  void Tell(const std::string& line) {
    options_.log(line);
    quiet_ = api_.After(kQuietAboutLost, Guarded(weak_from_this(), &Impl::Speak));
  }

  void Speak() {
    quiet_.reset();
    TellDropped();
  }

  Api& api_;
  const EventPosterOptions options_;
  bool stopped_ = false;
  uint64_t last_id_ = 0;
  std::map<uint64_t, TicketPtr> on_their_way_;
  int holds_ = 0;  // since nothing more important waited
  TicketPtr pause_, hold_, quiet_;

  std::mutex mutex_;  // guards what follows; held for moments only
  EventQueue queue_{kMostWaiting};
  size_t dropped_ = 0;
  bool posted_ = false;  // Drain() will run
};

EventPoster::EventPoster(Api& api, PodView& view, EventPosterOptions options)
    : impl_(std::make_shared<Impl>(api, std::move(options))) {
  subscription_ =
      view.WatchEvents([impl = impl_](const EventChange& change) { impl->Add(change); });
}
EventPoster::~EventPoster() {
  subscription_.reset();
  impl_->Stop();
}

}  // namespace holdfast::agent
