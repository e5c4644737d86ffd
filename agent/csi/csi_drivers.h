// SPDX-License-Identifier: Apache-2.0
// CsiDrivers: the storage plugins that are registered on this node. Thread-safe; nothing blocks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "agent/csi/csi_client.h"

namespace holdfast::agent {

struct CsiDriver {
  CsiDriverInfo info;
  std::shared_ptr<const CsiClient> client;
};

class CsiDrivers {
 public:
  // Null: none of that name is registered.
  std::shared_ptr<const CsiDriver> Find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = drivers_.find(name);
    return found == drivers_.end() ? nullptr : found->second;
  }
  // Takes the place of one of that name.
  void Put(CsiDriver driver) {
    Change([&](auto& drivers) {
      const std::string name = driver.info.name;
      drivers[name] = std::make_shared<const CsiDriver>(std::move(driver));
    });
  }
  // Unless another one has taken its place.
  void Remove(const std::string& name, const CsiClient* client) {
    Change([&](auto& drivers) {
      const auto found = drivers.find(name);
      if (found != drivers.end() && found->second->client.get() == client) drivers.erase(found);
    });
  }

  // Of every change: those that there are now. On the thread that changes; {} ends that.
  using Listener = std::function<void(const std::vector<CsiDriverInfo>&)>;
  void SetListener(Listener listener) {
    Change([](auto& /*drivers*/) {}, &listener);
  }

 private:
  template <class Edit>
  void Change(Edit edit, Listener* listener = nullptr) {
    const std::lock_guard telling(telling_);
    std::vector<CsiDriverInfo> now;
    {
      const std::lock_guard lock(mutex_);
      edit(drivers_);
      for (const auto& [name, driver] : drivers_) now.push_back(driver->info);
    }
    if (listener != nullptr) listener_ = std::move(*listener);
    if (listener_) listener_(now);
  }

  std::mutex telling_;  // changes are told in their order; held before the other
  Listener listener_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const CsiDriver>> drivers_;
};

}  // namespace holdfast::agent
