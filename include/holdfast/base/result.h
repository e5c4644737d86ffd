// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error; ignoring one is a compile error.
#pragma once

#include <expected>
#include <utility>

#include "holdfast/base/error.h"

namespace holdfast {

template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
  Result(Error error) : std::expected<T, Error>(std::unexpected(std::move(error))) {}
};

// Adds context to a failure, passes success through.
template <class T>
Result<T> WithContext(Result<T> result, std::string_view context) {
  if (!result) return std::move(result.error()).Wrap(context);
  return result;
}

}  // namespace holdfast

#define HOLDFAST_CONCAT_INNER(a, b) a##b
#define HOLDFAST_CONCAT(a, b) HOLDFAST_CONCAT_INNER(a, b)

// The only control-flow macros of the project.
#define RETURN_IF_ERROR(expr)                                        \
  do {                                                               \
    if (auto holdfast_status = (expr); !holdfast_status.has_value()) \
      return std::move(holdfast_status.error());                     \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_IMPL(HOLDFAST_CONCAT(holdfast_result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)          \
  auto tmp = (expr);                                   \
  if (!tmp.has_value()) return std::move(tmp.error()); \
  lhs = std::move(*tmp)
