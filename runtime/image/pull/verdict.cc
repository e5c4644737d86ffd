// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/verdict.h"

#include <algorithm>
#include <charconv>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr std::chrono::milliseconds kFirstWait{500};
constexpr std::chrono::milliseconds kLongestWait{8'000};

using Step = Verdict::Next;

Verdict Fail(Code code, std::string text) {
  return {Step::kFail, {}, "", Error(code, std::move(text))};
}

std::string StatusText(int64_t status) {
  switch (status) {
    case 401:
      return "401 Unauthorized";
    case 403:
      return "403 Forbidden";
    case 404:
      return "404 Not Found";
    case 416:
      return "416 Requested Range Not Satisfiable";
    case 429:
      return "429 Too Many Requests";
    case 500:
      return "500 Internal Server Error";
    case 502:
      return "502 Bad Gateway";
    case 503:
      return "503 Service Unavailable";
    case 504:
      return "504 Gateway Timeout";
    default:
      return std::to_string(status);
  }
}

std::string Unexpected(const std::string& what, int64_t status) {
  return StrCat("unexpected status from ", what, ": ", StatusText(status));
}

// Seconds; a date is taken for nothing, as is what cannot be read.
std::chrono::seconds RetryAfter(const std::string& text) {
  int64_t seconds = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (code != std::errc() || end != text.data() + text.size() || seconds < 0) return {};
  return std::chrono::seconds(std::min<int64_t>(seconds, 24 * 3600));
}

Verdict TooMany(const FetchEnd& end, const std::string& what, Attempt& attempt) {
  const std::chrono::seconds wished = RetryAfter(end.head.retry_after);
  if (wished > kLongestRetryAfter) {
    return Fail(Code::kUnavailable, StrCat(Unexpected(what, end.head.status), ": asks to wait for ",
                                           wished.count(), " s"));
  }
  Verdict verdict =
      RetryLater(Error(Code::kUnavailable, Unexpected(what, end.head.status)), attempt);
  verdict.wait = std::max<std::chrono::milliseconds>(verdict.wait, wished);
  return verdict;
}

Verdict Follow(const FetchEnd& end, const std::string& what, Attempt& attempt) {
  if (end.end.location.empty()) {
    return Fail(Code::kInvalidArgument, StrCat(Unexpected(what, end.head.status), ": no Location"));
  }
  if (++attempt.redirects > kMaxRedirects) {
    return Fail(Code::kInvalidArgument, StrCat(what, ": more than ", kMaxRedirects, " redirects"));
  }
  const auto from = fetch::ParseAddress(attempt.url);
  const auto to = fetch::ParseAddress(end.end.location);
  if (!from) return Fail(from.error().code(), from.error().message());
  if (!to) return Fail(to.error().code(), StrCat(what, ": redirect: ", to.error().message()));
  if (const auto may = CheckRedirect(*from, *to); !may) {
    return Fail(may.error().code(), StrCat(what, ": ", may.error().message()));
  }
  return {Step::kFollow, {}, end.end.location, Error(Code::kInternal, "")};
}

Verdict Unauthorized(const FetchEnd& end, const std::string& what, Attempt& attempt) {
  if (++attempt.authorizations > kMaxAuthorizations) {
    return Fail(Code::kPermissionDenied, Unexpected(what, end.head.status));
  }
  return {Step::kAuthorize, {}, "", Error(Code::kInternal, "")};
}

}  // namespace

Verdict RetryLater(Error error, Attempt& attempt) {
  if (++attempt.failures >= kMaxFailures) return {Step::kFail, {}, "", std::move(error)};
  const auto wait = std::min(kLongestWait, kFirstWait * (1 << (attempt.failures - 1)));
  return {Step::kRetry, wait, "", std::move(error)};
}

Result<void> CheckRedirect(const fetch::Address& from, const fetch::Address& to) {
  if (to.IsSecure()) return {};
  if (from.IsSecure()) {
    return Error(Code::kPermissionDenied,
                 StrCat("redirect to ", to.Origin(), " would leave TLS, refused"));
  }
  if (to.host == from.host) return {};
  return Error(Code::kPermissionDenied,
               StrCat("redirect to ", to.Origin(), ", another host without TLS, refused"));
}

Verdict Judge(const FetchEnd& end, const std::string& what, Attempt& attempt) {
  const int64_t status = end.head.status;
  if (end.refused) return {Step::kFail, {}, "", *end.refused};
  if (end.end.certificate) {
    return Fail(Code::kPermissionDenied, StrCat(what, ": ", end.end.error));
  }
  if (!end.end.error.empty() || status == 0) {
    return RetryLater(Error(Code::kUnavailable, StrCat(what, ": ", end.end.error)), attempt);
  }
  if (status >= 200 && status < 300) return {Step::kDone, {}, "", Error(Code::kInternal, "")};
  if (status >= 300 && status < 400) return Follow(end, what, attempt);
  if (status == 401) return Unauthorized(end, what, attempt);
  if (status == 429 || status >= 500) return TooMany(end, what, attempt);
  const Code code = status == 404   ? Code::kNotFound
                    : status == 403 ? Code::kPermissionDenied
                                    : Code::kInvalidArgument;
  return Fail(code, Unexpected(what, status));
}

}  // namespace holdfast::runtime
