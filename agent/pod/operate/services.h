// SPDX-License-Identifier: Apache-2.0
// What turns and operations of all pods share.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/images/keyring.h"
#include "agent/kube/claim_resize.h"
#include "agent/pod/admit/node_admission.h"
#include "agent/pod/spec/node_environment.h"
#include "agent/pod/state/pod_state_store.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/interfaces/pod_network.h"
#include "holdfast/model/instance.h"

namespace holdfast::agent {

class CsiMounter;
class NfsMounter;
class PodInputs;
class PodPulls;
class PulledImages;
class PodMetrics;
struct TokenOwner;
class PodReporter;
class PodViewStore;
class Prober;

// Borrowed; outlives all users. Each member is thread-safe.
struct PodServices {
  ContainerRuntime& runtime;
  ImageStore& images;
  PodNetwork& network;
  PodStateStore& state;
  PodViewStore& view;
  const Clock& clock;
  model::Instance instance;
  std::chrono::seconds max_back_off{300};
  std::function<std::shared_ptr<const NodeEnvironment>()> node;
  std::function<void(const std::string&)> log;  // one line per failure
  NodeAdmission* admission = nullptr;           // none: every pod is taken
  PodReporter* reporter = nullptr;              // none: nobody is told of an API server's pods
  PodInputs* inputs = nullptr;                  // of these; none: there is no API server
  Prober* prober = nullptr;                     // none: nothing is probed, and no hook is run
  ImagePuller* puller = nullptr;
  PulledImages* pulled_images = nullptr;  // none: every pod may use what is here
  // What the node itself may show to registries for an image, and for the account of a pod (null: it has none). Blocks
  // while programs make it.
  std::function<ProvidedLogins(const std::string& reference, const TokenOwner* pod,
                               const std::atomic<bool>& cancelled)>
      node_logins = {};
  PodInputs* file_inputs = nullptr;  // of pods of files; none: they are made from nothing else
  bool keep_secrets = false;         // on the disk, for a start without the API server
  CsiMounter* csi = nullptr;         // none: there are no storage plugins
  NfsMounter* nfs = nullptr;         // none: nobody mounts volumes of NFS servers
  // The node's, as the API server has them: where a PersistentVolume may be used.
  std::function<std::map<std::string, std::string>()> node_labels = [] {
    return std::map<std::string, std::string>();
  };
  PodMetrics* metrics = nullptr;  // none: nothing is counted
  // Into a claim's status at the API server; the resource version that it has then. Blocks until the answer.
  std::function<Result<std::string>(const kube::Claim& claim, std::string patch)> patch_claim = {};
  PodPulls* pulls = nullptr;  // none: nobody is shown how far they are
};

}  // namespace holdfast::agent
