// SPDX-License-Identifier: Apache-2.0
// BlobUploads: the blobs of one image to a registry, those that it does not have, a few at a time.
// Each is asked for first, taken over from another repository where it can be, else sent whole in
// one request, and from its beginning again where that breaks off. Single-thread.
// Source: OCI distribution 1.1, "pushing blobs".
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_pusher.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/pull/registry_client.h"

namespace holdfast::runtime {

struct OutgoingBlob {
  Digest digest;
  uint64_t size = 0;
  std::string source;               // repository of the same registry that may have it; "" for none
  PushedLayer* progress = nullptr;  // kept up to date; borrowed; may be null
};

class BlobUploads {
 public:
  static constexpr size_t kAtATime = 3;

  BlobUploads(RegistryClient& client, Origin& origin, const BlobStore& blobs);
  ~BlobUploads();
  // `moved` is called now and then.
  Result<void> Run(const std::vector<OutgoingBlob>& blobs, const std::function<void()>& moved);

 private:
  struct Job;
  Result<void> StartDue();
  Result<void> Start(Job& job);
  Result<bool> IsThere(const Job& job);
  Result<std::optional<std::string>> Mount(const Job& job);
  Result<std::string> NewSession();
  Result<std::string> UploadUrl(const Answer& answer) const;
  Result<void> Launch(Job& job);
  Result<void> Look(Job& job);
  Result<void> OnEnd(Job& job, FetchEnd end);
  Result<void> Again(Job& job, Error error);
  static void End(Job& job, PushedLayer::State how);

  RegistryClient& client_;
  Origin& origin_;
  const BlobStore& blobs_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace holdfast::runtime
