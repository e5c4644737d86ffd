// SPDX-License-Identifier: Apache-2.0
// What a volume shows whose files the agent writes: configMap, secret, downwardAPI, projected. Value types.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace holdfast::agent {

struct VolumeFile {
  // Shared with where they come from: what is secret is not copied.
  std::shared_ptr<const std::string> bytes;
  mode_t mode = 0644;
  std::optional<uid_t> owner;  // otherwise root
};

struct VolumeContent {
  std::map<std::string, VolumeFile> files;  // by path below the volume
  std::optional<gid_t> group;               // fsGroup
  bool stands_in =
      false;  // for what cannot be had now: a volume that shows something is left alone
};

// By the volume's name.
using VolumeContents = std::map<std::string, VolumeContent>;

}  // namespace holdfast::agent
