// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/network_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "agent/cni/chain.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent::cni {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What is written comes in pieces.
constexpr milliseconds kSettling{50};
constexpr uint32_t kChanges = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                              IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

// containerd's words, which a kubelet shows, and what they are about.
std::string NotInitialized(const Error& error) {
  return StrCat("Network plugin returns error: cni plugin not initialized: ", error.message());
}

}  // namespace

Result<std::unique_ptr<NetworkWatch>> NetworkWatch::Start(NetworkWatchOptions options,
                                                          const Plugins& plugins,
                                                          const sys::Wakeup& stop) {
  std::unique_ptr<NetworkWatch> watch(new NetworkWatch(std::move(options), plugins, stop));
  watch->FollowDirectories();
  watch->Look(true);
  ASSIGN_OR_RETURN(watch->thread_, sys::StartThread("cni", [w = watch.get()] { w->Run(); }));
  return watch;
}

NetworkWatch::~NetworkWatch() {
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const NetworkConfig> NetworkWatch::Current() const {
  const std::lock_guard lock(mutex_);
  return current_;
}

std::string NetworkWatch::Problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void NetworkWatch::SetListener(std::function<void(const std::string& problem)> listener) {
  const std::lock_guard telling(telling_);
  listener_ = std::move(listener);
  if (listener_) listener_(Problem());
}

void NetworkWatch::Run() {
  // What was found at start is tended to here: it may take its time.
  if (const auto network = Current(); network && options_.looked) options_.looked(*network, true);
  while (Wait()) {
    FollowDirectories();
    const bool due = steady_clock::now() - looked_at_ >= options_.look_period;
    const bool changed = Look(std::exchange(touched_, false) || due || Current() == nullptr);
    if (const auto network = Current(); network && options_.looked) {
      options_.looked(*network, changed);
    }
  }
}

// False: it is to end.
bool NetworkWatch::Wait() {
  const auto current = Current();
  milliseconds time = options_.look_period;
  if (!current || !Problem().empty()) {
    time = options_.retry_period;
  } else if (IsAtLeast(current->version, "1.1.0")) {
    time = options_.status_period;
  }
  if (!inotify_) time = std::min(time, options_.retry_period);
  std::array<pollfd, 2> fds{{{inotify_.get(), POLLIN, 0}, {stop_.fd(), POLLIN, 0}}};
  (void)::poll(fds.data(), fds.size(),
               static_cast<int>(time.count()));  // EINTR: as if it were time
  if (fds[1].revents != 0) return false;
  if (fds[0].revents == 0) return true;
  touched_ = true;
  if (::poll(&fds[1], 1, static_cast<int>(kSettling.count())) > 0) return false;
  std::array<char, 4096> events;
  while (::read(inotify_.get(), events.data(), events.size()) > 0) {
  }
  return true;
}

// Again each time: a directory that is followed already stays so, one that was missing may be there. One that cannot be
// followed is looked at all the same.
void NetworkWatch::FollowDirectories() {
  // A container of this user can have taken them all.
  if (!inotify_) inotify_.Reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  (void)::inotify_add_watch(inotify_.get(), options_.config_directory.c_str(), kChanges);
  for (const std::string& directory : options_.plugin_directories) {
    (void)::inotify_add_watch(inotify_.get(), directory.c_str(), kChanges);
  }
}

// `thoroughly`: the plugins are asked for their versions although the file says what it said before.
Result<NetworkConfig> NetworkWatch::Load(bool thoroughly) {
  ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetwork(options_.config_directory));
  const auto current = Current();
  if (!thoroughly && current && loaded.network == written_) return *current;
  NetworkConfig network = loaded.network;
  auto version = AgreeOnVersion(plugins_, network, steady_clock::now() + options_.verb_limit);
  if (!version) return std::move(version.error()).Wrap(StrCat("network config ", loaded.file));
  network.version = std::move(*version);
  written_ = std::move(loaded.network);
  return network;
}

// True when the network is another one than before.
bool NetworkWatch::Look(bool thoroughly) {
  if (thoroughly) looked_at_ = steady_clock::now();
  const auto before = Current();
  auto loaded = Load(thoroughly);
  if (!loaded) {
    Take(nullptr, NotInitialized(loaded.error()));
    return false;
  }
  const bool changed = !before || *before != *loaded;
  const auto network = changed ? std::make_shared<const NetworkConfig>(std::move(*loaded)) : before;
  const auto status = Status(plugins_, *network, steady_clock::now() + options_.verb_limit);
  Take(network, status ? "" : StrCat("Network plugin returns error: ", status.error().message()));
  return changed;
}

void NetworkWatch::Take(std::shared_ptr<const NetworkConfig> network, std::string problem) {
  const std::lock_guard telling(telling_);
  bool is_new = false;
  {
    const std::lock_guard lock(mutex_);
    is_new = problem_ != problem;
    if (network && current_ != network) {
      options_.log(StrCat("pods are attached to network \"", network->name, "\", cniVersion ",
                          network->version));
    }
    current_ = std::move(network);
    problem_ = std::move(problem);
  }
  if (!is_new) return;
  if (const std::string now = Problem(); !now.empty()) options_.log(now);
  if (listener_) listener_(Problem());
}

}  // namespace holdfast::agent::cni
