// SPDX-License-Identifier: Apache-2.0
// SourceTap: a PodSource that tells a second listener of every change. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "agent/source/pod_source.h"

namespace holdfast::agent {

class SourceTap : public PodSource {
 public:
  // `also` runs where the callback runs, after it; it must not block. `source` is borrowed.
  SourceTap(PodSource& source, std::function<void()> also)
      : source_(source), also_(std::move(also)) {}

  std::shared_ptr<const PodSnapshot> Snapshot() const override { return source_.Snapshot(); }
  void SetChangeCallback(std::function<void()> changed) override {
    if (!changed) return source_.SetChangeCallback({});
    source_.SetChangeCallback([changed = std::move(changed), also = also_] {
      changed();
      also();
    });
  }

 private:
  PodSource& source_;
  const std::function<void()> also_;
};

}  // namespace holdfast::agent
