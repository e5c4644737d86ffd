// SPDX-License-Identifier: Apache-2.0
// ImageService: the images of this node, put together: the store, what brings images into it and out of it, the logins for
// that, which pods may use which, and what takes away those that nothing needs. Each part is thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "agent/config/agent_config.h"
#include "agent/image_archives/image_archives.h"
#include "agent/image_gc/image_collector.h"
#include "agent/images/credential_providers.h"
#include "agent/images/keyring.h"
#include "agent/images/pulled_images.h"
#include "agent/images/short_named_images.h"
#include "agent/notifying_image_store.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "runtime/image/documents/signature_policy.h"
#include "runtime/image/pull/short_names.h"
#include "runtime/image/push/registry_pusher.h"
#include "runtime/image/store/disk_image_store.h"

namespace holdfast::agent {

// Borrowed, except what is a value.
struct ImageServiceOptions {
  const AgentConfig& config;
  PodViewStore& view;
  const Clock& clock;
  std::function<void()> added;  // there is an image that was not there; on any thread
};

class ImageService {
 public:
  // Reads what is on the disk.
  static Result<std::unique_ptr<ImageService>> Open(ImageServiceOptions options);
  ImageService(const ImageService&) = delete;
  ImageService& operator=(const ImageService&) = delete;

  // Once the pods are there that need an image or wait for one: what nothing needs goes from time to time, and
  // what lies in imageDir is imported for as long as the result lives; null where there is no imageDir.
  Result<std::unique_ptr<ImageArchives>> Tend();
  // Pulls, pushes and programs that make logins end.
  void Stop();

  ImageStore& store() { return *images_; }
  // As people ask for them.
  ShortNamedImages& by_short_name() { return *by_short_name_; }
  const runtime::ShortNames& short_names() const { return short_names_; }
  PulledImages& pulled() { return *pulled_; }
  // Makes room when there is none.
  ImagePuller& puller() { return *patient_puller_; }
  ImagePusher& pusher() { return *pusher_; }
  ImageCollector& collector() { return *collector_; }
  // Where programs that are told of a pod's account have it from. Before pods are there; borrowed.
  void UseAccounts(AccountTokens& accounts);
  // What the node itself may show to registries, and for the account of a pod (null: there is none). Blocks while
  // programs make it.
  ProvidedLogins Logins(const std::string& image, const TokenOwner* pod,
                        const std::atomic<bool>& cancelled);
  // How many pods may wait for a registry, for each other or for logins at a time.
  size_t MostThatWait() const;

 private:
  explicit ImageService(ImageServiceOptions options) : options_(std::move(options)) {}
  Result<void> OpenStore();
  Result<void> OpenPulled();
  Result<void> OpenProviders();
  void OpenCollector();
  void OpenPuller();
  void OpenPusher();
  std::string UserOf(const Image& image) const;

  const ImageServiceOptions options_;
  std::atomic<bool> stopping_ = false;
  std::unique_ptr<ArchiveBook> archive_book_;  // null: there is no imageDir
  std::unique_ptr<runtime::DiskImageStore> stored_;
  std::unique_ptr<PulledImages> pulled_;
  std::unique_ptr<NotifyingImageStore> images_;
  runtime::ShortNames short_names_;
  runtime::SignaturePolicy signature_policy_;
  std::unique_ptr<ShortNamedImages> by_short_name_;
  std::unique_ptr<CredentialProviders> providers_;  // null where none are configured
  std::unique_ptr<ImageCollector> collector_;
  std::unique_ptr<ImagePuller> puller_;
  std::unique_ptr<ImagePuller> patient_puller_;
  std::unique_ptr<ImagePusher> pusher_;
};

}  // namespace holdfast::agent
