// SPDX-License-Identifier: Apache-2.0
// ManifestDirectory: pods from the manifest files of one directory (kubelet's staticPodPath), and
// where a file may hold several documents, Services and EndpointSlices.
//
// One thread: inotify for speed, a full re-read every 20 s for safety, the same function for both.
// Read are complete regular files *.yaml, *.yml and *.json, in sorted order, up to 10 MiB; ignored
// are dot files, editors' temporaries, sub-directories and everything that is no regular file. A
// file counts once it was renamed in or has been quiet for 200 ms. A file that turns bad keeps its
// last good objects and reports why; a file that is gone takes its objects with it; a missing
// directory is an empty list. Of two objects of one kind and name the first in file order wins, the
// other is reported.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "agent/source/pod_source.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct ManifestDirectoryOptions {
  std::string path;       // need not exist
  std::string node_name;  // lower case
  // Without a kubeconfig a file may hold several documents; with one, exactly one Pod.
  bool multiple_documents = true;
  std::chrono::milliseconds quiet{200};
  std::chrono::milliseconds resync{20'000};
  std::function<void(const std::string&)> warn = {};  // from its thread
};

class ManifestDirectory : public PodSource {
 public:
  // Reads the directory before it returns, so the first snapshot is complete. Files that are being
  // written at that moment are waited for, up to 5 times `quiet`. Without inotify
  // the directory is looked at each second. Fails only without threads.
  static Result<std::unique_ptr<ManifestDirectory>> Start(ManifestDirectoryOptions options,
                                                          std::shared_ptr<const Clock> clock);
  ~ManifestDirectory() override;  // ends the thread

  std::shared_ptr<const PodSnapshot> Snapshot() const override;
  void SetChangeCallback(std::function<void()> changed) override;

  // Looks at these files (none: at all) without waiting for inotify or the timer; returns when what they say is in the
  // snapshot. Those that are named the caller has put into place or removed, so nobody else is waited for. For apply
  // and delete, whose caller wants to see the effect.
  void Reread(const std::set<std::string>& files = {});

 private:
  class Impl;
  explicit ManifestDirectory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent
