// SPDX-License-Identifier: Apache-2.0
// ArchiveContent: the files of an image archive by the names the archive gives them, whether they
// come from a tar (already split by the helper) or from a directory. Single-thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/content/copy.h"
#include "runtime/image/snapshot/unpacker.h"

namespace holdfast::runtime {

class ArchiveContent {
 public:
  virtual ~ArchiveContent() = default;
  virtual bool Has(const std::string& name) const = 0;
  // A regular file; kNotFound.
  virtual Result<UniqueFd> Open(const std::string& name) const = 0;

  // Whole content of a small file.
  Result<std::string> Read(const std::string& name, size_t limit) const;
  // Copies it into `ingest` as `as`, hashing what is copied.
  Result<Copied> CopyTo(const std::string& name, const Ingest& ingest, const std::string& as,
                        const ImageLimits& limits) const;
};

// Files "0", "1", … below `directory`; links of old docker-archives are followed by name.
std::unique_ptr<ArchiveContent> SplitArchiveContent(DirFd directory, const ArchiveMembers& members);
// Opened beneath `directory`, symbolic links out of it refused.
std::unique_ptr<ArchiveContent> DirectoryContent(DirFd directory);

}  // namespace holdfast::runtime
