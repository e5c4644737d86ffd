// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/launch/begun_mark.h"

#include <sys/mman.h>

#include <utility>

namespace holdfast::runtime::keeper {

BegunMark::BegunMark(const Records& records, std::string id)
    : records_(&records), id_(std::move(id)) {
  const auto file = records.MakeBegun(id_);
  if (!file) return;
  void* place = ::mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, file->get(), 0);
  if (place == MAP_FAILED) {
    records.RemoveBegun(id_);
    return;
  }
  place_ = static_cast<char*>(place);
}

BegunMark::BegunMark(BegunMark&& other) noexcept
    : records_(other.records_),
      id_(std::move(other.id_)),
      place_(std::exchange(other.place_, nullptr)) {}

BegunMark& BegunMark::operator=(BegunMark&& other) noexcept {
  std::swap(records_, other.records_);
  std::swap(id_, other.id_);
  std::swap(place_, other.place_);
  return *this;
}

BegunMark::~BegunMark() {
  if (place_ == nullptr) return;
  records_->RemoveBegun(id_);
  ::munmap(place_, 1);
}

}  // namespace holdfast::runtime::keeper
