// SPDX-License-Identifier: Apache-2.0
// WatchStream: one watcher. The view's callbacks put changes into a ChangeQueue; gRPC takes them out
// one message at a time, so a slow reader holds back only itself.
//
// Lifetime: the object owns itself until OnDone(); the subscription's callback holds a weak
// pointer.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "agent/api/grpc/change_queue.h"
#include "agent/api/grpc/server_core.h"
#include "agent/api/grpc/service.h"
#include "agent/view/pod_view.h"
#include "holdfast/v1/node_agent.grpc.pb.h"

namespace holdfast::agent::api {

// Message: PodChange or EventChange. Ptr: PodPtr or EventPtr.
template <class Message, class Ptr>
class WatchStream final : public grpc::ServerWriteReactor<Message>,
                          public std::enable_shared_from_this<WatchStream<Message, Ptr>> {
 public:
  using Self = WatchStream<Message, Ptr>;
  using Filter = std::function<bool(const Ptr&)>;
  using Fill = std::function<void(const Ptr&, Message&)>;
  // Subscribes; its callback calls Offer().
  using Subscribe = std::function<std::unique_ptr<Subscription>(std::weak_ptr<Self>)>;

  static Self* Start(ServerCore& core, const std::string& grpc_peer, Filter filter, Fill fill,
                     Subscribe subscribe) {
    auto stream =
        std::shared_ptr<Self>(new Self(core, grpc_peer, std::move(filter), std::move(fill)));
    stream->self_ = stream;
    // Subscribing takes the view's lock and replays everything: not on gRPC's thread.
    core.requests.Post([stream, subscribe = std::move(subscribe)] {
      auto subscription = subscribe(stream);
      const std::lock_guard lock(stream->mutex_);
      stream->subscription_ = std::move(subscription);
      stream->queue_.Bookmark();
      stream->WriteNext();
    });
    return stream.get();
  }

  // Called by the view.
  void Offer(ChangeType type, const std::string& key, const Ptr& object) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    const bool gone = type == ChangeType::kDeleted || !filter_(object);
    if (!(gone ? queue_.Remove(key, object) : queue_.Set(key, object))) {
      return End({grpc::StatusCode::RESOURCE_EXHAUSTED,
                  "watcher too slow: too many changes wait to be read; watch again"});
    }
    WriteNext();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    share_.reset();
    if (!ok) return End(grpc::Status::CANCELLED);
    WriteNext();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    End(grpc::Status::CANCELLED);
  }

  void OnDone() override {
    // The subscription's destructor may wait for the view: not on gRPC's thread.
    core_.requests.Post([self = std::move(self_)] {
      std::unique_ptr<Subscription> subscription;
      const std::lock_guard lock(self->mutex_);
      subscription = std::move(self->subscription_);
    });
  }

 private:
  WatchStream(ServerCore& core, const std::string& grpc_peer, Filter filter, Fill fill)
      : core_(core),
        uid_(CallerUid(core, grpc_peer)),
        filter_(std::move(filter)),
        fill_(std::move(fill)),
        queue_(core.options.pending_changes) {}

  void WriteNext() {  // mutex_ held
    if (writing_ || finished_) return;
    auto item = queue_.Take();
    if (!item) return;
    message_.Clear();
    message_.set_type(WireType(item->change));
    if (item->object) fill_(item->object, message_);
    share_ = core_.unread_answers.Take(uid_, message_.ByteSizeLong());
    if (!share_) {
      message_ = Message();  // freed now: this object's turn to be destroyed may be a while away
      return End(UnreadAnswers());
    }
    writing_ = true;
    this->StartWrite(&message_);
  }

  void End(const grpc::Status& status) {  // mutex_ held
    if (finished_) return;
    finished_ = true;
    this->Finish(status);
  }

  static v1::ChangeType WireType(Change change) {
    switch (change) {
      case Change::kAdded:
        return v1::ADDED;
      case Change::kModified:
        return v1::MODIFIED;
      case Change::kDeleted:
        return v1::DELETED;
      case Change::kBookmark:
        return v1::BOOKMARK;
    }
    return v1::CHANGE_TYPE_UNSPECIFIED;
  }

  ServerCore& core_;
  const uid_t uid_;
  const Filter filter_;
  const Fill fill_;
  std::shared_ptr<Self> self_;
  std::mutex mutex_;
  std::unique_ptr<Subscription> subscription_;
  ChangeQueue<Ptr> queue_;
  Message message_;
  std::optional<AnswerBudget::Share> share_;  // of the message under way
  bool writing_ = false;
  bool finished_ = false;
};

}  // namespace holdfast::agent::api
