// SPDX-License-Identifier: Apache-2.0
// IdRanges: which pod with a user namespace (hostUsers: false) has which ids of the host. Each has
// 65536 of its own, the same for users and groups, written into the pod's directory before anything
// is made with them: <pods dir>/<pod uid>/userns, as a kubelet writes it. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

inline constexpr uint32_t kIdsPerPod = 65536;

// Where ranges are taken from: `count` blocks of kIdsPerPod from `first`, a multiple of it.
struct IdSpace {
  // 1879048192 to 2147352575: what systemd's list of uid ranges leaves to others, above the ranges
  // of its containers and of /etc/subuid, below what a signed number can hold.
  uint32_t first = 0x70000000;
  uint32_t blocks = 4094;
  bool operator==(const IdSpace&) const = default;
};

class IdRanges {
 public:
  IdRanges(std::string pods_dir, IdSpace space)
      : pods_dir_(std::move(pods_dir)), space_(space), next_(space.first) {}

  // Reads what former agents gave. Once, before other calls. Answers with the files that could not
  // be read, in words: their pods get nothing until they are removed, and what processes have now
  // according to the kernel is given to nobody while there is such a pod.
  Result<std::vector<std::string>> Adopt();

  // The pod's range, given now if it has none. kResourceExhausted when all are given, kConflict
  // when the pod's file could not be read.
  Result<std::vector<model::IdMapEntry>> Ensure(const PodUid& uid);
  // Empty for a pod without a range.
  std::vector<model::IdMapEntry> Find(const PodUid& uid) const;
  // No process of the pod is left. Absent is success.
  Result<void> Free(const PodUid& uid);

 private:
  Result<uint32_t> Read(int pods, const std::string& uid) const;
  bool IsTaken(uint32_t first) const;
  Result<uint32_t> NextFree() const;

  const std::string pods_dir_;
  const IdSpace space_;
  mutable std::mutex mutex_;
  std::map<PodUid, uint32_t> given_;       // the first id
  std::map<PodUid, std::string> damaged_;  // why
  std::set<uint32_t> seen_;                // first ids of ranges that processes had
  uint32_t next_;                          // ids are used again as late as possible
};

}  // namespace holdfast::runtime
