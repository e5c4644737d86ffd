// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/registry_client.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStopLook{100};  // how often it is asked whether to stop
constexpr uint64_t kDocumentMs = 60'000;
constexpr size_t kMaxToken = 64 << 10;

bool IsSameOrigin(const std::string& a, const std::string& b) {
  const auto left = fetch::ParseAddress(a);
  const auto right = fetch::ParseAddress(b);
  return left && right && left->Origin() == right->Origin();
}

std::string Method(const fetch::Request& request) {
  return StrCat(request.method, " request to ", fetch::Shown(request.url));
}

}  // namespace

std::string Origin::Url(const std::string& kind, const std::string& reference) const {
  return StrCat(host.base, "/", repository, "/", kind, "/", reference);
}

std::optional<RegistryLogin> Origin::Shown() const {
  if (authorization.empty() || login >= logins.size()) return std::nullopt;
  return logins[login];
}

std::vector<Origin> OriginsOf(std::vector<RegistryHost> hosts, const std::string& repository,
                              const RegistryLogins& logins, Purpose purpose) {
  const std::string path = repository.substr(repository.find('/') + 1);
  std::vector<Origin> origins;
  for (RegistryHost& host : hosts) {
    if (!(purpose == Purpose::kPull ? host.pull : host.push)) continue;
    Origin origin;
    const std::string name = host.is_server ? repository : StrCat(host.authority, "/", path);
    if (logins) origin.logins = logins(name);
    origin.repository = path;
    origin.scope = {path, purpose == Purpose::kPush, {}};
    origin.host = std::move(host);
    origins.push_back(std::move(origin));
  }
  return origins;
}

// What is the host's own (login, headers, certificate, trust in spite of its certificate) goes to
// nobody else; authorities do, since whoever runs a registry with its own often has its other
// servers signed by them.
fetch::Request RegistryClient::RequestFor(const Origin& origin, const std::string& url) const {
  fetch::Request request;
  request.url = url;
  request.slow_seconds = static_cast<uint64_t>(stall_.count());
  request.trust.authorities = origin.host.trust.authorities;
  request.connect_ms = static_cast<uint64_t>(origin.host.dial_timeout.count());
  if (!IsSameOrigin(url, origin.host.base)) return request;
  request.trust = origin.host.trust;
  request.headers = origin.host.headers;
  if (!origin.authorization.empty()) {
    request.headers.push_back("Authorization: " + origin.authorization);
  }
  return request;
}

Result<void> RegistryClient::CheckStop() const {
  if (stop_()) return Unavailable(StrCat("the ", Verb(), " was cancelled"));
  return {};
}

Result<FetchEnd> RegistryClient::Await(uint64_t id) {
  while (true) {
    auto stopped = CheckStop();
    if (!stopped) {
      fetcher_.Stop(id);
      return std::move(stopped.error());
    }
    ASSIGN_OR_RETURN(std::optional<FetchEnd> end, fetcher_.Next(kStopLook));
    if (!end) continue;
    if (end->id == id) return std::move(*end);
    others_.push_back(std::move(*end));
  }
}

Result<std::optional<FetchEnd>> RegistryClient::Next(milliseconds patience) {
  RETURN_IF_ERROR(CheckStop());
  if (others_.empty()) return fetcher_.Next(std::min(patience, kStopLook));
  std::optional<FetchEnd> end = std::move(others_.front());
  others_.pop_front();
  return end;
}

// Other transfers go on meanwhile.
Result<void> RegistryClient::Sleep(milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
    RETURN_IF_ERROR(CheckStop());
    ASSIGN_OR_RETURN(std::optional<FetchEnd> end, fetcher_.Next(std::min(time, kStopLook)));
    if (end) others_.push_back(std::move(*end));
  }
  return {};
}

Result<FetchEnd> RegistryClient::Send(fetch::Request request, size_t limit, std::string& body) {
  request.total_ms = kDocumentMs;
  const std::string what = Method(request);
  ASSIGN_OR_RETURN(
      const uint64_t id,
      fetcher_.Begin(
          std::move(request),
          [&body, limit, what](const fetch::Head& head, std::string_view piece) -> Result<void> {
            // Of an error page nothing is wanted.
            if (head.status < 200 || head.status >= 300) return {};
            if (body.size() + piece.size() > limit) {
              return Error(Code::kResourceExhausted,
                           StrCat(what, ": larger than the limit of ", limit, " bytes"));
            }
            body += piece;
            return {};
          }));
  return Await(id);
}

