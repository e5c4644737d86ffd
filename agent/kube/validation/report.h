// SPDX-License-Identifier: Apache-2.0
// Report: collects the faults of one object, each worded as Kubernetes words it. Internal to the
// validation. Single-thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/diagnostic.h"
#include "agent/kube/field_error.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {

inline std::string Child(std::string_view path, std::string_view field) {
  return StrCat(path, ".", field);
}
inline std::string Index(std::string_view path, int index) { return StrCat(path, "[", index, "]"); }
inline std::string Key(std::string_view path, std::string_view key) {
  return StrCat(path, "[", key, "]");
}

using Words = std::vector<std::string_view>;

class Report {
 public:
  void Required(std::string path, std::string detail = "") {
    Add(FieldError::Type::kRequired, std::move(path), "", std::move(detail));
  }
  void Invalid(std::string path, std::string_view value, std::string detail) {
    Add(FieldError::Type::kInvalid, std::move(path), Shown(value), std::move(detail));
  }
  // One fault for each message.
  void InvalidEach(const std::string& path, std::string_view value,
                   const std::vector<std::string>& details) {
    for (const std::string& detail : details) Invalid(path, value, detail);
  }
  // `value` is shown as it is: a number, true, JSON.
  void InvalidLiteral(std::string path, std::string value, std::string detail) {
    Add(FieldError::Type::kInvalid, std::move(path), std::move(value), std::move(detail));
  }
  void InvalidNumber(std::string path, int64_t value, std::string detail) {
    InvalidLiteral(std::move(path), std::to_string(value), std::move(detail));
  }
  void Duplicate(std::string path, std::string_view value) {
    Add(FieldError::Type::kDuplicate, std::move(path), Shown(value), "");
  }
  void Forbidden(std::string path, std::string detail) {
    Add(FieldError::Type::kForbidden, std::move(path), "", std::move(detail));
  }
  void NotFound(std::string path, std::string_view value, std::string detail = "") {
    Add(FieldError::Type::kNotFound, std::move(path), Shown(value), std::move(detail));
  }
  void TooLong(std::string path, size_t most_bytes) {
    Add(FieldError::Type::kTooLong, std::move(path), "",
        StrCat("may not be more than ", most_bytes, " bytes"));
  }
  void TooMany(std::string path, int count, int most) {
    Add(FieldError::Type::kTooMany, std::move(path), std::to_string(count),
        StrCat("must have at most ", most, most == 1 ? " item" : " items"));
  }
  void NotSupported(std::string path, std::string_view value, const Words& supported) {
    std::string list;
    for (const std::string_view word : supported) {
      list += StrCat(list.empty() ? "supported values: " : ", ", Quoted(word));
    }
    Add(FieldError::Type::kNotSupported, std::move(path), Shown(value), std::move(list));
  }

  // A word of a fixed set: required, and one of them. True when it is.
  bool OneOf(const std::string& path, std::string_view value, const Words& supported) {
    if (!value.empty()) return OneOfShown(path, value, supported);
    Required(path);
    return false;
  }

  // The same of a word that is set, if only to nothing.
  bool OneOfShown(const std::string& path, std::string_view value, const Words& supported) {
    for (const std::string_view word : supported) {
      if (word == value) return true;
    }
    NotSupported(path, value, supported);
    return false;
  }

  bool NotNegative(const std::string& path, int64_t value) {
    if (value < 0) InvalidNumber(path, value, "must be greater than or equal to 0");
    return value >= 0;
  }

  size_t size() const { return errors_.size(); }
  FieldErrors Take() { return std::move(errors_); }

 private:
  static std::string Shown(std::string_view value) { return Quoted(value, 300); }

  void Add(FieldError::Type type, std::string path, std::string value, std::string detail) {
    errors_.push_back({type, std::move(path), std::move(value), std::move(detail)});
  }

  FieldErrors errors_;
};

}  // namespace holdfast::agent::kube
