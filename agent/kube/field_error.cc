// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/field_error.h"

#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

std::string_view Title(FieldError::Type type) {
  switch (type) {
    case FieldError::Type::kRequired:
      return "Required value";
    case FieldError::Type::kInvalid:
      return "Invalid value";
    case FieldError::Type::kDuplicate:
      return "Duplicate value";
    case FieldError::Type::kNotSupported:
      return "Unsupported value";
    case FieldError::Type::kForbidden:
      return "Forbidden";
    case FieldError::Type::kTooLong:
      return "Too long";
    case FieldError::Type::kTooMany:
      return "Too many";
    case FieldError::Type::kNotFound:
      return "Not found";
  }
  return "Invalid value";
}

}  // namespace

std::string FieldError::Message() const {
  std::string out(Title(type));
  if (!value.empty()) out += ": " + value;
  if (!detail.empty()) out += ": " + detail;
  return out;
}

std::string FieldError::ToString() const { return path + ": " + Message(); }

}  // namespace holdfast::agent::kube