Result<void> RegistryClient::Obey(Origin& origin, Verdict& verdict, const FetchEnd& end,
                                  Attempt& attempt) {
  using Next = Verdict::Next;
  if (verdict.next == Next::kFail) return std::move(verdict.error);
  if (verdict.next == Next::kFollow) attempt.url = verdict.url;
  if (verdict.next == Next::kRetry) return Sleep(verdict.wait);
  if (verdict.next == Next::kAuthorize) {
    // Another host's challenge is not answered.
    if (!IsSameOrigin(attempt.url, origin.host.base)) {
      return Error(
          Code::kPermissionDenied,
          StrCat("unexpected status from ", fetch::Shown(attempt.url), ": 401 Unauthorized"));
    }
    return Authorize(origin, end.head.challenges);
  }
  return {};
}

Result<Answer> RegistryClient::AskOnce(Origin& origin, const Question& question) {
  Attempt attempt;
  attempt.url = question.url;
  while (true) {
    fetch::Request request = RequestFor(origin, attempt.url);
    request.method = question.method;
    request.body = question.body;
    if (!question.accept.empty()) request.headers.push_back("Accept: " + question.accept);
    if (question.method == "POST" || question.method == "PUT") {
      // (Without a value libcurl leaves its own out.)
      request.headers.push_back("Content-Type: " + question.content_type);
    }
    const std::string what = Method(request);
    std::string body;
    ASSIGN_OR_RETURN(const FetchEnd end, Send(std::move(request), question.limit, body));
    Verdict verdict = Judge(end, what, attempt);
    if (verdict.next == Verdict::Next::kDone) {
      return Answer{end.head, std::move(body), end.end.location};
    }
    RETURN_IF_ERROR(Obey(origin, verdict, end, attempt));
  }
}

// The next login when one was refused, as a kubelet tries one after the other. That something is
// not there may mean that it is shown to others; before a push it is what is to be expected.
Result<Answer> RegistryClient::Ask(Origin& origin, const Question& question) {
  while (true) {
    auto answer = AskOnce(origin, question);
    if (answer) return answer;
    const bool refused = answer.error().code() == Code::kPermissionDenied ||
                         (answer.error().code() == Code::kNotFound && purpose_ == Purpose::kPull);
    if (!refused || origin.login + 1 >= origin.logins.size()) return answer;
    ++origin.login;
    origin.authorization.clear();
  }
}

Result<void> RegistryClient::Authorize(Origin& origin,
                                       const std::vector<fetch::Challenge>& challenges) {
  const bool has_login = origin.login < origin.logins.size();
  const auto challenge = ChooseChallenge(challenges, has_login);
  if (!challenge) {
    return Error(Code::kPermissionDenied,
                 StrCat(Verb(),
                        " access denied, repository does not exist or may require "
                        "authorization: ",
                        origin.host.authority,
                        has_login ? " takes no login that is known here"
                                  : " wants a login and there is none for it"));
  }
  if (challenge->scheme == "basic") {
    std::string value = BasicAuthorization(origin.logins[origin.login]);
    if (value == origin.authorization) {
      return Error(Code::kPermissionDenied,
                   StrCat(Verb(), " access denied: ", origin.host.authority,
                          " refuses the login: 401 Unauthorized"));
    }
    origin.authorization = std::move(value);
    return {};
  }
  auto token = FetchToken(origin, *challenge);
  if (!token) return std::move(token.error()).Wrap("failed to authorize");
  origin.authorization = std::move(*token);
  return {};
}

Result<std::string> RegistryClient::FetchToken(const Origin& origin,
                                               const fetch::Challenge& challenge) {
  ASSIGN_OR_RETURN(const fetch::Address registry, fetch::ParseAddress(origin.host.base));
  Attempt attempt;
  ASSIGN_OR_RETURN(attempt.url, TokenUrl(challenge, origin.scope, registry));
  const std::string service = attempt.url;
  const bool has_login = origin.login < origin.logins.size();
  while (true) {
    Origin bare = origin;
    bare.authorization.clear();
    fetch::Request request = RequestFor(bare, attempt.url);
    // The service that the registry named, and nobody that this one sends us on to.
    if (has_login && IsSameOrigin(attempt.url, service)) {
      request.headers.push_back("Authorization: " +
                                BasicAuthorization(origin.logins[origin.login]));
    }
    const std::string what = StrCat(has_login ? "token" : "anonymous token", ": ", Method(request));
    std::string body;
    ASSIGN_OR_RETURN(const FetchEnd end, Send(std::move(request), kMaxToken, body));
    Verdict verdict = Judge(end, what, attempt);
    if (verdict.next == Verdict::Next::kDone) return ReadTokenReply(body);
    if (verdict.next == Verdict::Next::kAuthorize) {
      return Error(Code::kPermissionDenied, StrCat("failed to fetch ", what, ": 401 Unauthorized"));
    }
    RETURN_IF_ERROR(Obey(bare, verdict, end, attempt));
  }
}

}  // namespace holdfast::runtime
