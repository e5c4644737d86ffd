// SPDX-License-Identifier: Apache-2.0
// ImagePull: one image from the hosts of its registry into an ingest directory: name to index to
// manifest to config and layers, each checked against the digest and size that the one before it
// gave. Single-thread; one object per pull.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/image_puller.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/pull/blob_downloads.h"
#include "runtime/image/pull/registry_client.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::runtime {

// What a name or digest stands for, as a registry sent it.
struct RegistryDocument {
  std::string text;
  std::string media_type;
  Digest digest;  // of the text
};

class ImagePull {
 public:
  // `origins` hold logins; those that cannot pull are left out by the caller. `progress` is kept up
  // to date, `moved` called when it changed.
  ImagePull(RegistryClient& client, std::vector<Origin>& origins, Reference reference,
            PullProgress& progress, std::function<void()> moved)
      : client_(client),
        origins_(origins),
        reference_(std::move(reference)),
        progress_(progress),
        moved_(std::move(moved)) {}

  // The digest that the registry has for the tag now; "" when it does not say.
  Result<std::string> CurrentDigest();
  // Brings it whole, its layers unpacked.
  Result<void> Run(const StagingArea& area);
  // What the host was shown that said what the reference means; nothing: it asked for none.
  const std::optional<RegistryLogin>& shown() const { return shown_; }

 private:
  Result<RegistryDocument> Resolve(const StagingArea& area);
  Result<RegistryDocument> AskManifest(Origin& origin, const std::string& reference, size_t limit);
  Result<RegistryDocument> FetchManifest(const Descriptor& descriptor, const StagingArea& area);
  Result<std::string> FetchConfig(const Descriptor& descriptor, const StagingArea& area);
  Result<RegistryDocument> FindManifest(RegistryDocument document, const StagingArea& area);
  Result<void> FetchLayers(const std::vector<Descriptor>& layers, const StagingArea& area);
  Result<void> Show(ArrivingLayers& layers);
  std::string Asked() const {
    return reference_.digest.empty() ? reference_.tag : reference_.digest;
  }

  RegistryClient& client_;
  std::vector<Origin>& origins_;
  const Reference reference_;
  PullProgress& progress_;
  const std::function<void()> moved_;
  std::optional<RegistryLogin> shown_;
};

}  // namespace holdfast::runtime
