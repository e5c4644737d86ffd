// SPDX-License-Identifier: Apache-2.0
// LayerSizes: what unpacked layers take on the disk. A layer never changes, so each is counted once,
// which may take long, and remembered. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "holdfast/base/ids.h"
#include "runtime/image/snapshot/layer_store.h"

namespace holdfast::runtime {

class LayerSizes {
 public:
  // Bytes; 0 when it is not there (any more).
  uint64_t Of(const LayerStore& layers, const Digest& chain_id);

 private:
  std::mutex mutex_;
  std::map<Digest, uint64_t> known_;
};

}  // namespace holdfast::runtime
