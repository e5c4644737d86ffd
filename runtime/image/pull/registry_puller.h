// SPDX-License-Identifier: Apache-2.0
// RegistryPuller: the ImagePuller: a holdfast-fetch per pull, the hosts of the registry as files
// name them, and the image store. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "holdfast/interfaces/image_puller.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/documents/signature_policy.h"
#include "runtime/image/pull/pull_gate.h"
#include "runtime/image/pull/pull_rate.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

struct PullerOptions {
  std::string helper;                           // absolute path of holdfast-fetch
  std::vector<std::string> environment;         // of the helper: ProxyEnvironment()
  std::string hosts_directory;                  // "" for none
  SignaturePolicy policy;                       // which images may be pulled
  size_t at_a_time = 1;                         // pulls; 0: no limit
  uint32_t per_second = 5, burst = 10;          // pulls that are for no person; 0: no limit
  const std::atomic<bool>* stopping = nullptr;  // set: all pulls end; outlives the puller
  // Less than 1 KiB/s for so long ends a try; libcurl measures over five seconds more.
  std::chrono::seconds stall{25};
};

// The proxies of this process' environment, as the helper's: http_proxy and HTTP_PROXY, https_proxy
// and HTTPS_PROXY, no_proxy and NO_PROXY, and the node itself; SSL_CERT_FILE.
std::vector<std::string> ProxyEnvironment();

class RegistryPuller : public ImagePuller {
 public:
  // `store` outlives it.
  RegistryPuller(DiskImageStore& store, PullerOptions options);
  Result<PulledImage> Pull(const PullRequest& request, const std::atomic<bool>& cancelled) override;

 private:
  Result<PulledImage> PullNow(const Reference& reference, const RegistryLogins& logins,
                              const PullGate::Stop& stop, const PullGate::Tell& tell);

  DiskImageStore& store_;
  const PullerOptions options_;
  PullGate gate_;
  PullRate rate_;
};

}  // namespace holdfast::runtime
