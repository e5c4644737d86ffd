// SPDX-License-Identifier: Apache-2.0
// Values as bytes, for records on disk. A struct is a length and its fields in order; a reader of
// an older record leaves what is missing at the end of a struct at its default, a reader of a newer
// one skips what it does not know. So: fields are only ever added at the end of a struct.
// Thread-safe: no shared state. Numbers are little-endian; the input is never trusted.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"

namespace holdfast::runtime {

// T, const or not: lets one field list serve reading and writing.
template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// Types for which VisitFields(visitor, value) is declared (fields.h).
template <class T>
struct IsRecordStruct : std::false_type {};

class RecordWriter {
 public:
  std::string Take() { return std::move(out_); }

  template <class... Ts>
  void operator()(const Ts&... values) {
    (Put(values), ...);
  }

 private:
  template <class T>
    requires(std::integral<T> || std::is_enum_v<T>)
  void Put(const T& value) {
    // NOLINTNEXTLINE(bugprone-signed-char-misuse): only the bytes of a T are put.
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8)
      out_.push_back(static_cast<char>(bits & 0xff));
  }
  void Put(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    out_ += text;
  }
  template <class Tag>
  void Put(const StrongString<Tag>& id) {
    Put(id.value);
  }
  void Put(const WallTime& time) { Put(static_cast<int64_t>(time.since_epoch.count())); }
  template <class T>
  void Put(const std::optional<T>& value) {
    Put(value.has_value());
    if (value) Put(*value);
  }
  template <class T>
  void Put(const std::vector<T>& values) {
    Put(static_cast<uint32_t>(values.size()));
    for (const T& value : values) Put(value);
  }
  void Put(const std::map<std::string, std::string>& values) {
    Put(static_cast<uint32_t>(values.size()));
    for (const auto& [key, value] : values) (*this)(key, value);
  }
  template <class T>
    requires(IsRecordStruct<T>::value)
  void Put(const T& value) {
    RecordWriter inner;
    VisitFields(inner, value);
    Put(inner.Take());
  }

  std::string out_;
};

class RecordReader {
 public:
  explicit RecordReader(std::string_view in) : in_(in) {}
  bool failed() const { return failed_; }

  // Fields after the end of the input keep their values.
  template <class... Ts>
  void operator()(Ts&... values) {
    ((in_.empty() || failed_ ? void() : Get(values)), ...);
  }

 private:
  bool Take(size_t size, std::string_view& bytes) {
    if (failed_ || in_.size() < size) {
      failed_ = true;
      return false;
    }
    bytes = in_.substr(0, size);
    in_.remove_prefix(size);
    return true;
  }
  template <class T>
    requires(std::integral<T> || std::is_enum_v<T>)
  void Get(T& value) {
    std::string_view bytes;
    if (!Take(sizeof(T), bytes)) return;
    uint64_t bits = 0;
    for (size_t i = sizeof(T); i-- > 0;) bits = bits << 8 | static_cast<uint8_t>(bytes[i]);
    value = static_cast<T>(bits);
  }
  void Get(std::string& text) {
    uint32_t size = 0;
    Get(size);
    std::string_view bytes;
    if (Take(size, bytes)) text = bytes;
  }
  template <class Tag>
  void Get(StrongString<Tag>& id) {
    Get(id.value);
  }
  void Get(WallTime& time) {
    int64_t count = 0;
    Get(count);
    time.since_epoch = std::chrono::nanoseconds(count);
  }
  template <class T>
  void Get(std::optional<T>& value) {
    bool present = false;
    Get(present);
    if (!present || failed_) return;
    T inner{};
    Get(inner);
    value = std::move(inner);
  }
  template <class T>
  void Get(std::vector<T>& values) {
    uint32_t count = 0;
    Get(count);
    values.clear();
    // Nothing is reserved: each element must be there before memory is spent on it.
    while (count-- > 0 && !failed_) {
      T value{};
      Get(value);
      values.push_back(std::move(value));
    }
  }
  void Get(std::map<std::string, std::string>& values) {
    uint32_t count = 0;
    Get(count);
    while (count-- > 0 && !failed_) {
      std::string key;
      std::string value;
      Get(key);
      Get(value);
      values[std::move(key)] = std::move(value);
    }
  }
  template <class T>
    requires(IsRecordStruct<T>::value)
  void Get(T& value) {
    uint32_t size = 0;
    Get(size);
    std::string_view bytes;
    if (!Take(size, bytes)) return;
    RecordReader inner(bytes);
    VisitFields(inner, value);
    failed_ = failed_ || inner.failed();
  }

  std::string_view in_;
  bool failed_ = false;
};

}  // namespace holdfast::runtime
