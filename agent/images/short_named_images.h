// SPDX-License-Identifier: Apache-2.0
// ShortNamedImages: the image store as people see it: a short name is the first of what it may stand
// for that is here. What they name anew (import, tag) is meant as docker has it. Thread-safe.
// And FirstPulled: the registries that a short name may be of, one after the other.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::runtime {
class ShortNames;
}

namespace holdfast::agent {

class ShortNamedImages final : public ImageStore {
 public:
  // Both outlive it.
  ShortNamedImages(ImageStore& store, const runtime::ShortNames& names)
      : store_(store), names_(names) {}

  Result<Image> Get(const std::string& reference) override { return store_.Get(Here(reference)); }
  Result<std::vector<Image>> List() override { return store_.List(); }
  Result<std::vector<Image>> Import(int fd, const ImportOptions& options) override {
    return store_.Import(fd, options);
  }
  Result<std::vector<Image>> ImportDirectory(int dir_fd, const ImportOptions& options) override {
    return store_.ImportDirectory(dir_fd, options);
  }
  Result<void> Export(const std::string& reference, int fd) override {
    return store_.Export(Here(reference), fd);
  }
  Result<void> Remove(const std::string& reference) override {
    return store_.Remove(Here(reference));
  }
  Result<void> Tag(const std::string& source, const std::string& target) override {
    return store_.Tag(Here(source), target);
  }

  // What the store is asked for instead; `reference` itself when none of its names is here: it may
  // be an id, or docker.io's.
  std::string Here(const std::string& reference) const;

 private:
  ImageStore& store_;
  const runtime::ShortNames& names_;
};

// The first of `names`, at least one, that `pull` gets. When there was none the error has what each
// said; kNotFound only when all did not have it. No other is tried once `cancelled`.
Result<PulledImage> FirstPulled(
    const std::string& short_name, const std::vector<std::string>& names,
    const std::function<Result<PulledImage>(const std::string& name)>& pull,
    const std::atomic<bool>& cancelled);

}  // namespace holdfast::agent
