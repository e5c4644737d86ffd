// SPDX-License-Identifier: Apache-2.0
// The images that containerd knows: its metadata database, read while it may be running.
//
//   <root>/io.containerd.metadata.v1.bolt/meta.db    buckets v1 / NAMESPACE / images / NAME / target: digest, mediatype, size
//
// Source: core/metadata/buckets.go of containerd 2.4; the same since 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/cli/containerd/bolt.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast::agent::containerd {

struct Target {
  std::string digest;  // as it stands there
  std::string media_type;
  uint64_t size = 0;
  bool operator==(const Target&) const = default;
};

struct NamedImage {
  std::string name;
  Target target;
};

// Of that database, by name; kNotFound tells what namespaces there are. Read again while transactions end meanwhile, which
// is kUnavailable when there is no end to it.
Result<std::vector<NamedImage>> ReadImages(const ReadAt& read, const std::string& name_space);
// Of the file below `root`, which is opened for reading only.
Result<std::vector<NamedImage>> ReadImagesBelow(int root, const std::string& name_space);

}  // namespace holdfast::agent::containerd
