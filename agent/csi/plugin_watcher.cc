// SPDX-License-Identifier: Apache-2.0
#include "agent/csi/plugin_watcher.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "agent/csi/plugin_client.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMostSockets = 1000;
constexpr size_t kLongestDriverName = 63;
// As a kubelet: 500 ms doubled to two minutes.
constexpr std::chrono::milliseconds kFirstTry{500};
constexpr std::chrono::milliseconds kLastTry{122'000};

std::chrono::milliseconds DelayAfterTries(unsigned tries) {
  return std::min(kFirstTry * (1u << std::min(tries, 8u)), kLastTry);
}

// A driver's name becomes a directory's.
bool IsDriverName(const std::string& name) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kLongestDriverName && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_fine);
}

Result<void> CheckPlugin(const PluginInfo& plugin) {
  if (plugin.type != "CSIPlugin") {
    return Unsupported(StrCat("no handler registered for plugin type: ", plugin.type));
  }
  const bool is_known = std::ranges::any_of(plugin.versions, [](const std::string& version) {
    return version.starts_with("1.") || version.starts_with("v1.");
  });
  if (!is_known) {
    return Unsupported(StrCat("plugin ", plugin.name, " supports no version 1.x of CSI"));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<PluginWatcher>> PluginWatcher::Start(PluginWatcherOptions options,
                                                            CsiDrivers& drivers) {
  std::unique_ptr<PluginWatcher> watcher(new PluginWatcher(std::move(options), drivers));
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, watcher->directory_, 0750));
  ASSIGN_OR_RETURN(watcher->thread_,
                   sys::StartThread("plugins", [self = watcher.get()] { self->Run(); }));
  return watcher;
}

PluginWatcher::~PluginWatcher() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  end_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PluginWatcher::Run() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    lock.unlock();
    Look();
    lock.lock();
    end_.wait_for(lock, options_.period, [this] { return stopped_.load(); });
  }
}

// What goes on in the directory is what it shows: a change in between that is seen late is seen whole.
void PluginWatcher::Look() {
  const auto names = sys::ListDirAt(AT_FDCWD, directory_);
  if (!names) return;
  std::set<std::string> there;
  for (const std::string& name : *names) {
    const std::string path = StrCat(directory_, "/", name);
    struct stat st{};
    if (name.starts_with('.') || ::lstat(path.c_str(), &st) != 0 || !S_ISSOCK(st.st_mode)) continue;
    if (there.size() == kMostSockets) break;
    there.insert(path);
    Seen& seen = sockets_[path];
    const bool is_same = seen.inode == st.st_ino && seen.made.tv_sec == st.st_ctim.tv_sec &&
                         seen.made.tv_nsec == st.st_ctim.tv_nsec;
    if (!is_same) {
      // The driver that it registered stays until the new one answers: who is upgraded is away for a moment only.
      seen.inode = st.st_ino;
      seen.made = st.st_ctim;
      seen.told.clear();
      seen.tries = 0;
      seen.again = {};
    }
    if (!stopped_) LookAt(path, seen);
  }
  std::erase_if(sockets_, [&](const auto& one) {
    if (there.contains(one.first)) return false;
    Forget(one.second);
    return true;
  });
}

void PluginWatcher::LookAt(const std::string& socket, Seen& seen) {
  const auto now = std::chrono::steady_clock::now();
  if (seen.again == std::chrono::steady_clock::time_point::max() || now < seen.again) return;
  auto registered = Register(socket, seen);
  if (stopped_) return;
  const std::string problem = registered ? "" : registered.error().message();
  if (auto told = TellPlugin(socket, problem, &stopped_); !told && registered) {
    registered = std::move(told.error());
  }
  if (registered) {
    seen.again = std::chrono::steady_clock::time_point::max();
    options_.log(StrCat("storage plugin ", seen.driver, " is registered"));
    return;
  }
  const std::string& why = registered.error().message();
  if (std::exchange(seen.told, why) != why) {
    options_.log(StrCat("register ", socket, ": ", why, ", trying again"));
  }
  seen.again = now + DelayAfterTries(seen.tries++);
}

Result<void> PluginWatcher::Register(const std::string& socket, Seen& seen) {
  ASSIGN_OR_RETURN(const PluginInfo plugin, AskPlugin(socket, &stopped_));
  RETURN_IF_ERROR(CheckPlugin(plugin));
  CsiDriver driver;
  driver.client =
      std::make_shared<const CsiClient>(plugin.endpoint.empty() ? socket : plugin.endpoint);
  ASSIGN_OR_RETURN(driver.info, driver.client->Describe(&stopped_));
  if (!IsDriverName(plugin.name)) {
    return InvalidArgument(StrCat("\"", plugin.name.substr(0, kLongestDriverName),
                                  "\" is no name of a storage plugin"));
  }
  if (driver.info.node_id.empty()) return InvalidArgument("NodeGetInfo: no node id");
  // What it registered as is what others call it.
  driver.info.name = plugin.name;
  if (seen.driver != plugin.name) Forget(seen);
  seen.driver = plugin.name;
  seen.client = driver.client;
  drivers_.Put(std::move(driver));
  return {};
}

void PluginWatcher::Forget(const Seen& seen) {
  if (seen.driver.empty()) return;
  drivers_.Remove(seen.driver, seen.client.get());
  options_.log(StrCat("storage plugin ", seen.driver, " is gone"));
}

}  // namespace holdfast::agent
