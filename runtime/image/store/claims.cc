// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/store/claims.h"

namespace holdfast::runtime {

Result<bool> Claims::RemoveUnclaimed(const std::string& part,
                                     const std::function<Result<void>()>& remove) {
  const std::lock_guard hold(mutex_);
  if (held_.contains(part)) return false;
  RETURN_IF_ERROR(remove());
  return true;
}

Claim::~Claim() {
  const std::lock_guard hold(claims_.mutex_);
  for (const std::string& part : held_) claims_.held_.erase(claims_.held_.find(part));
}

bool Claim::Hold(const std::string& part, bool there) {
  if (!there) return false;
  claims_.held_.insert(part);
  held_.push_back(part);
  return true;
}

bool Claim::Blob(const Digest& digest) {
  const std::lock_guard hold(claims_.mutex_);
  return Hold(Claims::Part(digest), claims_.blobs_.Has(digest));
}

bool Claim::Layer(const Digest& chain_id) {
  const std::lock_guard hold(claims_.mutex_);
  return Hold(Claims::LayerPart(LayerStore::NameOf(chain_id)), claims_.layers_.Has(chain_id));
}

}  // namespace holdfast::runtime
