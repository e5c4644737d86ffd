// SPDX-License-Identifier: Apache-2.0
// A storage plugin that a test plays: it answers on a socket as a plugin does, remembers what it was asked, and fails or
// hangs as it is told. Thread-safe.
#pragma once

#include <grpcpp/grpcpp.h>
#include <sys/mount.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include "csi/v1/csi.grpc.pb.h"
#include "pluginregistration/v1/api.grpc.pb.h"

namespace holdfast::agent {

class FakeDriver final : public csi::v1::Identity::Service,
                         public csi::v1::Node::Service,
                         public pluginregistration::Registration::Service {
 public:
  explicit FakeDriver(std::string socket, std::string name = "disk.example")
      : socket_(std::move(socket)), name_(std::move(name)) {}
  ~FakeDriver() override { Stop(); }

  void Start() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix://" + socket_, grpc::InsecureServerCredentials());
    builder.RegisterService(static_cast<csi::v1::Identity::Service*>(this));
    builder.RegisterService(static_cast<csi::v1::Node::Service*>(this));
    builder.RegisterService(static_cast<pluginregistration::Registration::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  void Stop() {
    Let("");
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
    server_.reset();
  }

  // --- the test's side ---

  std::vector<std::string> Calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  // The next calls of that name fail; "" none.
  void Fail(const std::string& call) {
    const std::lock_guard lock(mutex_);
    failing_ = call;
  }
  // The next call of that name does not return until Let().
  void Hang(const std::string& call) {
    const std::lock_guard lock(mutex_);
    hanging_ = call;
    hangs_ = false;
  }
  void Let(const std::string& call) {
    {
      const std::lock_guard lock(mutex_);
      hanging_ = call;
    }
    let_.notify_all();
  }
  csi::v1::NodeStageVolumeRequest staged;
  csi::v1::NodePublishVolumeRequest published;
  csi::v1::NodeExpandVolumeRequest expanded;
  std::string device;  // the block device that it binds to targets; "": it makes directories
  bool IsPublished() const { return bound_; }
  std::function<void(const std::string& call)> mischief;  // what else it does in each call
  size_t topology_bytes = 0;                              // of what it says of where it is
  grpc::StatusCode failure = grpc::StatusCode::INTERNAL;
  std::vector<csi::v1::NodeServiceCapability::RPC::Type> abilities = {
      csi::v1::NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME};
  std::string type = "CSIPlugin", version = "1.11.0", node_id = "node-7";

  // --- the plugin's ---

  grpc::Status GetInfo(grpc::ServerContext* /*context*/,
                       const pluginregistration::InfoRequest* /*request*/,
                       pluginregistration::PluginInfo* reply) override {
    reply->set_type(type);
    reply->set_name(name_);
    reply->set_endpoint(socket_);
    reply->add_supported_versions(version);
    return Note("info");
  }
  grpc::Status NotifyRegistrationStatus(
      grpc::ServerContext* /*context*/, const pluginregistration::RegistrationStatus* request,
      pluginregistration::RegistrationStatusResponse* /*reply*/) override {
    return Note(request->plugin_registered() ? "registered" : "refused: " + request->error());
  }
  grpc::Status GetPluginInfo(grpc::ServerContext* /*context*/,
                             const csi::v1::GetPluginInfoRequest* /*request*/,
                             csi::v1::GetPluginInfoResponse* reply) override {
    reply->set_name(name_);
    return grpc::Status::OK;
  }
  grpc::Status NodeGetInfo(grpc::ServerContext* /*context*/,
                           const csi::v1::NodeGetInfoRequest* /*request*/,
                           csi::v1::NodeGetInfoResponse* reply) override {
    reply->set_node_id(node_id);
    reply->set_max_volumes_per_node(16);
    auto& segments = *reply->mutable_accessible_topology()->mutable_segments();
    segments["zone"] = "z1";
    if (topology_bytes != 0) segments["more"] = std::string(topology_bytes, 'x');
    return grpc::Status::OK;
  }
  grpc::Status NodeGetCapabilities(grpc::ServerContext* /*context*/,
                                   const csi::v1::NodeGetCapabilitiesRequest* /*request*/,
                                   csi::v1::NodeGetCapabilitiesResponse* reply) override {
    for (const auto ability : abilities) {
      reply->add_capabilities()->mutable_rpc()->set_type(ability);
    }
    return grpc::Status::OK;
  }
  grpc::Status NodeStageVolume(grpc::ServerContext* context,
                               const csi::v1::NodeStageVolumeRequest* request,
                               csi::v1::NodeStageVolumeResponse* /*reply*/) override {
    const std::lock_guard lock(requests_);
    staged = *request;
    return Note("stage " + request->volume_id(), context);
  }
  // It makes the last part of the target, as a plugin does.
  grpc::Status NodePublishVolume(grpc::ServerContext* context,
                                 const csi::v1::NodePublishVolumeRequest* request,
                                 csi::v1::NodePublishVolumeResponse* /*reply*/) override {
    {
      const std::lock_guard lock(requests_);
      published = *request;
    }
    auto status = Note("publish " + request->volume_id(), context);
    if (!status.ok()) return status;
    if (!device.empty()) return Bind(request->target_path());
    std::filesystem::create_directory(request->target_path());
    return status;
  }
  grpc::Status NodeUnpublishVolume(grpc::ServerContext* context,
                                   const csi::v1::NodeUnpublishVolumeRequest* request,
                                   csi::v1::NodeUnpublishVolumeResponse* /*reply*/) override {
    auto status = Note("unpublish " + request->volume_id(), context);
    if (!status.ok() || device.empty()) return status;
    // Strictly: whoever keeps the mount busy is in its way.
    const bool unmounted = ::umount2(request->target_path().c_str(), 0) == 0;
    if (unmounted) bound_ = false;
    std::error_code ignored;
    std::filesystem::remove(request->target_path(), ignored);
    return status;
  }
  grpc::Status NodeUnstageVolume(grpc::ServerContext* context,
                                 const csi::v1::NodeUnstageVolumeRequest* request,
                                 csi::v1::NodeUnstageVolumeResponse* /*reply*/) override {
    return Note("unstage " + request->volume_id(), context);
  }
  grpc::Status NodeExpandVolume(grpc::ServerContext* context,
                                const csi::v1::NodeExpandVolumeRequest* request,
                                csi::v1::NodeExpandVolumeResponse* /*reply*/) override {
    {
      const std::lock_guard lock(requests_);
      expanded = *request;
    }
    return Note("expand " + request->volume_id(), context);
  }
  grpc::Status NodeGetVolumeStats(grpc::ServerContext* context,
                                  const csi::v1::NodeGetVolumeStatsRequest* request,
                                  csi::v1::NodeGetVolumeStatsResponse* reply) override {
    const auto add = [&](csi::v1::VolumeUsage::Unit unit, int64_t total, int64_t available,
                         int64_t used) {
      auto* usage = reply->add_usage();
      usage->set_unit(unit);
      usage->set_total(total);
      usage->set_available(available);
      usage->set_used(used);
    };
    add(csi::v1::VolumeUsage::BYTES, 1000, 700, 300);
    add(csi::v1::VolumeUsage::INODES, 50, 40, -1);
    return Note("stats " + request->volume_id() + " " + request->volume_path(), context);
  }

 private:
  grpc::Status Bind(const std::string& target) {
    if (bound_) return grpc::Status::OK;
    std::ofstream{target} << "";
    bound_ = ::mount(device.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0;
    return bound_ ? grpc::Status::OK : grpc::Status(grpc::StatusCode::INTERNAL, "no bind mount");
  }

  grpc::Status Note(const std::string& call, grpc::ServerContext* context = nullptr) {
    const std::string verb = call.substr(0, call.find(' '));
    if (mischief) mischief(verb);
    std::unique_lock lock(mutex_);
    calls_.push_back(call);
    const bool is_first = hanging_ == verb && !std::exchange(hangs_, true);
    while (is_first && hanging_ == verb && (context == nullptr || !context->IsCancelled())) {
      let_.wait_for(lock, std::chrono::milliseconds(20));
    }
    return failing_ == verb ? grpc::Status(failure, "no " + verb) : grpc::Status::OK;
  }

  const std::string socket_, name_;
  std::unique_ptr<grpc::Server> server_;
  std::mutex requests_, mutex_;
  std::condition_variable let_;
  std::vector<std::string> calls_;
  std::string failing_, hanging_;
  bool hangs_ = false;  // one does
  std::atomic<bool> bound_ = false;
};

}  // namespace holdfast::agent
