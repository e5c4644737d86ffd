// SPDX-License-Identifier: Apache-2.0
// MirrorPods: the images of this node's static pods at the API server. Each static pod that is reported gets one and its
// status goes to it; one that somebody deletes or changes is made anew, and with its pod it goes. What is reported of
// other pods is passed on. Containers never depend on any of that.
//
// Report() and Forget() from any thread; all else on the API thread. Source: feature-map.md 1.2; control-plane.md 5.6;
// join.md 1.3 and traps 31-33.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "agent/cluster/api.h"
#include "agent/cluster/reflector.h"
#include "agent/report/pod_calls.h"
#include "agent/report/pod_reporter.h"

namespace holdfast::agent {

struct MirrorPodsOptions {
  std::string node_name;
  // The newest copy of a mirror is another one, or gone.
  std::function<void(const PodUid&)> seen;
  // Why a pod has no mirror, once per reason.
  std::function<void(const std::string&)> trouble;
};

class MirrorPods : public PodReporter, public ObjectHandler {
 public:
  static constexpr size_t kMost = 8;  // calls at a time
  // A mirror of a pod that nobody speaks of, as long as a kubelet's housekeeping takes.
  static constexpr std::chrono::milliseconds kPatience{2'000};
  // Between tries that failed; doubled each time.
  static constexpr std::chrono::milliseconds kFirstRetry{1'000}, kLastRetry{30'000};

  // `reporter` gets the status of mirrors, too; both are borrowed.
  MirrorPods(Api& api, PodReporter& reporter, MirrorPodsOptions options);
  // On the API thread, or when that has ended.
  ~MirrorPods() override;
  MirrorPods(const MirrorPods&) = delete;
  MirrorPods& operator=(const MirrorPods&) = delete;

  void Report(PodReport report) override;
  void Forget(const PodUid& uid) override;

  // Mirrors are owned by the Node that is there now; "" while there is none.
  void SetNodeUid(const std::string& uid);
  // A mirror as the server has it, without its spec; null when there is none of that UID.
  PodPtr Find(const PodUid& uid) const;

  // The pods of this node that bear the annotation of a mirror. Of others only Gone() may come.
  void ListBegins() override;
  void Put(kube::ObjectPtr object) override;
  void Gone(kube::ObjectPtr last) override;
  void ListEnds() override;
  void Trouble(const Error&) override {}

 private:
  class State;
  PodReporter& reporter_;
  const std::shared_ptr<State> state_;  // shared with callbacks that are under way
};

}  // namespace holdfast::agent
