// SPDX-License-Identifier: Apache-2.0
#include "agent/report/mirror_pods.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/kube/pod_identity.h"
#include "agent/report/mirror_plan.h"
#include "agent/report/report_inbox.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using StatusPtr = std::shared_ptr<const corev1::PodStatus>;
using std::chrono::milliseconds;

std::string NameOf(const corev1::Pod& pod) {
  return StrCat(pod.metadata().namespace_(), "/", pod.metadata().name());
}

PodUid UidOf(const corev1::Pod& pod) { return PodUid(pod.metadata().uid()); }

bool IsMirror(const corev1::Pod& pod) {
  return pod.metadata().annotations().contains(kube::kConfigMirrorAnnotation);
}

PodPtr WithoutSpec(const corev1::Pod& pod) {
  auto copy = std::make_shared<corev1::Pod>();
  *copy->mutable_metadata() = pod.metadata();
  *copy->mutable_status() = pod.status();
  return copy;
}

}  // namespace

class MirrorPods::State : public std::enable_shared_from_this<State> {
 public:
  State(Api& api, PodReporter& reporter, MirrorPodsOptions options)
      : api_(api), reporter_(reporter), options_(std::move(options)) {}

  // From any thread.
  void Report(PodReport report) {
    const PodUid uid = UidOf(*report.pod);
    if (inbox_.Put(uid, std::move(report))) PostInbox();
  }
  void Forget(const PodUid& uid) {
    if (inbox_.Forget(uid)) PostInbox();
  }

  // On the API thread, as all that follows.
  void Close() {
    inbox_.Close();
    entries_.clear();
  }
  void SetNodeUid(const std::string& uid) {
    if (std::exchange(node_uid_, uid) != uid) ConsiderAll();
  }
  void ListBegins() { in_list_ = true; }
  void ListEnds() {
    in_list_ = false;
    if (!std::exchange(listed_, true)) ConsiderAll();
  }
  PodPtr Find(const PodUid& uid) const {
    const auto name = mirrors_.find(uid);
    return name == mirrors_.end() ? nullptr : entries_.at(name->second).mirror;
  }
  // The answer to a call may have come before what the watch says of an earlier state. A list is what there is, also where
  // a restored store has gone back.
  void Put(const corev1::Pod& pod) {
    const std::string name = NameOf(pod);
    Entry& entry = entries_[name];
    if (entry.deleted == UidOf(pod)) return;
    if (!in_list_ && entry.mirror != nullptr && VersionOf(*entry.mirror) > VersionOf(pod)) return;
    if (!entry.call) StopWaiting(entry);
    Keep(name, entry, WithoutSpec(pod));
    Consider(name);
  }
  void Gone(const PodUid& uid) {
    const auto known = mirrors_.find(uid);
    if (known == mirrors_.end()) return;
    const std::string name = known->second;
    Drop(entries_.at(name));
    Consider(name);
  }

 private:
  struct Entry {
    PodPtr pod;  // the static one
    StatusPtr status;
    bool pod_is_gone = false;
    PodPtr mirror;
    StatusPtr told;  // to the mirror that is there
    PodUid deleted;  // of the mirror whose end the server has confirmed
    TicketPtr call, timer;
    bool waits = false, queued = false;
    int failures = 0;
    std::string trouble;  // as it was told
  };

  void PostInbox() {
    api_.Post([self = shared_from_this()] { self->TakeInbox(); });
  }

  void TakeInbox() {
    ReportInbox::Content taken = inbox_.Take();
    for (const PodUid& uid : taken.forgotten) PodIsGone(uid);
    for (auto& [uid, report] : taken.reports) PodIsHere(uid, report);
  }

  void PodIsGone(const PodUid& uid) {
    const auto known = pods_.find(uid);
    if (known == pods_.end()) return;
    const std::string name = known->second;
    pods_.erase(known);
    Entry& entry = entries_.at(name);
    if (UidOf(*entry.pod) != uid) return;
    entry.pod.reset();
    entry.status.reset();
    entry.pod_is_gone = true;
    if (!entry.call) StopWaiting(entry);
    Consider(name);
  }

  void PodIsHere(const PodUid& uid, PodReport& report) {
    const std::string name = NameOf(*report.pod);
    Entry& entry = entries_[name];
    const bool is_new = entry.pod == nullptr || UidOf(*entry.pod) != uid;
    if (is_new && entry.pod != nullptr) pods_.erase(UidOf(*entry.pod));
    pods_[uid] = name;
    entry.pod = std::move(report.pod);
    entry.status = std::move(report.status);
    entry.pod_is_gone = false;
    if (is_new && !entry.call) StopWaiting(entry);
    Consider(name);
  }

  void ConsiderAll() {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    for (const std::string& name : names) Consider(name);
  }

