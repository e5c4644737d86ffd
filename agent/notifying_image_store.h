// SPDX-License-Identifier: Apache-2.0
// NotifyingImageStore and NotifyingImagePuller: an ImageStore and an ImagePuller that say when something was added to it, so that pods which
// wait for an image start at once, and when something was removed. Thread-safe as what they stand for is.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "holdfast/interfaces/image_puller.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

class NotifyingImageStore : public ImageStore {
 public:
  NotifyingImageStore(ImageStore& store, std::function<void()> added, std::function<void()> removed)
      : store_(store), added_(std::move(added)), removed_(std::move(removed)) {}

  Result<Image> Get(const std::string& reference) override { return store_.Get(reference); }
  Result<std::vector<Image>> List() override { return store_.List(); }
  Result<std::vector<Image>> Import(int fd, const ImportOptions& options) override {
    return Tell(store_.Import(fd, options));
  }
  Result<std::vector<Image>> ImportDirectory(int dir_fd, const ImportOptions& options) override {
    return Tell(store_.ImportDirectory(dir_fd, options));
  }
  Result<void> Export(const std::string& reference, int fd) override {
    return store_.Export(reference, fd);
  }
  Result<void> Remove(const std::string& reference) override {
    auto removed = store_.Remove(reference);
    if (removed) removed_();
    return removed;
  }
  Result<void> Tag(const std::string& source, const std::string& target) override {
    auto tagged = store_.Tag(source, target);
    if (tagged) added_();
    return tagged;
  }

 private:
  Result<std::vector<Image>> Tell(Result<std::vector<Image>> added) {
    if (added) added_();
    return added;
  }

  ImageStore& store_;
  const std::function<void()> added_, removed_;
};

class NotifyingImagePuller : public ImagePuller {
 public:
  NotifyingImagePuller(std::unique_ptr<ImagePuller> puller, std::function<void()> added)
      : puller_(std::move(puller)), added_(std::move(added)) {}

  Result<PulledImage> Pull(const PullRequest& request,
                           const std::atomic<bool>& cancelled) override {
    auto pulled = puller_->Pull(request, cancelled);
    if (pulled) added_();
    return pulled;
  }

 private:
  const std::unique_ptr<ImagePuller> puller_;
  const std::function<void()> added_;
};

}  // namespace holdfast::agent
