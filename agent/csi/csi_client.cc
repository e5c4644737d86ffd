// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/csi_client.h"

#include <chrono>

#include "agent/csi/grpc_call.h"
#include "csi/v1/csi.grpc.pb.h"

namespace holdfast::agent {
namespace {

namespace csiv1 = ::csi::v1;
using AccessMode = csiv1::VolumeCapability::AccessMode;

// Of calls that make or end something, and of those that only tell.
constexpr std::chrono::minutes kCsiLimit{2};
constexpr std::chrono::seconds kCsiTellLimit{15};

// Plugins that know of modes within one node are told the exact one.
AccessMode::Mode ModeOf(const std::string& name, bool knows_single_nodes) {
  if (name == "ReadOnlyMany") return AccessMode::MULTI_NODE_READER_ONLY;
  if (name == "ReadWriteMany") return AccessMode::MULTI_NODE_MULTI_WRITER;
  if (name == "ReadWriteOncePod" && knows_single_nodes)
    return AccessMode::SINGLE_NODE_SINGLE_WRITER;
  return knows_single_nodes ? AccessMode::SINGLE_NODE_MULTI_WRITER : AccessMode::SINGLE_NODE_WRITER;
}

void FillCapability(const CsiVolume& volume, bool knows_single_nodes,
                    csiv1::VolumeCapability& capability) {
  if (volume.block) {
    capability.mutable_block();
  } else {
    auto& mount = *capability.mutable_mount();
    mount.set_fs_type(volume.fs_type);
    mount.set_volume_mount_group(volume.group);
    for (const std::string& flag : volume.mount_flags) mount.add_mount_flags(flag);
  }
  capability.mutable_access_mode()->set_mode(ModeOf(volume.access_mode, knows_single_nodes));
}

template <class Map>
void FillMap(const std::map<std::string, std::string>& from, Map& to) {
  for (const auto& [key, value] : from) to[key] = value;
}

void AddCapability(const csiv1::NodeServiceCapability& capability, CsiDriverInfo& info) {
  using RPC = csiv1::NodeServiceCapability::RPC;
  const auto type = capability.rpc().type();
  if (type == RPC::STAGE_UNSTAGE_VOLUME) info.stages = true;
  if (type == RPC::VOLUME_MOUNT_GROUP) info.gives_to_group = true;
  if (type == RPC::SINGLE_NODE_MULTI_WRITER) info.knows_single_nodes = true;
  if (type == RPC::GET_VOLUME_STATS) info.tells_usage = true;
  if (type == RPC::EXPAND_VOLUME) info.expands = true;
}

// A plugin's numbers are signed.
uint64_t Amount(int64_t number) { return number < 0 ? 0 : static_cast<uint64_t>(number); }

}  // namespace

struct CsiClient::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : identity(csiv1::Identity::NewStub(channel)), node(csiv1::Node::NewStub(channel)) {}
  const std::unique_ptr<csiv1::Identity::Stub> identity;
  const std::unique_ptr<csiv1::Node::Stub> node;
};

CsiClient::CsiClient(const std::string& socket)
    : stubs_(std::make_unique<Stubs>(ChannelTo(socket))) {}
CsiClient::~CsiClient() = default;

Result<CsiDriverInfo> CsiClient::Describe(const std::atomic<bool>* cancelled) const {
  ASSIGN_OR_RETURN(const auto plugin,
                   CallPlugin<csiv1::GetPluginInfoResponse>(
                       kCsiTellLimit, cancelled, [&](auto* context, auto* queue) {
                         return stubs_->identity->AsyncGetPluginInfo(context, {}, queue);
                       }));
  ASSIGN_OR_RETURN(const auto node, CallPlugin<csiv1::NodeGetInfoResponse>(
                                        kCsiTellLimit, cancelled, [&](auto* context, auto* queue) {
                                          return stubs_->node->AsyncNodeGetInfo(context, {}, queue);
                                        }));
  ASSIGN_OR_RETURN(const auto abilities,
                   CallPlugin<csiv1::NodeGetCapabilitiesResponse>(
                       kCsiTellLimit, cancelled, [&](auto* context, auto* queue) {
                         return stubs_->node->AsyncNodeGetCapabilities(context, {}, queue);
                       }));
  CsiDriverInfo info;
  info.name = plugin.name();
  info.node_id = node.node_id();
  info.most_volumes = node.max_volumes_per_node();
  const auto& segments = node.accessible_topology().segments();
  info.topology.insert(segments.begin(), segments.end());
  for (const auto& capability : abilities.capabilities()) AddCapability(capability, info);
  return info;
}

