// SPDX-License-Identifier: Apache-2.0
#include "agent/report/api_pod_reporter.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "agent/kube/pod_status.h"
#include "agent/report/pod_calls.h"
#include "agent/report/report_inbox.h"
#include "agent/report/status_patch.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

using StatusPtr = std::shared_ptr<const corev1::PodStatus>;
using std::chrono::milliseconds;

bool IsReady(const corev1::PodStatus& status) {
  return std::ranges::any_of(status.conditions(), [](const corev1::PodCondition& condition) {
    return condition.type() == "Ready" && condition.status() == "True";
  });
}

// What controllers and people wait for.
bool IsUrgent(const corev1::PodStatus& server, const corev1::PodStatus& ours) {
  return server.phase() != ours.phase() || IsReady(server) != IsReady(ours);
}

}  // namespace

class ApiPodReporter::State : public std::enable_shared_from_this<State> {
 public:
  State(Api& api, ServerCopies find, std::function<void(const std::string&)> log)
      : api_(api), find_(std::move(find)), log_(std::move(log)) {}

  // From any thread.
  void Report(PodReport report) {
    const PodUid uid(report.pod->metadata().uid());
    if (inbox_.Put(uid, std::move(report))) PostInbox();
  }
  void Forget(const PodUid& uid) {
    if (inbox_.Forget(uid)) PostInbox();
  }

