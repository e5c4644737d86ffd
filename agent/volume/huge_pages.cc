// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/huge_pages.h"

#include <sys/mount.h>

#include <cerrno>
#include <set>
#include <string_view>

#include "agent/kube/pod_resources.h"
#include "agent/kube/quantity.h"
#include "agent/volume/mount_point.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

constexpr std::string_view kMedium = "HugePages";
constexpr std::string_view kSizedMedium = "HugePages-";
constexpr std::string_view kResource = "hugepages-";

uint64_t SizeIn(std::string_view text) {
  const auto amount = kube::Amount::Parse(text);
  return amount && amount->Units() > 0 ? static_cast<uint64_t>(amount->Units()) : 0;
}

}  // namespace

bool IsHugePages(const corev1::VolumeSource& source) {
  const std::string& medium = source.emptydir().medium();
  return medium == kMedium || medium.starts_with(kSizedMedium);
}

Result<uint64_t> HugePageBytes(const corev1::PodSpec& spec, const std::string& medium) {
  std::set<uint64_t> sizes;  // that are asked for
  for (const auto& [name, amount] : kube::PodRequests(spec)) {
    if (name.starts_with(kResource)) {
      sizes.insert(SizeIn(std::string_view(name).substr(kResource.size())));
    }
  }
  sizes.erase(0);
  if (medium != kMedium) {
    const uint64_t size = SizeIn(std::string_view(medium).substr(kSizedMedium.size()));
    if (sizes.contains(size)) return size;
  } else if (sizes.size() == 1) {
    return *sizes.begin();
  } else if (sizes.size() > 1) {
    return InvalidArgument(StrCat("medium: ", medium,
                                  " can't be used if container requests multiple huge page sizes"));
  }
  return InvalidArgument(StrCat("medium ", medium,
                                ": hugePages storage requested, but there is no resource request "
                                "for huge pages"));
}

Result<void> MountHugePages(const std::string& path, uint64_t page_bytes) {
  ASSIGN_OR_RETURN(const bool mounted, IsMountPoint(path));
  if (mounted) return {};
  const std::string options = StrCat("pagesize=", page_bytes);
  if (::mount("nodev", path.c_str(), "hugetlbfs", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    return Error::FromErrno(errno, StrCat("mount hugetlbfs with ", options, " on ", path));
  }
  HOLDFAST_PAUSE_POINT("agent.volume.hugetlbfs_mounted");
  return {};
}

}  // namespace holdfast::agent
