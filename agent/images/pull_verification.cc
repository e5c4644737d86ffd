// SPDX-License-Identifier: Apache-2.0
#include "agent/images/pull_verification.h"

#include <algorithm>
#include <string_view>

#include "holdfast/base/strings.h"
#include "runtime/image/documents/reference.h"

namespace holdfast::agent {
namespace {

Error WrongPattern(const std::string& pattern, std::string_view why) {
  return InvalidArgument(StrCat("preloadedImagesVerificationAllowlist: \"", pattern, "\": ", why));
}

}  // namespace

Result<PullVerification> PullVerification::Make(const std::string& policy,
                                                const std::vector<std::string>& allowed) {
  PullVerification made;
  if (policy == "NeverVerify") made.policy_ = Policy::kNever;
  if (policy == "NeverVerifyAllowlistedImages") made.policy_ = Policy::kNeverAllowed;
  if (policy == "AlwaysVerify") made.policy_ = Policy::kAlways;
  if (!allowed.empty() && made.policy_ != Policy::kNeverAllowed) {
    return InvalidArgument(
        "preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy: "
        "NeverVerifyAllowlistedImages");
  }
  for (const std::string& pattern : allowed) {
    const bool is_beginning = pattern.ends_with("/*");
    const std::string text = is_beginning ? pattern.substr(0, pattern.size() - 1) : pattern;
    if (text.find_first_of("* \t") != std::string::npos) {
      return WrongPattern(pattern, "only patterns ending with '/*' are allowed, and no spaces");
    }
    if (is_beginning) {
      if (text == "/") return WrongPattern(pattern, "at least registry hostname is required");
      made.beginnings_.push_back(text);
      continue;
    }
    const auto reference = runtime::ParseReference(text);
    if (!reference) return WrongPattern(pattern, reference.error().message());
    if (reference->repository != text) {
      return WrongPattern(pattern, StrCat("a whole name without tag and digest is needed, as in \"",
                                          reference->repository, "\""));
    }
    made.repositories_.push_back(text);
  }
  return made;
}

bool PullVerification::IsRequired(const std::string& repository, bool pulled) const {
  switch (policy_) {
    case Policy::kNever:
      return false;
    case Policy::kNeverPreloaded:
      return pulled;
    case Policy::kNeverAllowed:
      return std::ranges::find(repositories_, repository) == repositories_.end() &&
             std::ranges::none_of(beginnings_, [&](const std::string& beginning) {
               return repository.starts_with(beginning);
             });
    case Policy::kAlways:
      return true;
  }
  return true;
}

}  // namespace holdfast::agent
