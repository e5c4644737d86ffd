// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/environment.h"

#include <string_view>
#include <unordered_map>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr const char* kDefaultPath =
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

class Environment {
 public:
  void Set(const std::string& entry) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return;
    auto [at, added] = index_.try_emplace(entry.substr(0, equals), entries_.size());
    if (added) {
      entries_.push_back(entry);
    } else {
      entries_[at->second] = entry;
    }
  }
  bool Has(const std::string& name) const { return index_.contains(name); }
  std::vector<std::string> Take() { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;
  std::unordered_map<std::string, size_t> index_;
};

}  // namespace

Result<std::vector<std::string>> CompileEnvironment(const std::vector<std::string>& env,
                                                    const EnvironmentDefaults& defaults) {
  Environment result;
  result.Set(kDefaultPath);
  if (!defaults.hostname.empty()) result.Set(StrCat("HOSTNAME=", defaults.hostname));
  if (defaults.tty) result.Set("TERM=xterm");
  for (const std::string& entry : env) {
    if (entry.find('\0') != std::string::npos) {
      return InvalidArgument(
          StrCat("environment variable ", entry.substr(0, entry.find('=')), ": holds a NUL byte"));
    }
    result.Set(entry);
  }
  if (!result.Has("HOME")) result.Set(StrCat("HOME=", defaults.home));
  return result.Take();
}

}  // namespace holdfast::runtime
