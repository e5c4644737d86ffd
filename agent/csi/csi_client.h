// SPDX-License-Identifier: Apache-2.0
// CsiClient: what is asked of one storage plugin, over its socket. Thread-safe; each call blocks until the plugin has
// answered, its limit is over (a kubelet's two minutes) or `cancelled` says that nobody wants it any more. Errors are the
// plugin's words as a kubelet shows them. Source: the Container Storage Interface 1.x.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/volume/persistent_volume.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct CsiDriverInfo {
  std::string name;
  std::string node_id;
  int64_t most_volumes = 0;  // 0: it does not say
  std::map<std::string, std::string> topology;
  bool stages = false;              // STAGE_UNSTAGE_VOLUME
  bool gives_to_group = false;      // VOLUME_MOUNT_GROUP
  bool knows_single_nodes = false;  // SINGLE_NODE_MULTI_WRITER
  bool tells_usage = false;         // GET_VOLUME_STATS
  bool expands = false;             // EXPAND_VOLUME
};

// What a plugin says of a volume; 0: it does not say.
struct CsiUsage {
  struct Amounts {
    uint64_t total = 0, available = 0, used = 0;
  };
  Amounts bytes, inodes;
};

// What staging and publishing have in common.
struct CsiVolume {
  std::string id;
  std::string fs_type;
  std::string access_mode;  // "ReadWriteOnce", …
  std::vector<std::string> mount_flags;
  std::string group;   // that the plugin is to give the volume to; "" none
  bool block = false;  // as a device; then nothing is said of fs_type, mount_flags and group
  std::map<std::string, std::string> publish_context;
  std::map<std::string, std::string> volume_context;
};

class CsiClient {
 public:
  explicit CsiClient(const std::string& socket);
  ~CsiClient();
  CsiClient(const CsiClient&) = delete;
  CsiClient& operator=(const CsiClient&) = delete;

  // Who it is and what it can do.
  Result<CsiDriverInfo> Describe(const std::atomic<bool>* cancelled) const;

  Result<void> Stage(const CsiVolume& volume, const CsiSecrets& secrets, const std::string& staging,
                     bool knows_single_nodes, const std::atomic<bool>* cancelled) const;
  // `staging` "" for a plugin that does not stage.
  Result<void> Publish(const CsiVolume& volume, const CsiSecrets& secrets,
                       const std::string& staging, const std::string& target, bool read_only,
                       bool knows_single_nodes, const std::atomic<bool>* cancelled) const;
  // Of a volume that was published at `path`, and staged at `staging` if that is not "".
  Result<void> Expand(const CsiVolume& volume, const CsiSecrets& secrets, const std::string& path,
                      const std::string& staging, int64_t bytes, bool knows_single_nodes,
                      const std::atomic<bool>* cancelled) const;
  // Of a volume that was published at `path`.
  Result<CsiUsage> Usage(const std::string& id, const std::string& path) const;
  Result<void> Unpublish(const std::string& id, const std::string& target) const;
  Result<void> Unstage(const std::string& id, const std::string& staging) const;

 private:
  struct Stubs;
  const std::unique_ptr<Stubs> stubs_;
};

}  // namespace holdfast::agent
