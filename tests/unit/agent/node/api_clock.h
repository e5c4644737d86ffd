// SPDX-License-Identifier: Apache-2.0
// A clock that goes with a fake API's time.
#pragma once

#include <chrono>

#include "holdfast/base/clock.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent::test {

class ApiClock final : public Clock {
 public:
  explicit ApiClock(const fakes::FakeApi& api) : api_(api) {}
  BootTime Boot() const override { return {api_.now}; }
  WallTime Wall() const override { return {std::chrono::seconds(1'000'000) + api_.now}; }

 private:
  const fakes::FakeApi& api_;
};

}  // namespace holdfast::agent::test