  // On the API thread, as all that follows.
  void Look(const PodUid& uid) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) return;
    if (find_(uid) == nullptr) return Drop(uid);
    Consider(uid, it->second);
  }
  void Listed() {
    for (auto& [uid, entry] : entries_) {
      if (std::exchange(entry.answered, nullptr) != nullptr) Consider(uid, entry);
    }
  }
  bool IsBusy() const { return in_flight_ > 0; }
  void Close() {
    inbox_.Close();
    entries_.clear();
  }

 private:
  enum class Wait : uint8_t { kNone, kGather, kRepair, kRetry };
  enum class Place : uint8_t { kNone, kOrdinary, kUrgent };
  // Two statuses and the patch between them. The same two meet more than once: when a patch is due, when its turn has
  // come, when it was answered.
  struct Comparison {
    PodPtr server;
    StatusPtr ours;
    std::string patch;
  };
  struct Entry {
    PodReport wanted;
    PodPtr answered;   // the server's copy in its last answer, until the watch has it
    StatusPtr agreed;  // the newest of ours that the server has in full
    Comparison compared;
    std::string patch;   // that was sent last
    std::string futile;  // that the server took and made nothing of
    TicketPtr call, timer;
    Wait wait = Wait::kNone;
    Place place = Place::kNone;  // in which queue
    bool refused = false;        // for what it said: another one may do
    bool told_end = false;  // the server has taken the last phase, with the ends of the containers
    bool deleted = false;   // the final DELETE has been answered
    bool gone = false;      // the object
    int failures = 0;
  };
  struct Step {
    enum class Kind : uint8_t { kNone, kPatch, kDelete };
    Kind kind = Kind::kNone;
    bool urgent = false;
  };

  void PostInbox() {
    api_.Post([self = shared_from_this()] { self->TakeInbox(); });
  }

  void TakeInbox() {
    ReportInbox::Content taken = inbox_.Take();
    for (const PodUid& uid : taken.forgotten) Drop(uid);
    for (auto& [uid, report] : taken.reports) {
      Entry& entry = entries_[uid];
      entry.wanted = std::move(report);
      if (std::exchange(entry.refused, false)) StopWaiting(entry);
      Consider(uid, entry);
    }
  }

  // The newer of what the watch and the last answer said; null when the watch does not have it.
  PodPtr ServerCopy(const PodUid& uid, Entry& entry) const {
    PodPtr watched = find_(uid);
    if (watched == nullptr || entry.answered == nullptr) return watched;
    if (VersionOf(*entry.answered) > VersionOf(*watched)) return entry.answered;
    entry.answered.reset();
    return watched;
  }

  static const std::string& PatchOf(const PodUid& uid, Entry& entry, const PodPtr& server) {
    Comparison& known = entry.compared;
    const StatusPtr& ours = entry.wanted.status;
    if (known.server != server || known.ours != ours) {
      known = {server, ours, StatusPatch(uid, server->status(), *ours)};
    }
    return known.patch;
  }

  // The end goes before what is left to say: with the object, nobody reads that any more.
  static Step NextStep(const PodUid& uid, Entry& entry, const PodPtr& server) {
    const std::string& patch = PatchOf(uid, entry, server);
    const bool differs = !patch.empty() && patch != entry.futile;
    const bool may_go = entry.wanted.released && server->metadata().has_deletiontimestamp() &&
                        kube::IsTerminalPhase(server->status().phase());
    if (may_go && !entry.deleted && (!differs || entry.told_end)) {
      return {Step::Kind::kDelete, true};
    }
    if (!differs) return {};
    return {Step::Kind::kPatch, IsUrgent(server->status(), *entry.wanted.status)};
  }

  void Consider(const PodUid& uid, Entry& entry) {
    if (entry.call || entry.gone || entry.wait == Wait::kRetry) return;
    const PodPtr server = ServerCopy(uid, entry);
    if (server == nullptr) return;
    const Step step = NextStep(uid, entry, server);
    const bool agreed = entry.agreed == entry.wanted.status;
    if (step.kind == Step::Kind::kNone) {
      entry.agreed = entry.wanted.status;
      StopWaiting(entry);
    } else if (step.kind == Step::Kind::kPatch && agreed) {
      WaitFor(uid, entry, Wait::kRepair, kRepair);
    } else if (step.urgent) {
      Enqueue(uid, entry, Place::kUrgent);
    } else if (entry.place == Place::kNone) {
      WaitFor(uid, entry, Wait::kGather, kGather);
    }
  }

  void StopWaiting(Entry& entry) {
    entry.timer.reset();
    entry.wait = Wait::kNone;
  }

  void WaitFor(const PodUid& uid, Entry& entry, Wait what, milliseconds span) {
    if (entry.wait == what) return;
    entry.wait = what;
    entry.timer = api_.After(span, [weak = weak_from_this(), uid] {
      if (const auto self = weak.lock()) self->WaitIsOver(uid);
    });
  }

  void WaitIsOver(const PodUid& uid) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) return;
    Enqueue(uid, it->second, it->second.wait == Wait::kGather ? Place::kOrdinary : Place::kUrgent);
  }

  // One that is overtaken in the ordinary queue stays there as well, and is nothing there.
  void Enqueue(const PodUid& uid, Entry& entry, Place place) {
    StopWaiting(entry);
    if (entry.place >= place) return;
    entry.place = place;
    (place == Place::kUrgent ? urgent_ : ordinary_).push_back(uid);
    SendWaiting();
  }

  void SendWaiting() {
    while (in_flight_ < kMost && !(urgent_.empty() && ordinary_.empty())) {
      std::deque<PodUid>& queue = urgent_.empty() ? ordinary_ : urgent_;
      const PodUid uid = std::move(queue.front());
      queue.pop_front();
      const auto it = entries_.find(uid);
      if (it == entries_.end()) continue;
      if (std::exchange(it->second.place, Place::kNone) != Place::kNone) SendOne(uid, it->second);
    }
  }

  // Compared only now: what was wanted when it began to wait may be old.
  void SendOne(const PodUid& uid, Entry& entry) {
    if (entry.call || entry.gone) return;
    const PodPtr server = ServerCopy(uid, entry);
    if (server == nullptr) return;
    const Step step = NextStep(uid, entry, server);
    if (step.kind == Step::Kind::kNone) entry.agreed = entry.wanted.status;
    if (step.kind == Step::Kind::kPatch) SendPatch(uid, entry, PatchOf(uid, entry, server));
    if (step.kind == Step::Kind::kDelete) SendDelete(uid, entry);
  }

  void SendPatch(const PodUid& uid, Entry& entry, std::string patch) {
    entry.patch = patch;
    ++in_flight_;
    entry.call = api_.Send({.verb = ApiVerb::kPatch,
                            .path = PathOf(*entry.wanted.pod) + "/status",
                            .content_type = kStrategicMergePatchType,
                            .body = std::move(patch),
                            .lane = ApiLane::kPods,
                            .repeatable = true},
                           [weak = weak_from_this(), uid,
                            status = entry.wanted.status](const Result<ApiReply>& reply) {
                             if (const auto self = weak.lock()) self->Patched(uid, status, reply);
                           });
  }

  void SendDelete(const PodUid& uid, Entry& entry) {
    ++in_flight_;
    entry.call = api_.Send(DeleteNow(PathOf(*entry.wanted.pod), uid),
                           [weak = weak_from_this(), uid](const Result<ApiReply>& reply) {
                             if (const auto self = weak.lock()) self->Deleted(uid, reply);
                           });
    HOLDFAST_PAUSE_POINT("report.final_delete_sent");
  }

  // nullptr when the pod was dropped meanwhile.
  Entry* Answered(const PodUid& uid) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) return nullptr;
    it->second.call.reset();
    --in_flight_;
    return &it->second;
  }

  void Patched(const PodUid& uid, const StatusPtr& status, const Result<ApiReply>& reply) {
    Entry* const entry = Answered(uid);
    if (entry == nullptr) return;
    if (reply && reply->ok()) {
      Accepted(uid, *entry, *status, *reply);
    } else if (reply && (reply->code == 404 || IsOfAnother(*reply))) {
      entry->gone = true;
    } else {
      Failed(uid, *entry, "status", reply);
    }
    SendWaiting();
  }

  void Accepted(const PodUid& uid, Entry& entry, const corev1::PodStatus& status,
                const ApiReply& reply) {
    if (kube::IsTerminalPhase(status.phase())) {
      HOLDFAST_PAUSE_POINT("report.terminal_accepted");
      entry.told_end = true;
    }
    entry.failures = 0;
    trouble_.clear();
    entry.futile.clear();
    PodPtr pod = PodIn(reply);
    // What the server made of it is seen when the watch has it.
    if (pod == nullptr) return WaitFor(uid, entry, Wait::kRetry, kFirstRetry);
    entry.answered = std::move(pod);
    const PodPtr server = ServerCopy(uid, entry);
    if (server == nullptr) return;
    const std::string& left = PatchOf(uid, entry, server);
    // Said again it would change no more than the first time.
    if (left == entry.patch) {
      entry.futile = left;
      Tell(StrCat("status of pod ", PathOf(*entry.wanted.pod),
                  ": the server took the patch and it changed nothing: ", left.substr(0, 200)));
    }
    entry.patch.clear();
    Consider(uid, entry);
  }

  void Deleted(const PodUid& uid, const Result<ApiReply>& reply) {
    Entry* const entry = Answered(uid);
    if (entry == nullptr) return;
    if (reply && reply->code == 404) {
      // So says the admission of an API server that has just begun, too, which knows no pods yet. Where it is true the
      // watch says so.
      WaitFor(uid, *entry, Wait::kRetry, RetryDelay(*entry));
    } else if (reply && (reply->ok() || IsOfAnother(*reply))) {
      entry->deleted = true;
      entry->gone = !reply->ok();
      entry->failures = 0;
      Consider(uid, *entry);
    } else {
      Failed(uid, *entry, "deletion", reply);
    }
    SendWaiting();
  }

  static milliseconds RetryDelay(Entry& entry) {
    return std::min(kFirstRetry * (1 << std::min(entry.failures++, 7)), kLastRetry);
  }

  void Failed(const PodUid& uid, Entry& entry, const char* what, const Result<ApiReply>& reply) {
    milliseconds delay = RetryDelay(entry);
    if (!reply) {
      Tell(StrCat("pods: ", reply.error().message(), ", trying again"));
    } else {
      if (reply->retry_after) delay = std::max<milliseconds>(delay, *reply->retry_after);
      entry.refused = !IsPassing(*reply) && reply->code != 409;
      const std::string whose = entry.refused ? PathOf(*entry.wanted.pod) : "";
      Tell(StrCat(what, " of pods ", whose, ": ", reply->code, " ", reply->reason, " ",
                  reply->message.substr(0, 200), ", trying again"));
    }
    WaitFor(uid, entry, Wait::kRetry, delay);
  }

  void Tell(std::string text) {
    if (trouble_ == text) return;
    trouble_ = std::move(text);
    log_(trouble_);
  }

  void Drop(const PodUid& uid) {
    const auto it = entries_.find(uid);
    if (it == entries_.end()) return;
    if (it->second.call) --in_flight_;
    entries_.erase(it);
    SendWaiting();
  }

  Api& api_;
  const ServerCopies find_;
  const std::function<void(const std::string&)> log_;

  ReportInbox inbox_;

  // Of the API thread.
  std::map<PodUid, Entry> entries_;
  std::deque<PodUid> urgent_, ordinary_;  // wait for one of kMost
  size_t in_flight_ = 0;
  std::string trouble_;  // as it was told
};

ApiPodReporter::ApiPodReporter(Api& api, ServerCopies find,
                               std::function<void(const std::string&)> log)
    : state_(std::make_shared<State>(api, std::move(find), std::move(log))) {}

ApiPodReporter::~ApiPodReporter() { state_->Close(); }

void ApiPodReporter::Report(PodReport report) { state_->Report(std::move(report)); }

void ApiPodReporter::Forget(const PodUid& uid) { state_->Forget(uid); }

void ApiPodReporter::Look(const PodUid& uid) { state_->Look(uid); }

void ApiPodReporter::Listed() { state_->Listed(); }

bool ApiPodReporter::IsBusy() const { return state_->IsBusy(); }

}  // namespace holdfast::agent
