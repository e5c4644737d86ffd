// SPDX-License-Identifier: Apache-2.0
// In-memory neighbours of the pod table: a runtime whose containers end when the test says so, an
// image store, a pod network, a source. Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/source/pod_source.h"
#include "holdfast/base/clock.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/interfaces/pod_network.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_device_holder.h"

namespace holdfast::agent {

class FakeRuntime : public ContainerRuntime {
 public:
  explicit FakeRuntime(const Clock& clock) : clock_(clock) {}

  Result<void> EnsureSandbox(const model::SandboxSpec& spec) override {
    Pass(Step::kSandbox, spec.uid);
    const std::lock_guard lock(mutex_);
    if (!sandbox_error.empty()) return Internal(sandbox_error);
    sandboxes_[spec.uid] = {spec.uid, spec.pod_namespace, spec.pod_name, !spec.host_network,
                            true,     spec.owner};
    return {};
  }
  Result<void> Resize(const PodUid& uid, const model::ResourceSpec& pod,
                      const std::vector<ResizedContainer>& containers) override {
    Pass(Step::kResize, uid);
    const std::lock_guard lock(mutex_);
    if (!resize_error_.empty()) return Conflict(resize_error_);
    resized_[uid] = pod;
    for (const ResizedContainer& c : containers) resized_containers_[c.name] = c.resources;
    return {};
  }
  Result<NsFd> NetworkNamespace(const PodUid&) override { return NsFd(); }
  Result<void> RemoveSandbox(const PodUid& uid) override {
    Pass(Step::kRemoveSandbox, uid);
    const std::lock_guard lock(mutex_);
    sandboxes_.erase(uid);
    std::erase_if(containers_, [&](const auto& c) { return c.second.pod_uid == uid; });
    return {};
  }
  std::expected<StartedContainer, StartFailure> Start(const model::ContainerSpec& spec) override {
    Pass(Step::kStart, spec.pod_uid);
    if (before_start) {
      if (auto failure = before_start(spec)) return std::unexpected(std::move(*failure));
    }
    const std::lock_guard lock(mutex_);
    starts_.push_back(spec);
    ObservedContainer c;
    c.id = spec.id;
    c.pod_uid = spec.pod_uid;
    c.name = spec.name;
    c.attempt = spec.attempt;
    c.started_at = clock_.Wall();
    containers_[spec.id] = c;
    StartedContainer started;
    started.id = spec.id;
    started.started_at = c.started_at;
    return started;
  }
  Result<void> Signal(const ContainerId& id, int signal) override {
    Pass(Step::kSignal, PodOf(id));
    {
      const std::lock_guard lock(mutex_);
      signals_.push_back(signal);
      if (ignore_signals) return {};
    }
    End(id, 128 + signal, signal);
    return {};
  }
  Result<void> Kill(const ContainerId& id) override {
    Pass(Step::kKill, PodOf(id));
    End(id, 137, 9);
    return {};
  }
  Result<void> Remove(const ContainerId& id) override {
    Pass(Step::kRemove, PodOf(id));
    const std::lock_guard lock(mutex_);
    containers_.erase(id);
    return {};
  }
  Result<std::unique_ptr<ExecSession>> Exec(const ContainerId&, const ExecSpec&) override {
    return Unsupported("exec");
  }
  Result<AttachedStreams> Attach(const ContainerId&, const AttachSpec&) override {
    return Unsupported("attach");
  }
  Result<void> CloseStdin(const ContainerId&) override { return {}; }
  Result<std::vector<ObservedContainer>> ListContainers() override {
    const std::lock_guard lock(mutex_);
    ++calls_.lists;
    std::vector<ObservedContainer> out;
    for (const auto& [id, c] : containers_) out.push_back(c);
    return out;
  }
  Result<std::vector<ObservedSandbox>> ListSandboxes() override {
    const std::lock_guard lock(mutex_);
    std::vector<ObservedSandbox> out;
    for (const auto& [uid, s] : sandboxes_) out.push_back(s);
    return out;
  }
  ObservedPod Observe(const PodUid& uid) override {
    const std::lock_guard lock(mutex_);
    ++calls_.observed;
    ++calls_.by_pod[uid];
    last_call_ = std::chrono::steady_clock::now();
    ObservedPod pod;
    if (const auto it = sandboxes_.find(uid); it != sandboxes_.end()) pod.sandbox = it->second;
    for (const auto& [id, c] : containers_) {
      if (c.pod_uid == uid) pod.containers.push_back(c);
    }
    return pod;
  }
  void SetChangeHint(std::function<void(const PodUid&)> hint) override {
    const std::lock_guard lock(hint_mutex_);
    hint_ = std::move(hint);
  }
  Result<void> HoldDevice(const PodUid& uid, const std::string& volume, int device) override {
    return devices_.HoldDevice(uid, volume, device);
  }
  Result<model::BlockDevice> HeldDevice(const PodUid& uid, const std::string& volume) override {
    return devices_.HeldDevice(uid, volume);
  }
  Result<void> LetGoOfDevice(const PodUid& uid, const std::string& volume) override {
    return devices_.LetGoOfDevice(uid, volume);
  }
  void KeepReady(size_t) override {}
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>&, bool) override {
    return std::vector<Leftover>();
  }

