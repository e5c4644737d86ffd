// SPDX-License-Identifier: Apache-2.0
// FakeImageStore: an ImageStore that keeps the bytes it was given. Thread-safe.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "holdfast/interfaces/image_store.h"
#include "holdfast/sys/files.h"

namespace holdfast {

class FakeImageStore : public ImageStore {
 public:
  Result<Image> Get(const std::string& reference) override {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(reference);
    if (found == images_.end()) return NotFound("image \"" + reference + "\" not found");
    return found->second;
  }
  Result<std::vector<Image>> List() override {
    const std::lock_guard lock(mutex_);
    std::vector<Image> images;
    for (const auto& [name, image] : images_) images.push_back(image);
    return images;
  }
  // An archive that begins with "bad" is refused; a read error leaves everything as it was.
  Result<std::vector<Image>> Import(int fd, const ImportOptions& options) override {
    ASSIGN_OR_RETURN(std::string bytes, sys::ReadFd(fd, 1ull << 30));
    if (bytes.starts_with("bad")) return InvalidArgument("archive: not one that is known");
    Image image;
    image.id = Digest("sha256:" + std::string(64, 'a'));
    image.repo_tags = {options.reference};
    image.size_bytes = bytes.size();
    image.os = "linux";
    image.architecture = "amd64";
    if (options.config) image.config = *options.config;
    const std::lock_guard lock(mutex_);
    images_[options.reference] = image;
    contents_[options.reference] = std::move(bytes);
    return std::vector<Image>{image};
  }
  Result<std::vector<Image>> ImportDirectory(int, const ImportOptions&) override {
    return Unsupported("directories come as tar");
  }
  Result<void> Export(const std::string& reference, int fd) override {
    ASSIGN_OR_RETURN(const std::string bytes, Content(reference));
    return sys::WriteAll(fd, bytes);
  }
  Result<void> Remove(const std::string& reference) override {
    const std::lock_guard lock(mutex_);
    if (images_.erase(reference) == 0) return NotFound("image \"" + reference + "\" not found");
    contents_.erase(reference);
    return {};
  }
  Result<void> Tag(const std::string& source, const std::string& target) override {
    const std::lock_guard lock(mutex_);
    const auto found = images_.find(source);
    if (found == images_.end()) return NotFound("image \"" + source + "\" not found");
    Image copy = found->second;
    copy.repo_tags = {target};
    images_[target] = std::move(copy);
    contents_[target] = contents_[source];
    return {};
  }
  Result<std::string> Content(const std::string& reference) {
    const std::lock_guard lock(mutex_);
    const auto found = contents_.find(reference);
    if (found == contents_.end()) return NotFound("image \"" + reference + "\" not found");
    return found->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Image> images_;
  std::map<std::string, std::string> contents_;
};

}  // namespace holdfast
