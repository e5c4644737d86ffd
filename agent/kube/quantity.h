// SPDX-License-Identifier: Apache-2.0
// Amount: exact arithmetic on Kubernetes quantities ("250m", "64Mi", "1e3"), in billionths, without
// floating point. As in Kubernetes, what is finer than a billionth is rounded away from zero, and
// what is beyond ±(2^63-1) becomes that. Value type.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::kube {

class Amount {
 public:
  // How the text was written; results print in the same family.
  enum class Format : uint8_t { kDecimalSi, kBinarySi, kDecimalExponent };

  Amount() = default;

  // kInvalidArgument for everything that is no quantity.
  static Result<Amount> Parse(std::string_view text);
  static Amount FromMilli(int64_t milli);
  static Amount FromUnits(int64_t units, Format format = Format::kDecimalSi);

  // Rounded up (away from zero), as Kubernetes does; saturated at the limits of int64_t.
  int64_t Units() const;
  int64_t Milli() const;

  // The canonical text: no fraction, the largest suffix that keeps it exact.
  std::string ToString() const;

  bool IsZero() const { return nano_ == 0; }
  bool IsWhole() const { return nano_ % 1'000'000'000 == 0; }
  bool IsNegative() const { return nano_ < 0; }
  Format format() const { return format_; }

  // The sum keeps the format of the left side unless that is zero.
  Amount& operator+=(const Amount& other);
  friend Amount operator+(Amount a, const Amount& b) { return a += b; }

  // By value: "1" equals "1000m".
  friend bool operator==(const Amount& a, const Amount& b) { return a.nano_ == b.nano_; }
  friend std::strong_ordering operator<=>(const Amount& a, const Amount& b) {
    return a.nano_ <=> b.nano_;
  }

 private:
  __extension__ using Wide = __int128;

  Wide nano_ = 0;
  Format format_ = Format::kDecimalSi;
};

}  // namespace holdfast::agent::kube
