// SPDX-License-Identifier: Apache-2.0
// What is remembered of a pod's attachment to its network, on the disk:
//
//   <directory>/lock                held (flock) by the one agent that uses it
//   <directory>/attachments/<uid>   one Attachment as JSON, of mode 0600
//
// A record is written before the first plugin is asked for anything, marked before the first DEL, and removed after the last one has detached the pod,
// so whatever is left behind at any moment has one. Records are synced: what plugins keep (addresses) survives a power
// cut too. It has the network as it was then: another configuration is for the next pod.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/cni/chain.h"
#include "agent/cni/network_config.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::agent::cni {

struct Attachment {
  PodUid uid;
  std::string pod_namespace;
  std::string pod_name;
  Attached attached;
  NetworkConfig network;
  Json result;             // of the ADD; null while it is not known to have ended
  bool detaching = false;  // DEL has begun: whatever stands, the pod is not attached any more
  bool IsAdded() const { return !result.is_null(); }
};

std::string EncodeAttachment(const Attachment& attachment);
// kInvalidArgument when it is of another version or damaged.
Result<Attachment> DecodeAttachment(const PodUid& uid, const std::string& text);

// One thread at a time for the same pod.
class AttachmentStore {
 public:
  // Makes the directory and takes its lock; kConflict while another agent holds it.
  static Result<AttachmentStore> Open(const std::string& directory);

  struct Loaded {
    std::vector<Attachment> attachments;
    std::vector<std::string> problems;  // records that cannot be read, left alone
  };
  Result<Loaded> Load() const;
  Result<void> Save(const Attachment& attachment) const;
  Result<void> Remove(const PodUid& uid) const;  // absent is success

 private:
  AttachmentStore() = default;
  DirFd directory_;
  UniqueFd lock_;
};

}  // namespace holdfast::agent::cni
