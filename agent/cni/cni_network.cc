// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/cni_network.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "agent/base/program_orphans.h"
#include "agent/cni/add_result.h"
#include "agent/cni/capabilities.h"
#include "agent/cni/chain.h"
#include "agent/cni/claim.h"
#include "agent/cni/netns_pin.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/rtnl.h"

namespace holdfast::agent {
namespace {

using cni::Attachment;
using std::chrono::steady_clock;

constexpr char kInterface[] = "eth0";
// A pod that is just being attached may not be in a list of live pods yet.
constexpr std::chrono::seconds kRecently{60};

Result<void> SetLoopbackUp(int netns) {
  ASSIGN_OR_RETURN(sys::Rtnl pod, sys::Rtnl::OpenIn(netns));
  ASSIGN_OR_RETURN(const sys::Link loopback, pod.GetLink("lo"));
  return pod.SetLinkUp(loopback.index);
}

std::string NameOf(const Attachment& attachment) {
  return StrCat(attachment.pod_namespace, "/", attachment.pod_name);
}

}  // namespace

CniNetwork::CniNetwork(CniOptions options, cni::AttachmentStore store, sys::Wakeup stop)
    : options_(std::move(options)),
      store_(std::move(store)),
      stop_(std::move(stop)),
      plugins_(options_.plugin_directories, options_.cache_directory, stop_) {}

Result<std::unique_ptr<CniNetwork>> CniNetwork::Open(CniOptions options) {
  ASSIGN_OR_RETURN(auto store, cni::AttachmentStore::Open(options.cache_directory));
  ASSIGN_OR_RETURN(auto loaded, store.Load());
  ASSIGN_OR_RETURN(sys::Wakeup stop, sys::Wakeup::Make());
  std::unique_ptr<CniNetwork> network(
      new CniNetwork(std::move(options), std::move(store), std::move(stop)));
  if (!EndOrphans(network->options_.cache_directory)) {
    network->Warn("a CNI plugin that a former agent started does not end although it was killed");
  }
  network->Adopt(std::move(loaded));
  cni::NetworkWatchOptions watch = network->options_.watch;
  watch.config_directory = network->options_.config_directory;
  watch.plugin_directories = network->options_.plugin_directories;
  watch.log = network->options_.log;
  watch.looked = [n = network.get()](const cni::NetworkConfig& config, bool changed) {
    n->Tend(config, changed);
  };
  ASSIGN_OR_RETURN(network->watch_,
                   cni::NetworkWatch::Start(std::move(watch), network->plugins_, network->stop_));
  return network;
}

CniNetwork::~CniNetwork() { Stop(); }

void CniNetwork::Adopt(cni::AttachmentStore::Loaded loaded) {
  for (std::string& problem : loaded.problems) Warn(StrCat(problem, ", left alone"));
  for (Attachment& attachment : loaded.attachments) {
    const PodUid uid = attachment.uid;
    entries_[uid].attachment = std::move(attachment);
  }
}

Result<std::vector<std::string>> CniNetwork::Setup(const PodNetworkRequest& request) {
  const Claim claim(*this, request.uid);
  if (const auto known = Find(request.uid)) {
    const bool stands =
        IsAttached(*known) && cni::IsPinOf(known->attached.target.netns, request.network_namespace);
    if (stands) return AddressesOf(*known);
    // What was begun is taken back before it is begun again.
    RETURN_IF_ERROR(Detach(std::move(*known)));
  }
  const auto network = watch_->Current();
  if (!network) return Unavailable(StrCat("network is not ready: ", watch_->Problem()));
  Attachment attachment = NewAttachment(request, *network);
  auto addresses = Attach(attachment, request.network_namespace);
  if (addresses) return addresses;
  Error error = std::move(addresses.error())
                    .Wrap(StrCat("failed to setup network for sandbox \"",
                                 attachment.attached.target.container_id, "\""));
  if (auto undone = Detach(attachment); !undone) {
    return Error(error.code(),
                 StrCat(error.message(), "; and afterwards: ", undone.error().message()));
  }
  return error;
}

Attachment CniNetwork::NewAttachment(const PodNetworkRequest& request,
                                     const cni::NetworkConfig& network) const {
  Attachment attachment;
  attachment.uid = request.uid;
  attachment.pod_namespace = request.pod_namespace;
  attachment.pod_name = request.pod_name;
  attachment.network = network;
  cni::PluginTarget& target = attachment.attached.target;
  target.container_id = NewContainerId().value;
  target.netns = StrCat(options_.netns_directory, "/cni-", target.container_id);
  target.interface = kInterface;
  target.args = cni::ArgsOf(request, target.container_id);
  attachment.attached.capabilities = cni::CapabilitiesOf(
      request, options_.cgroup_of ? options_.cgroup_of(request.uid, request.qos) : "");
  return attachment;
}

// 1. the record, so that whatever follows is found after a crash; 2. the path that plugins want; 3. the plugins; 4. what
// they gave.
Result<std::vector<std::string>> CniNetwork::Attach(Attachment& attachment, int netns) {
  RETURN_IF_ERROR(Save(attachment));
  HOLDFAST_PAUSE_POINT("cni.add.recorded");
  RETURN_IF_ERROR(cni::PinNamespace(attachment.attached.target.netns, netns));
  RETURN_IF_ERROR(SetLoopbackUp(netns));
  HOLDFAST_PAUSE_POINT("cni.add.pinned");
  ASSIGN_OR_RETURN(attachment.result, cni::Add(plugins_, attachment.network, attachment.attached,
                                               steady_clock::now() + options_.verb_limit));
  std::vector<std::string> addresses = AddressesOf(attachment);
  if (addresses.empty()) {
    return NotFound(StrCat("no plugin of network \"", attachment.network.name, "\" gave ",
                           kInterface, " an address"));
  }
  HOLDFAST_PAUSE_POINT("cni.add.done");
  RETURN_IF_ERROR(Save(attachment));
  HOLDFAST_PAUSE_POINT("cni.add.result_written");
  return addresses;
}

// The record goes last. A namespace that is gone does not keep the plugins from freeing what they keep elsewhere.
Result<void> CniNetwork::Detach(Attachment attachment) {
  if (IsAttached(attachment)) {
    attachment.detaching = true;
    RETURN_IF_ERROR(Save(attachment));
    HOLDFAST_PAUSE_POINT("cni.del.recorded");
  }
  cni::Attached attached = attachment.attached;
  const std::string pin = attached.target.netns;
  if (!cni::IsPinned(pin)) attached.target.netns.clear();
  RETURN_IF_ERROR(WithContext(
      cni::Del(plugins_, attachment.network, attached, attachment.result,
               steady_clock::now() + options_.verb_limit),
      StrCat("failed to destroy network for sandbox \"", attached.target.container_id, "\"")));
  HOLDFAST_PAUSE_POINT("cni.del.done");
  RETURN_IF_ERROR(cni::UnpinNamespace(pin));
  HOLDFAST_PAUSE_POINT("cni.del.unpinned");
  RETURN_IF_ERROR(store_.Remove(attachment.uid));
  const std::lock_guard lock(mutex_);
  entries_.erase(attachment.uid);
  return {};
}

Result<void> CniNetwork::Save(const Attachment& attachment) {
  RETURN_IF_ERROR(store_.Save(attachment));
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[attachment.uid];
  if (entry.since == steady_clock::time_point()) entry.since = steady_clock::now();
  entry.attachment = attachment;
  return {};
}

Result<void> CniNetwork::Teardown(const PodUid& uid) {
  const Claim claim(*this, uid);
  const auto known = Find(uid);
  if (!known) return {};
  return Detach(std::move(*known));
}

std::unique_ptr<Attachment> CniNetwork::Find(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(uid);
  if (entry == entries_.end()) return nullptr;
  return std::make_unique<Attachment>(entry->second.attachment);
}

std::vector<std::string> CniNetwork::AddressesOf(const Attachment& attachment) const {
  return cni::PodAddresses(attachment.result, attachment.attached.target.interface,
                           options_.prefers_v6());
}

std::vector<std::string> CniNetwork::Addresses(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  const auto entry = entries_.find(uid);
  const bool stands = entry != entries_.end() && IsAttached(entry->second.attachment);
  return stands ? AddressesOf(entry->second.attachment) : std::vector<std::string>();
}

bool CniNetwork::Holds(const PodUid& uid) {
  const std::lock_guard lock(mutex_);
  return entries_.contains(uid);
}

std::vector<std::string> CniNetwork::LeftOut(const PodNetworkRequest& request) {
  const auto network = watch_->Current();
  if (!network) return {};
  std::vector<std::string> left;
  const auto look = [&](bool wanted, const char* capability, const char* what) {
    if (!wanted || cni::Declares(*network, capability)) return;
    left.push_back(StrCat(what, ": no plugin of network \"", network->name,
                          "\" has the capability ", capability, ", so it has no effect"));
  };
  look(!request.host_ports.empty(), "portMappings", "hostPort");
  look(request.bandwidth != PodBandwidth(), "bandwidth",
       "annotations kubernetes.io/ingress-bandwidth and kubernetes.io/egress-bandwidth");
  return left;
}

Result<std::vector<Leftover>> CniNetwork::Audit(const std::vector<PodUid>& live, bool repair) {
  const std::set<PodUid> wanted(live.begin(), live.end());
  std::vector<Leftover> found;
  std::vector<PodUid> stale;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [uid, entry] : entries_) {
      const bool is_new = steady_clock::now() - entry.since < kRecently;
      if (wanted.contains(uid) || busy_.contains(uid) || is_new) continue;
      const Attachment& attachment = entry.attachment;
      found.push_back({"attachment", attachment.attached.target.container_id,
                       StrCat("of pod ", NameOf(attachment), " to network \"",
                              attachment.network.name, "\", no live pod")});
      stale.push_back(uid);
    }
  }
  if (!repair) return found;
  for (const PodUid& uid : stale) RETURN_IF_ERROR(Teardown(uid));
  return found;
}

void CniNetwork::Warn(std::string line) {
  const std::lock_guard lock(mutex_);
  warnings_.push_back(std::move(line));
}

std::vector<std::string> CniNetwork::TakeWarnings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace holdfast::agent
