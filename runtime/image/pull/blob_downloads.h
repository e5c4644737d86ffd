// SPDX-License-Identifier: Apache-2.0
// BlobDownloads: the blobs of one image, a few at a time, into files of an ingest directory. Bytes
// are hashed as they are written; a file stands under its blob's staged name and counts only when
// it was told to be whole. What broke off is gone on with where it ended, also what an
// earlier pull has left. Single-thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"
#include "holdfast/model/disk_reserve.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/content/partial_blobs.h"
#include "runtime/image/pull/registry_client.h"

namespace holdfast::runtime {

struct WantedBlob {
  Digest digest;
  uint64_t size = 0;
  LayerProgress* progress = nullptr;  // kept up to date; borrowed
};

struct DownloadLimits {
  size_t at_a_time = 3;  // as containerd's max_concurrent_downloads
  model::DiskReserve reserve;
};

// Borrowed.
struct DownloadPlace {
  const Ingest& ingest;
  const PartialBlobs& partial;
};

class BlobDownloads {
 public:
  // `origins`: asked in their order, the next when one does not have a blob or sends a wrong one.
  BlobDownloads(RegistryClient& client, std::vector<Origin>& origins, DownloadPlace place,
                DownloadLimits limits);
  ~BlobDownloads();
  // `whole` is called for each that has come; `moved` now and then, and may end it.
  Result<void> Run(const std::vector<WantedBlob>& blobs,
                   const std::function<void(const Digest&)>& whole,
                   const std::function<Result<void>()>& moved);

 private:
  struct Job;
  Result<void> OpenFile(Job& job);
  Result<void> Launch(Job& job);
  Result<void> Take(Job& job, const fetch::Head& head, std::string_view piece);
  Result<void> NoteBegin(Job& job, const fetch::Head& head);
  Result<void> Restart(Job& job);
  Result<void> OnEnd(Job& job, const FetchEnd& end);
  Result<void> OnWhole(Job& job);
  Result<void> OnBroken(Job& job, Error error);
  Result<void> NextOrigin(Job& job, Error error);
  Result<void> LaunchDue();

  RegistryClient& client_;
  std::vector<Origin>& origins_;
  const DownloadPlace place_;
  const DownloadLimits limits_;
  std::vector<std::unique_ptr<Job>> jobs_;
  std::function<void(const Digest&)> whole_;
};

}  // namespace holdfast::runtime
