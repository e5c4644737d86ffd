// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_registrar.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "agent/cluster/reflector.h"
#include "agent/node/node_fact.h"
#include "agent/node/node_patch.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr char kNodes[] = "/api/v1/nodes";
const kube::TypeMeta kNodeType{"v1", "Node"};

constexpr milliseconds kFirstRegisterDelay{100};  // doubled up to the next
constexpr milliseconds kLastRegisterDelay{7'000};
constexpr seconds kStatusEvery{10};  // compared; sent when it changed
constexpr minutes kReportEvery{5};   // sent in any case
constexpr seconds kBadUntilNotReady{30};
constexpr int kTriesPerPeriod = 5;
constexpr seconds kConfirmAfter{2};  // that the Node is gone
constexpr int kConfirmations = 2;
constexpr seconds kFirstAgainDelay{
    5};  // to register a Node that was deleted; doubled up to the next
constexpr seconds kLastAgainDelay{300};
constexpr seconds kQuiet{60};  // the same trouble is not told again for so long

ApiCall CallOf(ApiVerb verb, std::string path) {
  ApiCall call;
  call.verb = verb;
  call.path = std::move(path);
  call.lane = ApiLane::kPods;
  return call;
}

}  // namespace

class NodeRegistrar::Impl : public ObjectHandler, public std::enable_shared_from_this<Impl> {
 public:
  Impl(Api& api, const Clock& clock, NodeRegistrarOptions options)
      : api_(api),
        clock_(clock),
        options_(std::move(options)),
        inputs_(options_.ready_inputs),
        path_(StrCat(kNodes, "/", options_.name)) {}

  void Start() { api_.Post(Guarded(weak_from_this(), &Impl::Begin)); }
  void Stop() {
    stopped_ = true;
    for (TicketPtr* ticket :
         {&reflector_, &call_, &wait_, &period_, &report_, &patience_, &quiet_, &settled_}) {
      ticket->reset();
    }
  }
  bool stopped() const { return stopped_; }

  std::shared_ptr<const NodeFact> Get() const {
    const std::lock_guard lock(mutex_);
    return fact_;
  }
  void SetListener(std::function<void()> changed) {
    const std::lock_guard lock(mutex_);
    listener_ = std::move(changed);
  }
  void SetReadyInput(const std::string& input, const std::string& problem) {
    api_.Post([weak = weak_from_this(), input, problem] {
      const auto self = weak.lock();
      if (self && !self->stopped()) self->TakeInput(input, problem);
    });
  }

  // --- of the reflector ---

  void ListBegins() override { in_list_ = true; }
  void ListEnds() override { in_list_ = false; }
  void Put(kube::ObjectPtr object) override {
    Learn(std::move(static_cast<corev1::Node&>(*object)), in_list_);
    if (stage_ != Stage::kRegistered && !call_) Adopt();
  }
  void Gone(kube::ObjectPtr last) override {
    if (server_ && server_->metadata().uid() == MarkOf(*last).uid) Missing();
  }
  void Trouble(const Error& error) override { TellTrouble("watch", error); }

 private:
  enum class Stage : uint8_t { kUnregistered, kRegistered, kConfirming };

  void Begin() {
    ReflectorOptions own;
    own.path = kNodes;
    own.selectors = StrCat("fieldSelector=metadata.name%3D", options_.name);
    own.type = kNodeType;
    own.lane = ApiLane::kPods;
    reflector_ = Reflect(api_, std::move(own), *this);
    Register();
  }

  // --- to be there ---

