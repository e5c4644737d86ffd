// SPDX-License-Identifier: Apache-2.0
// Unpacker: what the agent has done to untrusted archives, in helper processes. Thread-safe.
//
// Digests are computed here, on the bytes between the helpers, and never taken from a helper:
//   blob ──(hash: digest)──> inflate helper ──> agent (hash: diff_id, count) ──> layer helper
// So a layer that takes over the inflating or the unpacking helper can spoil only its own tree: the
// tree is named by the hash of the bytes that the second helper was really given.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/model/disk_reserve.h"
#include "runtime/image/content/copy.h"

namespace holdfast::runtime {

struct ImageLimits {
  uint64_t archive_bytes = 64ull << 30;   // what is imported, as it comes
  uint64_t unpacked_bytes = 64ull << 30;  // one layer, uncompressed
  uint64_t archive_members = 20'000;
  uint64_t layer_members = 2'000'000;
  uint64_t document_bytes = 4ull << 20;  // index, manifest, config
  uint64_t layers = 500;                 // overlayfs stacks no more
  uint64_t images = 1'000;               // in one archive
  model::DiskReserve reserve;            // of the file system that images are written to
};

// The helper's claims about a layer tree; used only through fds beneath that tree.
struct UnpackedLayer {
  Copied tar;  // diff_id and size, computed by us
  std::vector<std::string> opaque;
  std::vector<std::string> implicit;
};

struct ArchiveMembers {
  std::vector<std::string> files;                          // name of the file "0", "1", …
  std::vector<std::pair<std::string, std::string>> links;  // name, target
};

// "gzip", "zstd" or "" by the first bytes of a regular file, never by its name.
Result<std::string> CompressionOf(int fd);

class Unpacker {
 public:
  Unpacker(std::string helper, ImageLimits limits);

  const ImageLimits& limits() const { return limits_; }

  // `source` is a regular file, read from its beginning; gzip, zstd or plain, by content.
  Result<bool> IsImageArchive(int source) const;
  Result<ArchiveMembers> Split(int source, int directory) const;
  // What goes on beside an unpacking. Either may be empty.
  using Stop = std::function<bool()>;
  struct Meanwhile {
    Stop stop;                         // asked for each piece; true ends it with kUnavailable
    std::function<uint64_t()> coming;  // bytes that somebody else is still to write there
  };
  Result<UnpackedLayer> UnpackLayer(int source, int directory,
                                    const Meanwhile& meanwhile = {}) const;

 private:
  struct Fed {
    Copied bytes;
    bool complete = false;  // the helper read everything; false: it knew enough and stopped
    std::vector<std::string> report;
  };
  // Feeds the uncompressed bytes of `source` to the helper's step, hashing them on the way; ends
  // when what the step writes to the directory `output` leaves too little room there.
  Result<Fed> Feed(int source, std::vector<std::string> step, int output,
                   const Stop& stop = {}) const;
  // The same where no digest is wanted: a file that is not compressed goes to the helper itself,
  // which can then skip what it does not read.
  Result<std::vector<std::string>> Hand(int source, std::vector<std::string> step,
                                        int output) const;
  Result<Copied> Pump(int from, int to, int output, const Stop& stop) const;

  std::string helper_;
  ImageLimits limits_;
};

}  // namespace holdfast::runtime
