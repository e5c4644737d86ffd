// SPDX-License-Identifier: Apache-2.0
// ImageStore: what runtime/image offers the agent. Thread-safe; calls may block on disk.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"

namespace holdfast {

// OCI image config, the part a container start needs. Untrusted text.
struct ImageConfig {
  std::vector<std::string> entrypoint;
  std::vector<std::string> cmd;
  std::vector<std::string> env;
  std::string user;
  std::string working_dir;
  std::string stop_signal;  // "SIGTERM", "15", ""
  std::vector<std::string> exposed_ports;
  std::vector<std::string> volumes;
  std::map<std::string, std::string> labels;
};

struct Image {
  Digest id;                              // digest of the config; of an artifact its manifest's
  std::vector<std::string> repo_tags;     // "docker.io/library/nginx:latest"
  std::vector<std::string> repo_digests;  // "docker.io/library/nginx@sha256:…"
  uint64_t size_bytes = 0;                // content in the store
  WallTime created;
  std::string os;
  std::string architecture;
  ImageConfig config;
  std::vector<std::string> layers;  // unpacked layer directories, absolute, lowest first
  bool pinned = false;              // stays whether it is used or not
  // Of an OCI artifact what it is ("application/vnd.example"): its files can be mounted, and nothing
  // of it runs. "": an image.
  std::string artifact_type = {};
};

struct ImportOptions {
  std::string reference;  // name for what is imported; "" takes the archive's own names
  // For a plain root tar only:
  std::optional<ImageConfig> config;
};

class ImageStore {
 public:
  virtual ~ImageStore() = default;

  // `reference`: "nginx", "nginx:1.27", "repo@sha256:…", an image id or a unique prefix of one.
  // kNotFound when it is not here, kInvalidArgument ("couldn't parse image name …") when malformed.
  virtual Result<Image> Get(const std::string& reference) = 0;
  virtual Result<std::vector<Image>> List() = 0;
  // docker-archive, OCI layout as tar, or a plain root tar, each plain or gzip or zstd. `fd` is
  // read to its end, so it may be a pipe. Returns what was added; the names of each are those that
  // the import gave. On failure nothing has changed.
  virtual Result<std::vector<Image>> Import(int fd, const ImportOptions& options) = 0;
  // OCI layout as a directory.
  virtual Result<std::vector<Image>> ImportDirectory(int dir_fd, const ImportOptions& options) = 0;
  // Writes an OCI layout tar that docker, podman and ourselves can read.
  virtual Result<void> Export(const std::string& reference, int fd) = 0;
  // Removes one name; the content goes when nothing names it. kConflict while `in_use` says so,
  // kInvalidArgument for a prefix of an id below 12 digits.
  virtual Result<void> Remove(const std::string& reference) = 0;
  // The image that `source` stands for gets the name `target` too, which another may lose by it.
  virtual Result<void> Tag(const std::string& source, const std::string& target) = 0;
};

}  // namespace holdfast
