// SPDX-License-Identifier: Apache-2.0
// What follows from an answer: whether it is one, where to go on, how long to wait. Pure.
// Source: RFC 9110, 15; feature-map 2.1.2, 2.1.4.
#pragma once

#include <chrono>
#include <string>

#include "holdfast/base/result.h"
#include "runtime/image/pull/fetcher.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {

// Of one thing that is asked for, on one host.
struct Attempt {
  std::string url;  // where it is asked for next
  int redirects = 0;
  int authorizations = 0;
  int failures = 0;  // one after the other
};

struct Verdict {
  enum class Next : uint8_t { kDone, kFollow, kAuthorize, kRetry, kFail };
  Next next = Next::kDone;
  std::chrono::milliseconds wait{0};  // kRetry
  std::string url;                    // kFollow
  Error error{Code::kInternal, ""};   // kFail
};

inline constexpr int kMaxRedirects = 10;
inline constexpr int kMaxAuthorizations = 2;  // the first, and once more when a token has run out
inline constexpr int kMaxFailures = 5;
inline constexpr std::chrono::seconds kLongestRetryAfter{60};

// `what` names the thing in errors: "GET https://…". Counts in `attempt`.
Verdict Judge(const FetchEnd& end, const std::string& what, Attempt& attempt);

// A failure that may pass: kRetry with a growing wait, kFail when there were too many.
Verdict RetryLater(Error error, Attempt& attempt);

// kPermissionDenied unless a request to `from` may be sent on to `to`: never from TLS to none, and
// without TLS to no other host.
Result<void> CheckRedirect(const fetch::Address& from, const fetch::Address& to);

}  // namespace holdfast::runtime
