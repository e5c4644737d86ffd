// SPDX-License-Identifier: Apache-2.0
// BegunMark: a launch's mark in the records (Records::MakeBegun), mapped for its child to set. It
// goes with this object, so it lies there only while the outcome is unknown, or after the launcher
// has died with it. Single-threaded.
#pragma once

#include <string>

#include "runtime/keeper/common/records.h"

namespace holdfast::runtime::keeper {

class BegunMark {
 public:
  BegunMark() = default;
  // Without a mark (no space) the launch counts as one that has begun. `records` is borrowed.
  BegunMark(const Records& records, std::string id);
  BegunMark(BegunMark&& other) noexcept;
  BegunMark& operator=(BegunMark&& other) noexcept;
  ~BegunMark();

  char* place() const { return place_; }  // null without a mark

 private:
  const Records* records_ = nullptr;
  std::string id_;
  char* place_ = nullptr;
};

}  // namespace holdfast::runtime::keeper
