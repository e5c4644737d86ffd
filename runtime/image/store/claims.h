// SPDX-License-Identifier: Apache-2.0
// Claims: blobs and layers of the store that imports, pulls and exports under way rely on, so that
// no sweep takes them though no record may name them yet. Thread-safe.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "runtime/image/content/blob_store.h"
#include "runtime/image/snapshot/layer_store.h"

namespace holdfast::runtime {

class Claims {
 public:
  // Borrowed.
  Claims(const BlobStore& blobs, const LayerStore& layers) : blobs_(blobs), layers_(layers) {}

  // Removes by `remove` unless it is claimed; nobody can claim it meanwhile. False: it is.
  Result<bool> RemoveUnclaimed(const std::string& part,
                               const std::function<Result<void>()>& remove);

  // What blobs and layers are called here.
  static std::string Part(const Digest& blob) { return blob.value; }
  static std::string LayerPart(const std::string& name) { return "layer:" + name; }

 private:
  friend class Claim;
  const BlobStore& blobs_;
  const LayerStore& layers_;
  std::mutex mutex_;  // what follows, and that a part is there
  std::multiset<std::string> held_;
};

// What one of them relies on, until it is destroyed.
class Claim {
 public:
  explicit Claim(Claims& claims) : claims_(claims) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim();

  // Whether the store has it; it stays then.
  bool Blob(const Digest& digest);
  bool Layer(const Digest& chain_id);

 private:
  bool Hold(const std::string& part, bool there);  // claims_.mutex_ held

  Claims& claims_;
  std::vector<std::string> held_;  // guarded by claims_.mutex_
};

}  // namespace holdfast::runtime
