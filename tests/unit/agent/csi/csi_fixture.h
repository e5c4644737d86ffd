// SPDX-License-Identifier: Apache-2.0
// A node with one plugin that the test plays (fake_driver.h), and the mounter that asks it.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agent/csi/node_csi_mounter.h"
#include "agent/csi/plugin_watcher.h"
#include "holdfast/base/strings.h"
#include "tests/unit/agent/csi/fake_driver.h"

namespace holdfast::agent {

inline bool Until(const std::function<bool()>& ready) {
  for (int i = 0; i < 2000; ++i) {
    if (ready()) return true;
    // What is waited for happens on threads of gRPC's.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class CsiTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "/tmp/holdfast-csi-XXXXXX";  // short: a socket's path has 108 bytes
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    std::filesystem::create_directory(dir_ + "/plugins_registry");
    driver_ = std::make_unique<FakeDriver>(dir_ + "/plugins_registry/disk.sock");
  }
  void TearDown() override {
    watcher_.reset();
    driver_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Watch() {
    auto watcher = PluginWatcher::Start({dir_, std::chrono::milliseconds(20),
                                         [this](const std::string& line) {
                                           const std::lock_guard lock(mutex_);
                                           log_.push_back(line);
                                         }},
                                        drivers_);
    ASSERT_TRUE(watcher) << watcher.error().message();
    watcher_ = std::move(*watcher);
  }
  // Without the watcher's thread.
  void Register() {
    driver_->Start();
    auto client = std::make_shared<const CsiClient>(dir_ + "/plugins_registry/disk.sock");
    auto info = client->Describe(nullptr);
    ASSERT_TRUE(info) << info.error().message();
    drivers_.Put({*info, client});
    mounter_ = std::make_unique<NodeCsiMounter>(dir_, drivers_);
  }
  static ::k8s::io::api::core::v1::Pod Pod(const std::string& uid) {
    ::k8s::io::api::core::v1::Pod pod;
    pod.mutable_metadata()->set_uid(uid);
    return pod;
  }
  static PersistentVolume Volume(const std::string& more = "") {
    PersistentVolume volume{.name = "pv1", .spec = {}};
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "persistentVolumeSource { csi { driver: 'disk.example' volumeHandle: 'h1' "
        "volumeAttributes { key: 'a' value: '1' } fsType: 'ext4' } } "
        "accessModes: 'ReadWriteOnce' mountOptions: 'noatime' " +
            more,
        &volume.spec));
    return volume;
  }
  PlacedVolume Place(const std::string& uid) const {
    return {"pv1",          "csi", StrCat(dir_, "/pods/", uid, "/pv1/mount"), false, false,
            "disk.example", "h1"};
  }
  std::string Mount(const std::string& uid, const PersistentVolume& volume = Volume()) {
    const auto done = mounter_->Mount(Pod(uid), volume, Place(uid), cancelled_);
    return done ? "" : done.error().message();
  }
  std::string Unmount(const std::string& uid) {
    const auto done = mounter_->Unmount(PodUid(uid), Place(uid));
    return done ? "" : done.error().message();
  }
  std::vector<std::string> InUse() const { return mounter_->VolumesInUse(); }

  std::string dir_;
  std::unique_ptr<FakeDriver> driver_;
  CsiDrivers drivers_;
  std::unique_ptr<NodeCsiMounter> mounter_;
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::unique_ptr<PluginWatcher> watcher_;
};

}  // namespace holdfast::agent
