// SPDX-License-Identifier: Apache-2.0
#include "agent/node/heartbeat.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "agent/kube/codec.h"
#include "agent/node/node_lease.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lease = k8s::io::api::coordination::v1::Lease;

const kube::TypeMeta kLeaseType{"coordination.k8s.io/v1", "Lease"};

constexpr seconds kEvery{10};
constexpr double kBeatSpread = 0.04;  // of that, so that nodes do not beat together
constexpr seconds kLimit{10};         // the server gives up at the same moment
constexpr char kServersLimit[] = "?timeout=10s";
constexpr int kTriesPerBeat = 5;
constexpr milliseconds kFirstBeatRetry{200};  // doubled
constexpr int kLostUntilClosed = 2;

}  // namespace

class Heartbeat::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Api& api, const Clock& clock, HeartbeatOptions options)
      : api_(api), clock_(clock), options_(std::move(options)) {}

  void SetNodeUid(const std::string& uid) {
    api_.Post([weak = weak_from_this(), uid] {
      const auto self = weak.lock();
      if (self && !self->stopped()) self->TakeUid(uid);
    });
  }

  void Stop() {
    stopped_ = true;
    CancelAll();
  }
  bool stopped() const { return stopped_; }

 private:
  void TakeUid(const std::string& uid) {
    if (uid == uid_) return;
    uid_ = uid;
    lease_.reset();
    CancelAll();
    if (!uid_.empty()) Beat();
  }

  void CancelAll() {
    call_.reset();
    next_.reset();
    retry_.reset();
  }

  void Beat() {
    const double late = std::uniform_real_distribution<double>(0, kBeatSpread)(random_);
    next_ = api_.After(milliseconds(static_cast<int64_t>(
                           static_cast<double>(milliseconds(kEvery).count()) * (1 + late))),
                       Guarded(weak_from_this(), &Impl::Beat));
    tries_ = 0;
    if (call_) return;  // it ends within this beat
    retry_.reset();
    Try();
  }

  // A Lease that was read, or written, is written again without a look at it.
  void Try() {
    if (lease_) return Write(ApiVerb::kPut, *lease_);
    Send(ApiVerb::kGet, "", &Impl::OnRead);
  }

  void Write(ApiVerb verb, const Lease& last) {
    const Lease lease = RenewedLease(last, options_.node_name, uid_, clock_.Wall());
    Send(verb, kube::EncodeEnvelope(lease), &Impl::OnWritten);
    HOLDFAST_PAUSE_POINT("cluster.lease_sent");
  }

  void Send(ApiVerb verb, std::string body, void (Impl::*done)(const Result<ApiReply>&)) {
    ApiCall call;
    call.verb = verb;
    call.path = NodeLeasesPath();
    if (verb != ApiVerb::kPost) call.path += "/" + options_.node_name;
    what_ = StrCat(verb == ApiVerb::kGet   ? "GET "
                   : verb == ApiVerb::kPut ? "PUT "
                                           : "POST ",
                   call.path);
    call.path += kServersLimit;
    if (!body.empty()) call.content_type = kProtobufType;
    call.body = std::move(body);
    call.lane = ApiLane::kHeartbeat;
    call.limit = kLimit;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), done));
  }

  void OnRead(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->code == 404) return Write(ApiVerb::kPost, {});
    if (Take(reply)) Write(ApiVerb::kPut, *lease_);
  }

  void OnWritten(const Result<ApiReply>& reply) {
    call_.reset();
    if (!Take(reply)) return;
    if (!told_.empty()) options_.log("heartbeat: it arrives again");
    told_.clear();
  }

  // Whether the reply is the Lease; otherwise another try was arranged for.
  bool Take(const Result<ApiReply>& reply) {
    if (!reply) {
      Tell(reply.error());
      if (++lost_ >= kLostUntilClosed) CloseAll();
      Again(milliseconds(0));
      return false;
    }
    lost_ = 0;
    if (reply->code == 404 || reply->code == 409) {  // deleted, or somebody else wrote it
      lease_.reset();
      Again(milliseconds(0));
      return false;
    }
    auto lease = reply->ok() ? DecodeObject(reply->body, kLeaseType)
                             : Result<kube::ObjectPtr>(ErrorOf(*reply, what_));
    if (!lease) {
      Tell(lease.error());
      Again(reply->retry_after.value_or(seconds(0)));
      return false;
    }
    lease_ = std::move(static_cast<Lease&>(**lease));
    return true;
  }

  // Within this beat; the next one begins anew.
  void Again(milliseconds at_least) {
    if (++tries_ >= kTriesPerBeat) return;
    retry_ = api_.After(std::max(at_least, kFirstBeatRetry * (1 << tries_)),
                        Guarded(weak_from_this(), &Impl::Try));
  }

  void CloseAll() {
    lost_ = 0;
    const std::string why = StrCat("two heartbeats did not arrive: ", told_);
    std::vector<Api*> all = options_.others;
    all.push_back(&api_);
    for (Api* api : all) api->Post([api, why] { api->CloseAll(why); });
  }

  void Tell(const Error& error) {
    if (told_.empty()) options_.log(StrCat("heartbeat: ", error.message()));
    told_ = error.message();
  }

  Api& api_;
  const Clock& clock_;
  const HeartbeatOptions options_;
  std::minstd_rand random_{std::random_device()()};

  bool stopped_ = false;
  std::string uid_;             // of the Node; "": there is none
  std::optional<Lease> lease_;  // as the server gave it last
  std::string what_;            // the request that was sent last
  std::string told_;            // what is wrong; "" while all is well
  int tries_ = 0;               // of this beat that failed
  int lost_ = 0;                // in a row, without an answer of the server
  TicketPtr call_, next_, retry_;
};

Heartbeat::Heartbeat(Api& api, const Clock& clock, HeartbeatOptions options)
    : impl_(std::make_shared<Impl>(api, clock, std::move(options))) {}
Heartbeat::~Heartbeat() { impl_->Stop(); }
void Heartbeat::SetNodeUid(const std::string& uid) { impl_->SetNodeUid(uid); }

}  // namespace holdfast::agent
