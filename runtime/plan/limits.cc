// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

struct Name {
  std::string_view name;
  int resource;
};
constexpr Name kLimitNames[] = {
    {"RLIMIT_AS", RLIMIT_AS},
    {"RLIMIT_CORE", RLIMIT_CORE},
    {"RLIMIT_CPU", RLIMIT_CPU},
    {"RLIMIT_DATA", RLIMIT_DATA},
    {"RLIMIT_FSIZE", RLIMIT_FSIZE},
    {"RLIMIT_LOCKS", RLIMIT_LOCKS},
    {"RLIMIT_MEMLOCK", RLIMIT_MEMLOCK},
    {"RLIMIT_MSGQUEUE", RLIMIT_MSGQUEUE},
    {"RLIMIT_NICE", RLIMIT_NICE},
    {"RLIMIT_NOFILE", RLIMIT_NOFILE},
    {"RLIMIT_NPROC", RLIMIT_NPROC},
    {"RLIMIT_RSS", RLIMIT_RSS},
    {"RLIMIT_RTPRIO", RLIMIT_RTPRIO},
    {"RLIMIT_RTTIME", RLIMIT_RTTIME},
    {"RLIMIT_SIGPENDING", RLIMIT_SIGPENDING},
    {"RLIMIT_STACK", RLIMIT_STACK},
};

constexpr uint64_t kOpenFilesSoft = 1024;
constexpr uint64_t kOpenFilesHard = 524288;

void Set(std::vector<model::RlimitPlan>& limits, const model::RlimitPlan& limit) {
  const auto same = std::ranges::find(limits, limit.resource, &model::RlimitPlan::resource);
  if (same != limits.end()) {
    *same = limit;
  } else {
    limits.push_back(limit);
  }
}

}  // namespace

Result<std::vector<model::RlimitPlan>> CompileRlimits(const std::vector<model::Rlimit>& wanted,
                                                      const sys::HostFacts& facts) {
  const uint64_t files =
      facts.cap_sys_resource ? kOpenFilesHard : std::min(kOpenFilesHard, facts.max_open_files);
  std::vector<model::RlimitPlan> limits = {
      {RLIMIT_NOFILE, std::min(kOpenFilesSoft, files), files},
  };
  for (const model::Rlimit& limit : wanted) {
    const auto* known = std::ranges::find(kLimitNames, limit.type, &Name::name);
    if (known == std::end(kLimitNames))
      return InvalidArgument(StrCat("rlimit ", limit.type, ": unknown"));
    if (limit.soft > limit.hard) {
      return InvalidArgument(StrCat("rlimit ", limit.type, ": soft limit above the hard limit"));
    }
    Set(limits, {known->resource, limit.soft, limit.hard});
  }
  return limits;
}

}  // namespace holdfast::runtime
