// SPDX-License-Identifier: Apache-2.0
// ApiPodReporter: PodReporter over an Api. Of each pod it keeps the newest status that is wanted and compares it with
// the server's copy; what differs goes as one patch at a time per pod and kMost over all, what people wait for at once
// and first, the rest a moment later in one patch. What somebody else makes of our fields is put back, but not before
// he could read it. When a pod that is being deleted has its last phase on the server and is released here, its object
// is deleted for good, once. Source: join.md 1.3 ("Status") and traps 14-23, control-plane.md 5.3-5.5.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/report/pod_reporter.h"

namespace holdfast::agent {

class ApiPodReporter : public PodReporter {
 public:
  static constexpr size_t kMost = 16;
  // Of what nobody waits for: most pods have begun by then, and a patch says both at once.
  static constexpr std::chrono::milliseconds kGather{300};
  static constexpr std::chrono::milliseconds kRepair{2'000};
  // Between tries that failed; doubled each time.
  static constexpr std::chrono::milliseconds kFirstRetry{250}, kLastRetry{30'000};

  // A pod as the watch has it, without its spec or with; null when it does not. Asked on the API thread.
  using ServerCopies = std::function<std::shared_ptr<const corev1::Pod>(const PodUid&)>;

  // `log` gets one line per kind of failure. `api` is borrowed.
  ApiPodReporter(Api& api, ServerCopies find, std::function<void(const std::string&)> log);
  // On the API thread, or when that has ended. What was not sent is not sent any more.
  ~ApiPodReporter() override;
  ApiPodReporter(const ApiPodReporter&) = delete;
  ApiPodReporter& operator=(const ApiPodReporter&) = delete;

  void Report(PodReport report) override;
  void Forget(const PodUid& uid) override;
  // The server's copy of a pod is another one, or gone. On the API thread (ApiPodsCallbacks::seen).
  void Look(const PodUid& uid);
  // They are those of a whole list. What was answered before is not believed any more: a restored store has gone back, and
  // what the list does not have yet follows it. On the API thread (ApiPodsCallbacks::listed).
  void Listed();
  // A request is on its way: what is less important waits. On the API thread.
  bool IsBusy() const;

 private:
  class State;
  const std::shared_ptr<State> state_;  // shared with callbacks that are under way
};

}  // namespace holdfast::agent
