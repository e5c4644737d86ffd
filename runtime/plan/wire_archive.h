// SPDX-License-Identifier: Apache-2.0
// The two directions of the plan's wire form. Both offer the same verbs, so that wire.cc names
// every field once. Integers are little-endian and fixed in size; strings and lists carry a u32
// length. Single-thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "holdfast/model/launch_plan.h"

namespace holdfast::runtime {

inline constexpr size_t kMaxWireString = 1u << 20;
inline constexpr size_t kMaxWireList = 1u << 17;

class WireWriter {
 public:
  template <class T>
  using Ref = const T&;

  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void Number(const T& value) {
    auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i, bits >>= 8)
      out_.push_back(static_cast<char>(bits & 0xff));
  }
  void Fd(const model::FdIndex& value) { Number(value); }
  void Flag(const bool& value) { out_.push_back(value ? 1 : 0); }
  template <class E>
  void Choice(const E& value, E /*last*/) {
    Number(value);
  }
  void Text(const std::string& value) {
    Number(static_cast<uint32_t>(value.size()));
    out_.append(value);
  }
  template <class T, class Each>
  void List(const std::vector<T>& values, Each each) {
    Number(static_cast<uint32_t>(values.size()));
    for (const T& value : values) each(*this, value);
  }
  void Map(const std::map<std::string, std::string>& values) {
    Number(static_cast<uint32_t>(values.size()));
    for (const auto& [key, value] : values) {
      Text(key);
      Text(value);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

// After the first violation every verb does nothing; error() tells which it was.
class WireReader {
 public:
  template <class T>
  using Ref = T&;

  WireReader(std::string_view in, size_t fd_count) : in_(in), fd_count_(fd_count) {}

  template <class T>
    requires(std::is_integral_v<T> || std::is_enum_v<T>)
  void Number(T& value) {
    if (in_.size() < sizeof(T)) return Fail("truncated");
    uint64_t bits = 0;
    for (size_t i = sizeof(T); i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(in_[i]);
    in_.remove_prefix(sizeof(T));
    value = static_cast<T>(bits);
  }
  void Fd(model::FdIndex& value) {
    model::FdIndex read = model::kNoFd;
    Number(read);
    if (read < model::kNoFd || (read >= 0 && static_cast<size_t>(read) >= fd_count_)) {
      return Fail("descriptor index out of range");
    }
    value = read;
  }
  void Flag(bool& value) {
    uint8_t read = 0;
    Number(read);
    if (read > 1) return Fail("a flag that is neither 0 nor 1");
    value = read == 1;
  }
  template <class E>
  void Choice(E& value, E last) {
    std::underlying_type_t<E> read{};
    Number(read);
    if (read > static_cast<std::underlying_type_t<E>>(last)) return Fail("unknown kind");
    value = static_cast<E>(read);
  }
  void Text(std::string& value) {
    uint32_t size = 0;
    Number(size);
    if (size > kMaxWireString) return Fail("a string is too long");
    if (size > in_.size()) return Fail("truncated");
    value.assign(in_.substr(0, size));
    in_.remove_prefix(size);
    if (value.find('\0') != std::string::npos) Fail("a string holds a NUL byte");
  }
  template <class T, class Each>
  void List(std::vector<T>& values, Each each) {
    uint32_t count = 0;
    Number(count);
    // Every element takes at least one byte, so a lying count cannot make us allocate.
    if (count > kMaxWireList || count > in_.size()) return Fail("a list is too long");
    values.clear();
    for (uint32_t i = 0; i < count && ok(); ++i) each(*this, values.emplace_back());
  }
  void Map(std::map<std::string, std::string>& values) {
    uint32_t count = 0;
    Number(count);
    if (count > kMaxWireList || count > in_.size()) return Fail("a map is too long");
    for (uint32_t i = 0; i < count && ok(); ++i) {
      std::string key;
      Text(key);
      Text(values[key]);
    }
  }

  void Fail(const char* why) {
    if (error_ == nullptr) error_ = why;
    in_ = {};
  }
  bool ok() const { return error_ == nullptr; }
  const char* error() const { return error_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::string_view in_;
  size_t fd_count_;
  const char* error_ = nullptr;
};

}  // namespace holdfast::runtime