  void Register() {
    const auto facts = options_.description();
    if (!options_.register_node || call_) return;
    if (facts == nullptr) return RegisterAfter(kFirstRegisterDelay);
    const corev1::Node node = BuildNode(*facts, options_.registration,
                                        *DecideReady(inputs_, std::nullopt, false), clock_.Wall());
    pending_ = node.status();
    before_.Clear();
    ApiCall call = PostOf(kNodes, node);
    call.lane = ApiLane::kPods;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnRegistered));
  }

  void RegisterAfter(milliseconds delay) {
    wait_ = api_.After(delay, Guarded(weak_from_this(), &Impl::Register));
  }

  void OnRegistered(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->code == 409) {
      reconcile_meta_ = true;
      return Fetch();
    }
    if (const auto error = Take(reply, StrCat("POST ", kNodes))) {
      TellTrouble("register", *error);
      register_delay_ = std::min(register_delay_ * 2, kLastRegisterDelay);
      return RegisterAfter(DelayOf(reply, register_delay_));
    }
    Sent();
    Adopt();
  }

  // It is there, whoever made it.
  void Adopt() {
    if (!server_) return;
    wait_.reset();
    stage_ = Stage::kRegistered;
    register_delay_ = kFirstRegisterDelay;
    tries_ = 0;
    settled_ = api_.After(kLastAgainDelay, Guarded(weak_from_this(), &Impl::Settle));
    TellReboot();
    Period();
  }

  void Settle() { again_delay_ = kFirstAgainDelay; }

  void TellReboot() {
    const auto facts = options_.description();
    const std::string& before = server_->status().nodeinfo().bootid();
    if (facts == nullptr || before.empty() || before == facts->machine.boot_id) return;
    TellEvent(
        true, "Rebooted",
        StrCat("Node ", options_.name, " has been rebooted, boot id: ", facts->machine.boot_id));
  }

  // --- to be gone ---

  // A server says that there is no such Node. It is asked again: perhaps one of several that is behind said so.
  void Missing() {
    server_.reset();
    stage_ = Stage::kConfirming;
    reconcile_meta_ = true;
    report_due_ = true;
    missing_ = 0;
    wait_ = api_.After(milliseconds(0), Guarded(weak_from_this(), &Impl::Confirm));
  }

  void Confirm() {
    call_ = api_.Send(CallOf(ApiVerb::kGet, path_), Guarded(weak_from_this(), &Impl::OnConfirmed));
  }

  void OnConfirmed(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->code == 404 && !server_) {
      if (++missing_ >= kConfirmations) return Deleted();
    } else if (!Take(reply, StrCat("GET ", path_))) {
      return Adopt();
    }
    wait_ = api_.After(kConfirmAfter, Guarded(weak_from_this(), &Impl::Confirm));
  }

  void Deleted() {
    stage_ = Stage::kUnregistered;
    period_.reset();
    settled_.reset();
    NodeFact fact = *Get();
    fact.uid.clear();
    Publish(std::move(fact));
    if (!options_.register_node) {
      return options_.log(StrCat("Node ", options_.name, " was deleted at the API server"));
    }
    options_.log(StrCat("Node ", options_.name,
                        " was deleted at the API server; it is registered again in ",
                        again_delay_.count(), " s"));
    RegisterAfter(again_delay_);
    again_delay_ = std::min(again_delay_ * 2, kLastAgainDelay);
  }

  // --- to be true ---

  void Period() {
    period_ = api_.After(kStatusEvery, Guarded(weak_from_this(), &Impl::Period));
    tries_ = 0;
    Sync();
  }

  void TakeInput(const std::string& name, const std::string& problem) {
    const auto found = std::find_if(inputs_.begin(), inputs_.end(),
                                    [&](const ReadyInput& input) { return input.name == name; });
    if (found == inputs_.end()) {
      inputs_.push_back({name, problem, true});
    } else {
      *found = {name, problem, true};
    }
    Sync();
  }

  std::optional<ReadyState> Ready() {
    const auto* shown = FindCondition(server_->status(), "Ready");
    const bool is_shown = shown != nullptr && shown->status() == "True";
    if (JudgeReadiness(inputs_).ready) {
      patience_.reset();
      lasted_ = false;
    } else if (is_shown && AllKnown(inputs_) && !patience_) {
      patience_ = api_.After(kBadUntilNotReady, Guarded(weak_from_this(), &Impl::Lose));
    }
    return DecideReady(inputs_, is_shown, lasted_);
  }

  void Lose() {
    lasted_ = true;
    Sync();
  }

  void Report() { report_due_ = true; }

  void Sync() {
    if (stage_ != Stage::kRegistered || !server_) return;
    if (call_) {
      again_ = true;
      return;
    }
    again_ = false;
    const auto facts = options_.description();
    if (facts == nullptr) return;
    corev1::Node ours;
    *ours.mutable_metadata() = reconcile_meta_ ? BuildNodeMeta(*facts) : server_->metadata();
    *ours.mutable_status() = BuildNodeStatus(*facts, Ready(), server_->status(), clock_.Wall());
    NodePatch patch = PatchNode(*server_, ours, sent_ ? &*sent_ : nullptr);
    if (patch.body.empty() || !(patch.changes || report_due_)) return;
    pending_ = ours.status();
    before_ = server_->status();
    pending_changes_ = patch.changes;
    ApiCall call = CallOf(ApiVerb::kPatch, path_ + "/status");
    call.content_type = kStrategicMergePatchType;
    call.body = std::move(patch.body);
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnPatched));
  }

  void OnPatched(const Result<ApiReply>& reply) {
    call_.reset();
    if (stage_ != Stage::kRegistered) return;  // gone meanwhile
    if (reply && reply->code == 404) return Missing();
    if (const auto error = Take(reply, StrCat("PATCH ", path_, "/status"))) {
      if (reply && reply->code == 403) reconcile_meta_ = false;  // a label that it may not have
      return TryAgain(reply, *error);
    }
    reconcile_meta_ = false;
    Sent();
    if (again_) Sync();
  }

  // From a fresh copy: ours may be what is wrong.
  void TryAgain(const Result<ApiReply>& reply, const Error& error) {
    TellTrouble("status", error);
    if (++tries_ >= kTriesPerPeriod) return;
    wait_ = api_.After(DelayOf(reply, kFirstRegisterDelay * (1 << tries_)),
                       Guarded(weak_from_this(), &Impl::Fetch));
  }

  void Fetch() {
    if (call_) return;
    call_ = api_.Send(CallOf(ApiVerb::kGet, path_), Guarded(weak_from_this(), &Impl::OnFetched));
  }

  void OnFetched(const Result<ApiReply>& reply) {
    call_.reset();
    const auto error = Take(reply, StrCat("GET ", path_));
    if (stage_ != Stage::kRegistered) {
      if (!error) return Adopt();
      TellTrouble("register", *error);
      return RegisterAfter(DelayOf(reply, register_delay_));
    }
    if (reply && reply->code == 404) return Missing();
    if (error) return TryAgain(reply, *error);
    Sync();
  }

  // The server has what is pending.
  void Sent() {
    sent_ = std::move(pending_);
    report_due_ = false;
    // Nodes that all changed at once (a server came back) do not report at once for ever.
    const double spread =
        pending_changes_ ? std::uniform_real_distribution<double>(0.5, 1.5)(random_) : 1.0;
    const milliseconds delay(
        static_cast<int64_t>(static_cast<double>(milliseconds(kReportEvery).count()) * spread));
    report_ = api_.After(delay, Guarded(weak_from_this(), &Impl::Report));
    for (const corev1::NodeCondition& condition : sent_->conditions()) {
      const auto* last = FindCondition(before_, condition.type());
      const bool is_new = last == nullptr && condition.type() == "Ready";
      if (is_new || (last != nullptr && last->status() == condition.status())) continue;
      const std::string reason = ConditionEvent(condition);
      TellEvent(false, reason, StrCat("Node ", options_.name, " status is now: ", reason));
    }
  }

  // --- what is known ---

  // Absent: the reply is the Node as it is now.
  std::optional<Error> Take(const Result<ApiReply>& reply, const std::string& what) {
    if (!reply) return reply.error();
    if (!reply->ok()) return ErrorOf(*reply, what);
    auto node = DecodeObject(reply->body, kNodeType);
    if (!node) return std::move(node.error()).Wrap(what);
    Learn(std::move(static_cast<corev1::Node&>(**node)), false);
    return std::nullopt;
  }

  static milliseconds DelayOf(const Result<ApiReply>& reply, milliseconds otherwise) {
    return reply && reply->retry_after ? milliseconds(*reply->retry_after) : otherwise;
  }

  // The watch and replies may come in either order. A list is what there is, also where a restored store has gone back;
  // what has happened since it was read follows it.
  void Learn(corev1::Node node, bool of_list) {
    const bool is_same = server_ && server_->metadata().uid() == node.metadata().uid();
    if (is_same && !of_list &&
        IsOlder(node.metadata().resourceversion(), server_->metadata().resourceversion())) {
      return;
    }
    if (server_ && is_same) TellScheduling(*server_, node);
    if (!is_same) sent_.reset();
    server_ = std::move(node);
    Publish(FactOf(*server_));
  }

  void TellScheduling(const corev1::Node& before, const corev1::Node& after) {
    if (before.spec().unschedulable() == after.spec().unschedulable()) return;
    const char* reason = after.spec().unschedulable() ? "NodeNotSchedulable" : "NodeSchedulable";
    TellEvent(false, reason, StrCat("Node ", options_.name, " status is now: ", reason));
  }

  void Publish(NodeFact fact) {
    std::function<void()> listener;
    {
      const std::lock_guard lock(mutex_);
      if (fact_ != nullptr && *fact_ == fact) return;
      fact_ = std::make_shared<const NodeFact>(std::move(fact));
      listener = listener_;
    }
    if (listener) listener();
  }

  void TellEvent(bool warning, std::string reason, std::string message) {
    if (options_.events == nullptr) return;
    // The UID of a Node's events is its name: kubectl describe looks for both.
    EventNote note;
    note.warning = warning;
    note.reason = std::move(reason);
    note.message = std::move(message);
    options_.events->AddEvent(NodeSubject(options_.name), note);
  }

  // A line a minute of the same trouble: texts differ, by the version that a watch begins from for one.
  void TellTrouble(const std::string& where, const Error& error) {
    const std::string trouble = StrCat(where, static_cast<int>(error.code()));
    if (!told_.insert(trouble).second) return;
    if (!quiet_) quiet_ = api_.After(kQuiet, Guarded(weak_from_this(), &Impl::Speak));
    options_.log(error.message());
  }

  void Speak() {
    quiet_.reset();
    told_.clear();
  }

  Api& api_;
  const Clock& clock_;
  const NodeRegistrarOptions options_;
  std::vector<ReadyInput> inputs_;
  const std::string path_;
  std::minstd_rand random_{std::random_device()()};

  bool stopped_ = false;
  Stage stage_ = Stage::kUnregistered;
  std::optional<corev1::Node> server_;      // the newest that was seen
  std::optional<corev1::NodeStatus> sent_;  // that this Node took last
  bool in_list_ = false;
  corev1::NodeStatus pending_;   // on its way
  corev1::NodeStatus before_;    // what the server had then; the watch may be faster than the reply
  bool pending_changes_ = true;  // more than heartbeats
  bool reconcile_meta_ = true;   // labels and annotations are still to be brought in line
  bool report_due_ = true;       // also when nothing changed
  bool again_ = false;           // something changed while a request was on its way
  bool lasted_ = false;          // what is wrong, for kBadUntilNotReady
  int tries_ = 0;
  int missing_ = 0;
  milliseconds register_delay_ = kFirstRegisterDelay;
  seconds again_delay_ = kFirstAgainDelay;
  std::set<std::string> told_;  // troubles of the last minute

  TicketPtr reflector_;
  TicketPtr call_;  // the one request that is on its way
  TicketPtr wait_;  // for the next step of registering, confirming, trying again
  TicketPtr period_, report_, patience_, quiet_, settled_;

  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const NodeFact> fact_;
  std::function<void()> listener_;
};

NodeRegistrar::NodeRegistrar(Api& api, const Clock& clock, NodeRegistrarOptions options)
    : impl_(std::make_shared<Impl>(api, clock, std::move(options))) {
  impl_->Start();
}
NodeRegistrar::~NodeRegistrar() { impl_->Stop(); }

std::shared_ptr<const NodeFact> NodeRegistrar::Get() const { return impl_->Get(); }
void NodeRegistrar::SetReadyInput(const std::string& input, const std::string& problem) {
  impl_->SetReadyInput(input, problem);
}
void NodeRegistrar::SetListener(std::function<void()> changed) {
  impl_->SetListener(std::move(changed));
}

}  // namespace holdfast::agent