  // Nothing before the first list: what is not known may be there.
  void Consider(const std::string& name) {
    Entry& entry = entries_.at(name);
    if (!listed_ || entry.call || entry.waits) return;
    switch (NextMirrorStep({entry.pod.get(), entry.mirror.get(), node_uid_, entry.pod_is_gone})) {
      case MirrorStep::kCreate:
      case MirrorStep::kDelete:
        return Enqueue(name, entry);
      case MirrorStep::kLookLater:
        return WaitFor(name, entry, kPatience);
      case MirrorStep::kNone:
        break;
    }
    if (entry.pod == nullptr && entry.mirror == nullptr) {
      entries_.erase(name);
    } else if (entry.mirror != nullptr && entry.status != entry.told) {
      entry.told = entry.status;
      reporter_.Report({entry.mirror, entry.status});
    }
  }

  void Enqueue(const std::string& name, Entry& entry) {
    if (!std::exchange(entry.queued, true)) queue_.push_back(name);
    SendWaiting();
  }

  // Looked at only now: what was to be done when it began to wait may be done.
  void SendWaiting() {
    while (in_flight_ < kMost && !queue_.empty()) {
      const std::string name = std::move(queue_.front());
      queue_.pop_front();
      const auto it = entries_.find(name);
      if (it == entries_.end() || !std::exchange(it->second.queued, false)) continue;
      Entry& entry = it->second;
      if (entry.call || entry.waits) continue;
      const MirrorStep step =
          NextMirrorStep({entry.pod.get(), entry.mirror.get(), node_uid_, entry.pod_is_gone});
      if (step == MirrorStep::kCreate) SendCreate(name, entry);
      if (step == MirrorStep::kDelete) SendDelete(name, entry);
    }
  }

  void SendCreate(const std::string& name, Entry& entry) {
    ++in_flight_;
    ApiCall call =
        PostOf(StrCat("/api/v1/namespaces/", entry.pod->metadata().namespace_(), "/pods"),
               MirrorOf(*entry.pod, options_.node_name, node_uid_));
    call.lane = ApiLane::kPods;
    entry.call =
        api_.Send(std::move(call), [weak = weak_from_this(), name](const Result<ApiReply>& reply) {
          if (const auto self = weak.lock()) self->Created(name, reply);
        });
    HOLDFAST_PAUSE_POINT("mirror.posted");
  }

  void SendDelete(const std::string& name, Entry& entry) {
    ++in_flight_;
    entry.call = api_.Send(
        DeleteNow(PathOf(*entry.mirror), UidOf(*entry.mirror)),
        [weak = weak_from_this(), name, uid = UidOf(*entry.mirror)](const Result<ApiReply>& reply) {
          if (const auto self = weak.lock()) self->Deleted(name, uid, reply);
        });
  }

  Entry& Answered(const std::string& name) {
    Entry& entry = entries_.at(name);  // one with a call stays
    entry.call.reset();
    --in_flight_;
    return entry;
  }

  void SendLook(const std::string& name, Entry& entry) {
    ++in_flight_;
    ApiCall look;
    look.path = PathOf(*entry.pod);
    look.lane = ApiLane::kPods;
    look.repeatable = true;
    entry.call =
        api_.Send(std::move(look), [weak = weak_from_this(), name](const Result<ApiReply>& reply) {
          if (const auto self = weak.lock()) self->Looked(name, reply);
        });
  }

  // One that was made though its answer was lost is seen by the watch.
  void Created(const std::string& name, const Result<ApiReply>& reply) {
    Entry& entry = Answered(name);
    PodPtr made = reply && reply->ok() ? PodIn(*reply) : nullptr;
    if (made != nullptr) {
      Succeeded(entry);
      if (entry.mirror == nullptr) Keep(name, entry, std::move(made));
      Consider(name);
    } else if (reply && reply->code == 409 && entry.mirror == nullptr && entry.pod != nullptr) {
      SendLook(name, entry);
    } else {
      Failed(name, entry, "no mirror", reply);
    }
    SendWaiting();
  }

  // Who has the name. An API server that has just begun says of a pod to be deleted that it is not found: its admission
  // does not know it yet.
  void Looked(const std::string& name, const Result<ApiReply>& reply) {
    Entry& entry = Answered(name);
    PodPtr found = reply && reply->ok() ? PodIn(*reply) : nullptr;
    if (found != nullptr && IsMirror(*found)) {
      entry.deleted = PodUid();
      Keep(name, entry, std::move(found));
      WaitFor(name, entry, RetryDelay(entry));
    } else if (found != nullptr) {
      ApiReply taken;
      taken.code = 409;
      taken.reason = "AlreadyExists";
      taken.message = "another pod has the name";
      Failed(name, entry, "no mirror", taken);
    } else if (reply && reply->code == 404) {
      WaitFor(name, entry, RetryDelay(entry));
    } else {
      Failed(name, entry, "no mirror", reply);
    }
    SendWaiting();
  }

