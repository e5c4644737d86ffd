// SPDX-License-Identifier: Apache-2.0
// A DeviceHolder that keeps the devices itself. Thread-safe.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <map>
#include <mutex>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/device_holder.h"

namespace holdfast::fakes {

class FakeDeviceHolder : public DeviceHolder {
 public:
  Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) override {
    const std::lock_guard lock(mutex_);
    kept_[Key(uid, volume)] = UniqueFd(::fcntl(device, F_DUPFD_CLOEXEC, 0));
    return {};
  }
  Result<model::BlockDevice> HeldDevice(const PodUid& uid, const std::string& volume) override {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.find(Key(uid, volume));
    if (kept == kept_.end()) return NotFound("nothing is held");
    struct stat st{};
    if (::fstat(kept->second.get(), &st) != 0) return Internal("fstat");
    return model::BlockDevice{::major(st.st_rdev), ::minor(st.st_rdev), st.st_mode & 0777,
                              st.st_uid, st.st_gid};
  }
  Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) override {
    const std::lock_guard lock(mutex_);
    kept_.erase(Key(uid, volume));
    return {};
  }
  // Everybody who holds them dies.
  void Die() {
    const std::lock_guard lock(mutex_);
    kept_.clear();
  }
  size_t held() {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }

 private:
  static std::string Key(const PodUid& uid, const std::string& volume) {
    return StrCat(uid.value, ".", volume);
  }

  std::mutex mutex_;
  std::map<std::string, UniqueFd> kept_;
};

}  // namespace holdfast::fakes
