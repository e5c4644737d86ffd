// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/launch/steps.h"

namespace holdfast::runtime {
namespace {

// Without CAP_SYS_RESOURCE a hard limit cannot rise: the container gets the highest possible one.
Result<void> SetRlimit(Child& child, const model::RlimitPlan& plan) {
  const auto resource = static_cast<__rlimit_resource_t>(plan.resource);
  rlimit wanted{plan.soft, plan.hard};
  if (::setrlimit(resource, &wanted) == 0) return {};
  const int err = errno;
  rlimit now{};
  if (err != EPERM || ::getrlimit(resource, &now) != 0) {
    return Error::FromErrno(err, StrCat("setrlimit ", plan.resource));
  }
  wanted.rlim_max = std::min(wanted.rlim_max, now.rlim_max);
  wanted.rlim_cur = std::min(wanted.rlim_cur, wanted.rlim_max);
  if (::setrlimit(resource, &wanted) != 0) {
    return Error::FromErrno(errno, StrCat("setrlimit ", plan.resource));
  }
  child.Warn(StrCat("setrlimit ", plan.resource, ": hard limit ", plan.hard,
                    " is above the host's ", wanted.rlim_max, ", using that"));
  return {};
}

}  // namespace

Result<void> SetOomScore(Child& child, const model::ProcessPlan& plan) {
  const int score = plan.oom_score_adj;
  auto written = sys::WriteControlAt(child.proc(), "self/oom_score_adj", std::to_string(score));
  if (written) return {};
  // Lowering it takes CAP_SYS_RESOURCE; the container then is killed earlier than it should be.
  if (written.error().code() != Code::kPermissionDenied) return written;
  child.Warn(StrCat("oom_score_adj ", score, ": not permitted on this host, left as it is"));
  return {};
}

Result<void> SetRlimits(Child& child, const model::ProcessPlan& plan) {
  for (const model::RlimitPlan& limit : plan.rlimits) RETURN_IF_ERROR(SetRlimit(child, limit));
  return {};
}

}  // namespace holdfast::runtime