  void End(const ContainerId& id, int code, int signal = 0) {
    PodUid uid;
    {
      const std::lock_guard lock(mutex_);
      const auto it = containers_.find(id);
      if (it == containers_.end() || it->second.exit) return;
      it->second.state = ObservedContainer::State::kExited;
      model::ExitReport exit;
      exit.exit_code = code;
      exit.signal = signal;
      exit.finished_at = clock_.Wall();
      it->second.exit = exit;
      uid = it->second.pod_uid;
    }
    const std::lock_guard lock(hint_mutex_);
    if (hint_) hint_(uid);
  }
  void EndAll(const std::string& name, int code) {
    std::vector<ContainerId> ids;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, c] : containers_) {
        if (c.name == name && !c.exit) ids.push_back(id);
      }
    }
    for (const ContainerId& id : ids) End(id, code);
  }
  size_t StartCount() {
    const std::lock_guard lock(mutex_);
    return starts_.size();
  }
  // Where a call of one pod hangs until Release().
  enum class Step : uint8_t {
    kNone,
    kSandbox,
    kRemoveSandbox,
    kStart,
    kSignal,
    kKill,
    kRemove,
    kResize
  };
  void Hang(Step step, const PodUid& uid) {
    const std::lock_guard lock(hang_mutex_);
    hang_at_ = step;
    hang_pod_ = uid;
  }
  bool Hangs() {
    const std::lock_guard lock(hang_mutex_);
    return hanging_ > 0;
  }
  void Release() {
    std::unique_lock lock(hang_mutex_);
    hang_at_ = Step::kNone;
    hang_changed_.notify_all();
    hang_changed_.wait(lock, [&] { return hanging_ == 0; });
  }

  bool Runs(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(
        containers_, [&](const auto& c) { return c.second.name == name && !c.second.exit; });
  }
  // No container of the pod runs.
  bool Ended(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    return std::ranges::none_of(containers_, [&](const auto& c) {
      return c.second.pod_uid == PodUid(uid) && !c.second.exit;
    });
  }

  // What the runtime was asked so far.
  struct Calls {
    size_t lists = 0;  // of all containers
    size_t observed = 0;
    std::map<PodUid, size_t> by_pod;
    size_t observed_of(const PodUid& uid) const {
      const auto it = by_pod.find(uid);
      return it == by_pod.end() ? 0 : it->second;
    }
  };
  Calls calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  // Nobody has asked for a pod for so long.
  bool Quiet(std::chrono::milliseconds span) {
    const std::lock_guard lock(mutex_);
    return std::chrono::steady_clock::now() - last_call_ > span;
  }
  std::vector<model::ContainerSpec> starts() {
    const std::lock_guard lock(mutex_);
    return starts_;
  }
  std::vector<int> signals() {
    const std::lock_guard lock(mutex_);
    return signals_;
  }
  size_t Count() {
    const std::lock_guard lock(mutex_);
    return containers_.size() + sandboxes_.size();
  }

  // Called by each start, on the worker's thread; what it returns is the outcome. Set while quiet.
  std::function<std::optional<StartFailure>(const model::ContainerSpec&)> before_start;
  std::atomic<bool> ignore_signals = false;  // also while pods run
  std::string sandbox_error;
  void FailResize(const std::string& error) {
    const std::lock_guard lock(mutex_);
    resize_error_ = error;
  }
  // What a pod's cgroup, and a container's, were given last by a resize.
  std::optional<model::ResourceSpec> ResizedPod(const std::string& uid) {
    const std::lock_guard lock(mutex_);
    const auto it = resized_.find(PodUid(uid));
    return it == resized_.end() ? std::nullopt : std::optional(it->second);
  }
  std::optional<model::ResourceSpec> ResizedTo(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto it = resized_containers_.find(name);
    return it == resized_containers_.end() ? std::nullopt : std::optional(it->second);
  }

 private:
  void Pass(Step step, const PodUid& uid) {
    std::unique_lock lock(hang_mutex_);
    if (hang_at_ != step || hang_pod_ != uid) return;
    ++hanging_;
    hang_changed_.wait(lock, [&] { return hang_at_ != step; });
    --hanging_;
    hang_changed_.notify_all();
  }
  PodUid PodOf(const ContainerId& id) {
    const std::lock_guard lock(mutex_);
    const auto it = containers_.find(id);
    return it == containers_.end() ? PodUid() : it->second.pod_uid;
  }

  const Clock& clock_;
  std::mutex hang_mutex_;
  std::condition_variable hang_changed_;
  Step hang_at_ = Step::kNone;
  PodUid hang_pod_;
  int hanging_ = 0;
  std::mutex mutex_;
  Calls calls_;
  std::chrono::steady_clock::time_point last_call_;
  std::mutex hint_mutex_;
  std::function<void(const PodUid&)> hint_;
  fakes::FakeDeviceHolder devices_;
  std::vector<model::ContainerSpec> starts_;
  std::vector<int> signals_;
  std::map<ContainerId, ObservedContainer> containers_;
  std::map<PodUid, ObservedSandbox> sandboxes_;
  std::string resize_error_;
  std::map<PodUid, model::ResourceSpec> resized_;
  std::map<std::string, model::ResourceSpec> resized_containers_;
};

