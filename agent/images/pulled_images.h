// SPDX-License-Identifier: Apache-2.0
// PulledImages: which images were pulled for pods of this node, and with which credentials, so that
// no pod gets what only another may have. As a kubelet lays it out:
//
//   <directory>/pulling/sha256-<hex>   an ImagePullIntent: a pull was begun
//   <directory>/pulled/sha256-<hex>    an ImagePulledRecord
//
// An intent is there before the first byte is asked for and goes after the record is: whatever is
// killed, an image that came so is never taken for one that somebody put there for all. Thread-safe;
// only MayUse does not block. Source: KEP-2535; security-catalogue IM-08.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/images/pull_record.h"
#include "agent/images/pull_verification.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/interfaces/image_store.h"

namespace holdfast::agent {

struct PulledImagesOptions {
  std::string directory;  // made with mode 0700
  PullVerification verification;
  std::function<void(const std::string&)> log;
};

class PulledImages {
 public:
  // Looks at what a killed agent began. `images` and `clock` are borrowed.
  static Result<std::unique_ptr<PulledImages>> Open(PulledImagesOptions options, ImageStore& images,
                                                    const Clock& clock);

  // Around a pull of the image that a pod names so. Without a Begin that succeeded nothing may be
  // pulled; each is followed by one of the other two.
  Result<void> Begin(const std::string& image);
  void Failed(const std::string& image);
  // `shown`: nothing where the registry let in the pod's account; then it is for `pod` alone, as long as this process lives.
  void Pulled(const std::string& image, const Digest& id, const PullCredentials& shown,
              const PodUid& pod);

  // Whether a pod may use the image that is here and that it names so. `secrets`: what it has; asked for only if that
  // matters.
  using Secrets = std::function<std::vector<PullSecret>()>;
  bool MayUse(const std::string& image, const Digest& id, const PodUid& pod,
              const Secrets& secrets) const;

  // An image was removed: forgets the records of those that are no longer here.
  void Prune();

 private:
  PulledImages(PulledImagesOptions options, ImageStore& images, const Clock& clock, DirFd pulling,
               DirFd pulled);
  void ReadRecords();
  void Recover();
  void KeepForPod(const std::string& name, const Digest& id, const PodUid& pod);
  void ForgetIntent(const std::string& name);
  Result<void> Record(const Digest& id, const std::string& repository,
                      const PullCredentials& shown);
  void Tell(const std::string& what, const Error& error) const;

  const PulledImagesOptions options_;
  ImageStore& images_;
  const Clock& clock_;
  const DirFd pulling_, pulled_;
  std::mutex disk_;                              // held before mutex_; the files
  mutable std::mutex mutex_;                     // what follows
  std::map<std::string, PulledRecord> records_;  // by their files' names
  std::map<std::string, size_t> begun_;          // by images' names: pulls under way
  // Images' names with their ids, and the pods for whose accounts they came.
  std::set<std::pair<std::string, PodUid>> by_account_;
};

}  // namespace holdfast::agent
