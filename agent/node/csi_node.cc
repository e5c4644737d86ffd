// SPDX-License-Identifier: Apache-2.0
#include "agent/node/csi_node.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/cluster/api_objects.h"
#include "agent/cluster/guarded.h"
#include "holdfast/base/strings.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;
using std::chrono::milliseconds;

constexpr char kPath[] = "/apis/storage.k8s.io/v1/csinodes";
constexpr milliseconds kFirstWait{1'000}, kLastWait{60'000};

storagev1::CSINode Made(const std::string& name, const std::string& node_uid) {
  storagev1::CSINode node;
  node.mutable_metadata()->set_name(name);
  auto* const owner = node.mutable_metadata()->add_ownerreferences();
  owner->set_apiversion("v1");
  owner->set_kind("Node");
  owner->set_name(name);
  owner->set_uid(node_uid);
  (void)node.mutable_spec();  // without drivers
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
    Make();
  }
  void Stop() {
    stopped_ = true;
    call_.reset();
    wait_.reset();
  }
  bool stopped() const { return stopped_; }

 private:
  void Make() {
    call_ =
        api_.Send(PostOf(kPath, Made(name_, node_uid_)), Guarded(weak_from_this(), &Impl::OnMade));
  }

  // That of a former Node, which the server's garbage collector has not come to yet, is in the way.
  void OnMade(const Result<ApiReply>& reply) {
    call_.reset();
    if (reply && reply->ok()) return;
    if (reply && reply->code == 409) return Look();
    Again(reply, StrCat("POST ", kPath));
  }

  void Look() {
    ApiCall call;
    call.path = StrCat(kPath, "/", name_);
    call.repeatable = true;
    call_ = api_.Send(std::move(call), Guarded(weak_from_this(), &Impl::OnFound));
  }

  void OnFound(const Result<ApiReply>& reply) {
    call_.reset();
    if (!reply || !reply->ok()) return Again(reply, StrCat("GET ", kPath, "/", name_));
    auto object = DecodeObject(reply->body, {"storage.k8s.io/v1", "CSINode"});
    if (!object) return Retry();
    const auto& owners =
        static_cast<const storagev1::CSINode&>(**object).metadata().ownerreferences();
    const bool is_ours =
        std::ranges::any_of(owners, [this](const auto& owner) { return owner.uid() == node_uid_; });
    if (!is_ours) Retry();
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
};

CsiNode::CsiNode(Api& api, std::string node_name, std::function<void(const std::string&)> log)
    : impl_(std::make_shared<Impl>(api, std::move(node_name), std::move(log))) {}

CsiNode::~CsiNode() { impl_->Stop(); }

void CsiNode::SetNodeUid(const std::string& uid) { impl_->SetNodeUid(uid); }

}  // namespace holdfast::agent
