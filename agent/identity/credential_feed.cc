// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/credential_feed.h"

#include <algorithm>
#include <utility>

#include "agent/identity/certificate.h"
#include "agent/identity/certificate_plan.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLookAgain{60};     // at files
constexpr seconds kAfterRefusal{10};  // at the earliest
constexpr seconds kBeforeEnd{
    60};  // of what a program made, or a fifth of what is left if that is less
constexpr seconds kSoonest{1};
constexpr milliseconds kLatest{3'600'000};

Result<void> LoadPem(Pem& pem, const char* field) {
  if (pem.empty()) return {};
  ASSIGN_OR_RETURN(std::string text, WithContext(pem.Read(), field));
  pem = {std::move(text), ""};
  return {};
}

bool IsSame(const KubeConfig& a, const KubeConfig& b) {
  return a.authority == b.authority && a.certificate == b.certificate && a.key == b.key &&
         a.token == b.token;
}

}  // namespace

Result<KubeConfig> LoadFiles(KubeConfig config) {
  RETURN_IF_ERROR(LoadPem(config.authority, "certificate-authority"));
  if (config.certificate.empty()) return config;
  const std::string where = config.certificate.file;
  RETURN_IF_ERROR(LoadPem(config.certificate, "client-certificate"));
  RETURN_IF_ERROR(LoadPem(config.key, "client-key"));
  RETURN_IF_ERROR(WithContext(CheckPair({config.certificate.text, config.key.text}),
                              StrCat("client-certificate ", where)));
  return config;
}

CredentialFeed::CredentialFeed(Api& api, const Clock& clock, CredentialFeedOptions options)
    : api_(api), clock_(clock), options_(std::move(options)) {}
CredentialFeed::~CredentialFeed() = default;

void CredentialFeed::Refused() {
  const milliseconds since = std::chrono::duration_cast<milliseconds>(clock_.Boot() - last_);
  Soon(since >= kAfterRefusal ? milliseconds(0) : kAfterRefusal - since);
}

void CredentialFeed::Soon(milliseconds delay) {
  timer_ = api_.After(delay, [this] { Refresh(); });
}

// Long times in steps: the clock may be set meanwhile.
void CredentialFeed::Sleep() {
  if (!options_.config.exec) return Soon(kLookAgain);
  if (!expires_) return timer_.reset();
  const milliseconds left = UntilRenewal();
  if (left <= kLatest) return Soon(left);
  timer_ = api_.After(kLatest, [this] { Sleep(); });
}

void CredentialFeed::Refresh() {
  auto made = Make();
  last_ = clock_.Boot();
  if (made) {
    Take(std::move(*made));
  } else {
    TakeTrouble(std::move(made.error()));
  }
  options_.told();
}

void CredentialFeed::TakeTrouble(Error error) {
  if (trouble_ != error.message()) options_.log(error.message());
  trouble_ = error.message();
  Soon(RetryDelay(++failures_));
  if (!current_) options_.publish(std::move(error));
}

void CredentialFeed::Take(KubeConfig made) {
  trouble_.clear();
  failures_ = 0;
  Sleep();
  if (current_ && IsSame(*current_, made)) return;
  current_ = made;
  options_.publish(std::move(made));
}

Result<KubeConfig> CredentialFeed::Make() {
  ASSIGN_OR_RETURN(KubeConfig config, LoadFiles(options_.config));
  if (!config.exec) return config;
  ASSIGN_OR_RETURN(const std::string output,
                   options_.run(*config.exec, ExecInfo(config, config.authority.text)));
  ASSIGN_OR_RETURN(ExecCredential credential,
                   WithContext(ParseExecCredential(output, *config.exec),
                               StrCat("exec plugin ", config.exec->command)));
  if (credential.expires && *credential.expires <= clock_.Wall()) {
    return Unavailable(
        StrCat("exec plugin ", config.exec->command, " returned credentials that have expired"));
  }
  expires_ = credential.expires;
  config.token = std::move(credential.token);
  config.certificate.text = std::move(credential.certificate_pem);
  config.key.text = std::move(credential.key_pem);
  return config;
}

milliseconds CredentialFeed::UntilRenewal() const {
  const auto left = std::chrono::duration_cast<milliseconds>(*expires_ - clock_.Wall());
  const milliseconds early = std::min(milliseconds(kBeforeEnd), left / 5);
  return std::max(left - early, milliseconds(kSoonest));
}

}  // namespace holdfast::agent
