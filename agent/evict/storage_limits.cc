// SPDX-License-Identifier: Apache-2.0
#include "agent/evict/storage_limits.h"

#include <algorithm>
#include <limits>

#include "agent/kube/pod_resources.h"
#include "agent/kube/quantity.h"
#include "agent/kube/volume_kinds.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

namespace core = ::k8s::io::api::core::v1;

constexpr char kEphemeralStorage[] = "ephemeral-storage";

bool IsAbove(uint64_t bytes, const kube::Amount& limit) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return kube::Amount::FromUnits(static_cast<int64_t>(std::min(bytes, kMost))) > limit;
}

bool IsLimit(const kube::Amount& amount) { return !amount.IsZero() && !amount.IsNegative(); }

// Null: it may take what there is.
std::optional<kube::Amount> SizeLimit(const core::Volume& volume) {
  if (!kube::IsDiskEmptyDir(volume.volumesource()) ||
      !volume.volumesource().emptydir().has_sizelimit())
    return {};
  const auto limit = kube::Amount::Parse(volume.volumesource().emptydir().sizelimit().string());
  return limit && IsLimit(*limit) ? std::optional(*limit) : std::nullopt;
}

std::optional<kube::Amount> StorageLimit(const kube::ResourceList& limits) {
  const auto limit = limits.find(kEphemeralStorage);
  return limit == limits.end() ? std::nullopt : std::optional(limit->second);
}

uint64_t Sum(const StorageUse& use) {
  uint64_t sum = 0;
  for (const auto& [name, bytes] : use.containers) sum += bytes;
  for (const auto& [name, bytes] : use.empty_dirs) sum += bytes;
  return sum;
}

std::optional<Eviction> AVolumeIsAbove(const core::PodSpec& spec, const StorageUse& use) {
  for (const core::Volume& volume : spec.volumes()) {
    const auto used = use.empty_dirs.find(volume.name());
    const auto limit = SizeLimit(volume);
    if (used == use.empty_dirs.end() || !limit || !IsAbove(used->second, *limit)) continue;
    return Eviction{.why = StrCat("Usage of EmptyDir volume \"", volume.name(),
                                  "\" exceeds the limit \"", limit->ToString(), "\". "),
                    .signal = "emptydirfs.limit"};
  }
  return std::nullopt;
}

std::optional<Eviction> ThePodIsAbove(const core::PodSpec& spec, const StorageUse& use) {
  const auto limit = StorageLimit(kube::PodLimits(spec));
  if (!limit || !IsAbove(Sum(use), *limit)) return std::nullopt;
  return Eviction{
      .why = StrCat("Pod ephemeral local storage usage exceeds the total limit of containers ",
                    limit->ToString(), ". "),
      .signal = "ephemeralpodfs.limit"};
}

std::optional<Eviction> AContainerIsAbove(const core::PodSpec& spec, const StorageUse& use) {
  for (const core::Container& container : spec.containers()) {
    const auto used = use.containers.find(container.name());
    const auto limit = StorageLimit(kube::Limits(container));
    if (used == use.containers.end() || !limit || !IsLimit(*limit)) continue;
    if (!IsAbove(used->second, *limit)) continue;
    return Eviction{
        .why = StrCat("Container ", container.name(),
                      " exceeded its local ephemeral storage limit \"", limit->ToString(), "\". "),
        .signal = "ephemeralcontainerfs.limit"};
  }
  return std::nullopt;
}

}  // namespace

bool HasStorageLimits(const core::PodSpec& spec) {
  const auto has_limit = [](const core::Volume& volume) { return SizeLimit(volume).has_value(); };
  return kube::PodLimits(spec).contains(kEphemeralStorage) ||
         std::ranges::any_of(spec.volumes(), has_limit);
}

std::optional<Eviction> AboveStorageLimits(const core::PodSpec& spec, const StorageUse& use) {
  if (auto eviction = AVolumeIsAbove(spec, use)) return eviction;
  if (auto eviction = ThePodIsAbove(spec, use)) return eviction;
  return AContainerIsAbove(spec, use);
}

}  // namespace holdfast::agent
