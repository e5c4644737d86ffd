// SPDX-License-Identifier: Apache-2.0
#include "agent/node/csi_node.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "holdfast/base/strings.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;
using std::chrono::milliseconds;

constexpr char kCsiNodesPath[] = "/apis/storage.k8s.io/v1/csinodes";
constexpr milliseconds kFirstWait{1'000}, kLastWait{60'000};

storagev1::CSINodeDriver WireOf(const CsiNodeDriver& driver) {
  storagev1::CSINodeDriver wire;
  wire.set_name(driver.name);
  wire.set_nodeid(driver.node_id);
  for (const auto& [key, value] : driver.topology) wire.add_topologykeys(key);
  const auto most = std::min<int64_t>(driver.most_volumes, std::numeric_limits<int32_t>::max());
  if (most > 0) wire.mutable_allocatable()->set_count(static_cast<int32_t>(most));
  return wire;
}

// What the Node says of them, as a strategic merge patch.
std::string NodePatchOf(const std::vector<CsiNodeDriver>& drivers) {
  nlohmann::json ids = nlohmann::json::object(), labels = nlohmann::json::object();
  for (const CsiNodeDriver& driver : drivers) {
    ids[driver.name] = driver.node_id;
    for (const auto& [key, value] : driver.topology) labels[key] = value;
  }
  const auto dumped = [](const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  nlohmann::json annotations = {{"csi.volume.kubernetes.io/nodeid", nullptr}};
  if (!drivers.empty()) annotations["csi.volume.kubernetes.io/nodeid"] = dumped(ids);
  return dumped({{"metadata", {{"annotations", annotations}, {"labels", labels}}}});
}

storagev1::CSINode Made(const std::string& name, const std::string& node_uid) {
  storagev1::CSINode node;
  node.mutable_metadata()->set_name(name);
  auto* const owner = node.mutable_metadata()->add_ownerreferences();
  owner->set_apiversion("v1");
  owner->set_kind("Node");
  owner->set_name(name);
  owner->set_uid(node_uid);
  (void)node.mutable_spec();  // also without drivers
  return node;
}

}  // namespace

