// SPDX-License-Identifier: Apache-2.0
// PodJob: one operation of one pod, carried out; a class per kind, made by MakePodJob(). It owns what
// it needs of the pod as that was when the operation was decided, so that it runs beside the pod's
// turns. No policy: that is decide()'s.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/pod/decide/types.h"
#include "agent/pod/operate/services.h"
#include "agent/pod/state/paths.h"

namespace holdfast::agent {

struct PodJobInput {
  std::shared_ptr<const corev1::Pod> pod;
  Action action;
  std::vector<std::string> pod_ips;  // kStart
  std::string image_id;              // kStart: what was decided to run
  ContainerId before_last;           // kStart: the run whose log link goes
  ContainerId target = {};           // kStart of an ephemeral container: whose processes it sees
  // kEnsureSandbox: the next attempt of each container.
  std::map<std::string, uint32_t> attempts = {};
  std::map<std::string, ContainerId> running = {};  // kResize: but ephemeral ones
  BootTime asked = {};                              // kPull: since when it waits
  const PodInputs* inputs = nullptr;  // none: there is nothing that it could be made from
};

class PodJob {
 public:
  PodJob(PodServices& services, PodJobInput input, const std::atomic<bool>& cancelled);
  virtual ~PodJob() = default;
  PodJob(const PodJob&) = delete;
  PodJob& operator=(const PodJob&) = delete;

  // May block for as long as the kernel lets it. Once.
  OperationEnd Run();

 protected:
  // True when the operation is to stop here, and ends as cancelled.
  bool GivesUp();
  static OperationEnd Cancelled();
  // With the events so far; a failure is logged.
  OperationEnd End(Result<void> result);
  void Log(const std::string& text) const;
  // What an API server or the manifest directory has for the pod; nothing where there is neither.
  const PodInputs& Inputs() const;
  bool HasApiInputs() const;

  PodServices& services_;
  const PodJobInput input_;
  const PodPaths paths_;
  const std::atomic<bool>& cancelled_;
  bool gave_up_ = false;  // nobody wants it any more, and it stopped for that
  std::vector<EventNote> events_;

 private:
  virtual OperationEnd CarryOut() = 0;
};

// What carries out the input's action. A hook has no thread and is begun otherwise (hook.h).
std::unique_ptr<PodJob> MakePodJob(PodServices& services, PodJobInput input,
                                   const std::atomic<bool>& cancelled);

}  // namespace holdfast::agent