Result<void> CsiClient::Stage(const CsiVolume& volume, const CsiSecrets& secrets,
                              const std::string& staging, bool knows_single_nodes,
                              const std::atomic<bool>* cancelled) const {
  csiv1::NodeStageVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_staging_target_path(staging);
  FillCapability(volume, knows_single_nodes, *request.mutable_volume_capability());
  FillMap(volume.publish_context, *request.mutable_publish_context());
  FillMap(volume.volume_context, *request.mutable_volume_context());
  if (secrets) FillMap(*secrets, *request.mutable_secrets());
  RETURN_IF_ERROR(CallPlugin<csiv1::NodeStageVolumeResponse>(
      kCsiLimit, cancelled, [&](auto* context, auto* queue) {
        return stubs_->node->AsyncNodeStageVolume(context, request, queue);
      }));
  return {};
}

Result<void> CsiClient::Publish(const CsiVolume& volume, const CsiSecrets& secrets,
                                const std::string& staging, const std::string& target,
                                bool read_only, bool knows_single_nodes,
                                const std::atomic<bool>* cancelled) const {
  csiv1::NodePublishVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_staging_target_path(staging);
  request.set_target_path(target);
  request.set_readonly(read_only);
  FillCapability(volume, knows_single_nodes, *request.mutable_volume_capability());
  FillMap(volume.publish_context, *request.mutable_publish_context());
  FillMap(volume.volume_context, *request.mutable_volume_context());
  if (secrets) FillMap(*secrets, *request.mutable_secrets());
  RETURN_IF_ERROR(CallPlugin<csiv1::NodePublishVolumeResponse>(
      kCsiLimit, cancelled, [&](auto* context, auto* queue) {
        return stubs_->node->AsyncNodePublishVolume(context, request, queue);
      }));
  return {};
}

Result<void> CsiClient::Expand(const CsiVolume& volume, const CsiSecrets& secrets,
                               const std::string& path, const std::string& staging, int64_t bytes,
                               bool knows_single_nodes, const std::atomic<bool>* cancelled) const {
  csiv1::NodeExpandVolumeRequest request;
  request.set_volume_id(volume.id);
  request.set_volume_path(path);
  request.set_staging_target_path(staging);
  request.mutable_capacity_range()->set_required_bytes(bytes);
  FillCapability(volume, knows_single_nodes, *request.mutable_volume_capability());
  if (secrets) FillMap(*secrets, *request.mutable_secrets());
  RETURN_IF_ERROR(CallPlugin<csiv1::NodeExpandVolumeResponse>(
      kCsiLimit, cancelled, [&](auto* context, auto* queue) {
        return stubs_->node->AsyncNodeExpandVolume(context, request, queue);
      }));
  return {};
}

Result<CsiUsage> CsiClient::Usage(const std::string& id, const std::string& path) const {
  csiv1::NodeGetVolumeStatsRequest request;
  request.set_volume_id(id);
  request.set_volume_path(path);
  ASSIGN_OR_RETURN(const auto reply, CallPlugin<csiv1::NodeGetVolumeStatsResponse>(
                                         kCsiTellLimit, nullptr, [&](auto* context, auto* queue) {
                                           return stubs_->node->AsyncNodeGetVolumeStats(
                                               context, request, queue);
                                         }));
  CsiUsage usage;
  for (const auto& one : reply.usage()) {
    const CsiUsage::Amounts amounts{Amount(one.total()), Amount(one.available()),
                                    Amount(one.used())};
    if (one.unit() == csiv1::VolumeUsage::BYTES) usage.bytes = amounts;
    if (one.unit() == csiv1::VolumeUsage::INODES) usage.inodes = amounts;
  }
  return usage;
}

Result<void> CsiClient::Unpublish(const std::string& id, const std::string& target) const {
  csiv1::NodeUnpublishVolumeRequest request;
  request.set_volume_id(id);
  request.set_target_path(target);
  RETURN_IF_ERROR(CallPlugin<csiv1::NodeUnpublishVolumeResponse>(
      kCsiLimit, nullptr, [&](auto* context, auto* queue) {
        return stubs_->node->AsyncNodeUnpublishVolume(context, request, queue);
      }));
  return {};
}

Result<void> CsiClient::Unstage(const std::string& id, const std::string& staging) const {
  csiv1::NodeUnstageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(staging);
  RETURN_IF_ERROR(CallPlugin<csiv1::NodeUnstageVolumeResponse>(
      kCsiLimit, nullptr, [&](auto* context, auto* queue) {
        return stubs_->node->AsyncNodeUnstageVolume(context, request, queue);
      }));
  return {};
}

}  // namespace holdfast::agent