class CsiNode::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Api& api, std::string name, std::function<void(const std::string&)> log)
      : api_(api), name_(std::move(name)), log_(std::move(log)) {}

  void SetNodeUid(const std::string& uid) {
    if (std::exchange(node_uid_, uid) == uid || uid.empty()) return;
    delay_ = kFirstWait;
    told_version_ = 0;
    Make();
  }
  void SetDrivers(std::vector<CsiNodeDriver> drivers) {
    if (drivers == drivers_) return;
    for (const CsiNodeDriver& before : drivers_) gone_.insert(before.name);
    for (const CsiNodeDriver& driver : drivers) gone_.erase(driver.name);
    drivers_ = std::move(drivers);
    ++version_;
    if (stopped_ || node_uid_.empty() || call_) return;
    Look();
  }
  void Stop() {
    stopped_ = true;
    call_.reset();
    wait_.reset();
  }
  void PostDrivers(std::vector<CsiNodeDriver> drivers) {
    api_.Post([weak = weak_from_this(), drivers = std::move(drivers)]() mutable {
      if (const auto self = weak.lock()) self->SetDrivers(std::move(drivers));
    });
  }
  bool stopped() const { return stopped_; }

 private:
  void Make() {
    call_ = api_.Send(PostOf(kCsiNodesPath, Made(name_, node_uid_)),
                      Guarded(weak_from_this(), &Impl::OnMade));
  }

  // That of a former Node, which the server's garbage collector has not come to yet, is in the way.
  void OnMade(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->ok() && version_ == 0) return;
    if (reply && (reply->ok() || reply->code == 409)) return Look();
    Again(reply, StrCat("POST ", kCsiNodesPath));
  }

  void Look() {
    ApiCall call;
    call.path = StrCat(kCsiNodesPath, "/", name_);
    call.repeatable = true;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnFound));
  }

  void OnFound(const Result<ApiReply>& reply) {
    call_.reset();
    if (!reply || !reply->ok()) return Again(reply, StrCat("GET ", kCsiNodesPath, "/", name_));
    auto object = DecodeObject(reply->body, {"storage.k8s.io/v1", "CSINode"});
    if (!object) return Retry();
    const auto& owners =
        static_cast<const storagev1::CSINode&>(**object).metadata().ownerreferences();
    const bool is_ours =
        std::ranges::any_of(owners, [this](const auto& owner) { return owner.uid() == node_uid_; });
    if (!is_ours) return Retry();
    Update(static_cast<storagev1::CSINode&>(**object));
  }

  // Those that are there and not gone, in our words where we have any.
  void Update(storagev1::CSINode& node) {
    std::map<std::string, std::string> before;
    std::map<std::string, storagev1::CSINodeDriver> wanted;
    for (const auto& driver : node.spec().drivers()) {
      before[driver.name()] = driver.SerializeAsString();
      if (!gone_.contains(driver.name())) wanted[driver.name()] = driver;
    }
    for (const CsiNodeDriver& driver : drivers_) wanted[driver.name] = WireOf(driver);
    asked_version_ = version_;
    const bool is_right =
        before.size() == wanted.size() && std::ranges::all_of(wanted, [&](const auto& driver) {
          const auto same = before.find(driver.first);
          return same != before.end() && same->second == driver.second.SerializeAsString();
        });
    if (is_right) return PatchNode();
    node.mutable_spec()->clear_drivers();
    for (const auto& [name, driver] : wanted) *node.mutable_spec()->add_drivers() = driver;
    ApiCall call = PostOf(StrCat(kCsiNodesPath, "/", name_), node);
    call.verb = ApiVerb::kPut;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnUpdated));
  }

  void OnUpdated(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->code == 409) return Look();
    if (!reply || !reply->ok()) return Again(reply, StrCat("PUT ", kCsiNodesPath, "/", name_));
    PatchNode();
  }

  void PatchNode() {
    if (asked_version_ == told_version_) return Settled();
    ApiCall call;
    call.verb = ApiVerb::kPatch;
    call.path = StrCat("/api/v1/nodes/", name_);
    call.content_type = kStrategicMergePatchType;
    call.body = NodePatchOf(drivers_);
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnPatched));
  }

  void OnPatched(const Result<ApiReply>& reply) {
    call_.reset();
    if (!reply || !reply->ok()) return Again(reply, StrCat("PATCH /api/v1/nodes/", name_));
    Settled();
  }

  // What came meanwhile is next.
  void Settled() {
    told_version_ = asked_version_;
    delay_ = kFirstWait;
    if (asked_version_ != version_) Look();
  }

  void Again(const Result<ApiReply>& reply, const std::string& what) {
    const std::string text =
        reply ? ErrorOf(*reply, what).message() : StrCat("CSINode: ", reply.error().message());
    if (std::exchange(told_, text) != text) log_(StrCat(text, ", trying again"));
    Retry();
  }

  void Retry() {
    wait_ = api_.After(delay_, Guarded(weak_from_this(), &Impl::Make));
    delay_ = std::min(delay_ * 2, kLastWait);
  }

  Api& api_;
  const std::string name_;
  const std::function<void(const std::string&)> log_;
  bool stopped_ = false;
  std::string node_uid_, told_;
  milliseconds delay_ = kFirstWait;
  TicketPtr call_, wait_;
  std::vector<CsiNodeDriver> drivers_;
  std::set<std::string> gone_;  // were registered with this agent, and are not any more
  // Of the drivers: as they are, as the Node has them, as they were when something was asked for.
  uint64_t version_ = 0, told_version_ = 0, asked_version_ = 0;
};

CsiNode::CsiNode(Api& api, std::string node_name, std::function<void(const std::string&)> log)
    : impl_(std::make_shared<Impl>(api, std::move(node_name), std::move(log))) {}

CsiNode::~CsiNode() { impl_->Stop(); }

void CsiNode::SetDrivers(std::vector<CsiNodeDriver> drivers) {
  impl_->PostDrivers(std::move(drivers));
}

void CsiNode::SetNodeUid(const std::string& uid) { impl_->SetNodeUid(uid); }

}  // namespace holdfast::agent