// Its registry has what the store has.
class FakeImages : public ImageStore, public ImagePuller {
 public:
  Result<Image> Get(const std::string& reference) override {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find_if(known_, [&](const auto& known) {
      return known.first == reference || known.second == reference;
    });
    if (it == known_.end()) return NotFound(reference);
    Image image;
    image.id = Digest(it->second);
    image.repo_tags = {"docker.io/library/" + it->first};
    image.config.cmd = {"/bin/sh"};
    image.layers = {"/layers/" + it->second};
    return image;
  }
  Result<PulledImage> Pull(const PullRequest& request, const std::atomic<bool>&) override {
    ASSIGN_OR_RETURN(Image image, Get(request.reference));
    return PulledImage{std::move(image)};
  }
  Result<std::vector<Image>> List() override { return std::vector<Image>(); }
  Result<std::vector<Image>> Import(int, const ImportOptions&) override {
    return Unsupported("import");
  }
  Result<std::vector<Image>> ImportDirectory(int, const ImportOptions&) override {
    return Unsupported("import");
  }
  Result<void> Export(const std::string&, int) override { return Unsupported("export"); }
  Result<void> Remove(const std::string&) override { return Unsupported("remove"); }
  Result<void> Tag(const std::string&, const std::string&) override { return Unsupported("tag"); }

  // The name means another image from now on; the old one stays under its id.
  void Move(const std::string& reference, const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(reference);
    known_.emplace("<none>", it->second);
    it->second = id;
  }
  void Add(const std::string& reference, const std::string& id = "sha256:1") {
    const std::lock_guard lock(mutex_);
    known_.emplace(reference, id);
  }

 private:
  std::mutex mutex_;
  std::multimap<std::string, std::string> known_;  // name -> id
};

class FakeNetwork : public PodNetwork {
 public:
  Result<void> Ensure() override {
    ++ensured;
    return {};
  }
  Result<void> Release() override {
    ++released;
    return {};
  }
  std::vector<std::string> TakeWarnings() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(warnings, {});
  }
  Result<std::vector<std::string>> Setup(const PodNetworkRequest& request) override {
    const std::lock_guard lock(mutex_);
    return addresses_[request.uid] = {"10.88.0.2"};
  }
  std::string NotReadyBecause() override { return ""; }
  std::vector<std::string> LeftOut(const PodNetworkRequest& /*request*/) override { return {}; }
  bool Holds(const PodUid& uid) override { return !Addresses(uid).empty(); }
  Result<void> Teardown(const PodUid& uid) override {
    const std::lock_guard lock(mutex_);
    addresses_.erase(uid);
    return {};
  }
  std::vector<std::string> Addresses(const PodUid& uid) override {
    const std::lock_guard lock(mutex_);
    const auto it = addresses_.find(uid);
    return it == addresses_.end() ? std::vector<std::string>() : it->second;
  }
  Result<std::vector<Leftover>> Audit(const std::vector<PodUid>&, bool) override {
    return std::vector<Leftover>();
  }

  std::vector<std::string> warnings;  // set while quiet

  std::atomic<int> ensured = 0;
  std::atomic<int> released = 0;

 private:
  std::mutex mutex_;
  std::map<PodUid, std::vector<std::string>> addresses_;
};

class FakeSource : public PodSource {
 public:
  std::shared_ptr<const PodSnapshot> Snapshot() const override {
    const std::lock_guard lock(mutex_);
    return snapshot_;
  }
  void SetChangeCallback(std::function<void()> changed) override {
    const std::lock_guard lock(mutex_);
    changed_ = std::move(changed);
  }
  void Set(std::vector<k8s::io::api::core::v1::Pod> pods) {
    auto snapshot = std::make_shared<PodSnapshot>();
    snapshot->complete = true;
    const auto file = std::make_shared<const std::string>("file.yaml");
    for (auto& pod : pods) {
      snapshot->pods.push_back(
          {std::make_shared<const k8s::io::api::core::v1::Pod>(std::move(pod)), file});
    }
    std::function<void()> changed;
    {
      const std::lock_guard lock(mutex_);
      snapshot_ = std::move(snapshot);
      changed = changed_;
    }
    if (changed) changed();
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const PodSnapshot> snapshot_ = std::make_shared<PodSnapshot>();
  std::function<void()> changed_;
};

}  // namespace holdfast::agent