  void Deleted(const std::string& name, const PodUid& uid, const Result<ApiReply>& reply) {
    Entry& entry = Answered(name);
    if (reply && (reply->ok() || reply->code == 404 || IsOfAnother(*reply))) {
      Succeeded(entry);
      entry.deleted = uid;
      if (entry.mirror != nullptr && UidOf(*entry.mirror) == uid) Drop(entry);
      Consider(name);
    } else {
      Failed(name, entry, "its mirror cannot be deleted", reply);
    }
    SendWaiting();
  }

  static void Succeeded(Entry& entry) {
    entry.failures = 0;
    entry.trouble.clear();
  }

  static milliseconds RetryDelay(Entry& entry) {
    return std::min(kFirstRetry * (1 << std::min(entry.failures++, 5)), kLastRetry);
  }

  // Not when an API server does not answer, which everybody tells.
  void Failed(const std::string& name, Entry& entry, const char* what,
              const Result<ApiReply>& reply) {
    if (reply && !reply->ok() && !IsPassing(*reply)) {
      const std::string text =
          StrCat("static pod ", name, ": ", what, ": the API server says ", reply->code, " ",
                 reply->reason, ": ", reply->message.substr(0, 300), "; the pod runs all the same");
      if (std::exchange(entry.trouble, text) != text) options_.trouble(text);
    }
    WaitFor(name, entry, RetryDelay(entry));
  }

  void Keep(const std::string& name, Entry& entry, PodPtr mirror) {
    if (entry.mirror != nullptr && UidOf(*entry.mirror) != UidOf(*mirror)) Drop(entry);
    entry.mirror = std::move(mirror);
    const PodUid uid = UidOf(*entry.mirror);
    mirrors_[uid] = name;
    options_.seen(uid);
  }

  void Drop(Entry& entry) {
    const PodUid uid = UidOf(*entry.mirror);
    mirrors_.erase(uid);
    entry.mirror.reset();
    entry.told.reset();
    reporter_.Forget(uid);
    options_.seen(uid);
  }

  static void StopWaiting(Entry& entry) {
    entry.timer.reset();
    entry.waits = false;
  }

  void WaitFor(const std::string& name, Entry& entry, milliseconds span) {
    entry.waits = true;
    entry.timer = api_.After(span, [weak = weak_from_this(), name] {
      if (const auto self = weak.lock()) self->WaitIsOver(name);
    });
  }

  void WaitIsOver(const std::string& name) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) return;
    StopWaiting(it->second);
    it->second.pod_is_gone = it->second.pod == nullptr;
    Consider(name);
  }

  Api& api_;
  PodReporter& reporter_;
  const MirrorPodsOptions options_;

  ReportInbox inbox_;

  // Of the API thread.
  std::map<std::string, Entry> entries_;  // "namespace/name"
  std::map<PodUid, std::string> pods_;    // static pods
  std::map<PodUid, std::string> mirrors_;
  std::deque<std::string> queue_;  // wait for one of kMost
  size_t in_flight_ = 0;
  std::string node_uid_;
  bool listed_ = false;
  bool in_list_ = false;
};

MirrorPods::MirrorPods(Api& api, PodReporter& reporter, MirrorPodsOptions options)
    : reporter_(reporter), state_(std::make_shared<State>(api, reporter, std::move(options))) {}

MirrorPods::~MirrorPods() { state_->Close(); }

void MirrorPods::Report(PodReport report) {
  if (report.origin == PodOrigin::kApi) return reporter_.Report(std::move(report));
  state_->Report(std::move(report));
}

void MirrorPods::Forget(const PodUid& uid) {
  reporter_.Forget(uid);
  state_->Forget(uid);
}

void MirrorPods::SetNodeUid(const std::string& uid) { state_->SetNodeUid(uid); }

PodPtr MirrorPods::Find(const PodUid& uid) const { return state_->Find(uid); }

void MirrorPods::Put(kube::ObjectPtr object) {
  const auto* const pod = dynamic_cast<const corev1::Pod*>(object.get());
  if (pod != nullptr) state_->Put(*pod);
}

void MirrorPods::Gone(kube::ObjectPtr last) {
  const auto* const pod = dynamic_cast<const corev1::Pod*>(last.get());
  if (pod != nullptr) state_->Gone(UidOf(*pod));
}

void MirrorPods::ListBegins() { state_->ListBegins(); }
void MirrorPods::ListEnds() { state_->ListEnds(); }

}  // namespace holdfast::agent
