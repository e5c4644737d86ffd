// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/token_store.h"

#include <algorithm>
#include <utility>

#include "agent/cluster/list_requests.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::chrono::minutes kRetryRenewal{1};
constexpr std::chrono::hours kLongestUse{24};
// A timer does not see a clock that is set: from time to time the clock is looked at.
constexpr std::chrono::minutes kTokenLook{10};
constexpr milliseconds kSoonestToken{1000};

}  // namespace

struct TokenStore::Token {
  const TokenOwner owner;
  const TokenRef ref;
  std::shared_ptr<const std::string> text{};  // null: none was ever given
  WallTime issued{}, renew{}, expires{};
  unsigned failures = 0;
  unsigned early_tries = 0;
  milliseconds early_for{0};
  TicketPtr question{}, wait{};
};

TokenStore::TokenStore(Api& api, const Clock& clock, Changed changed)
    : api_(api), clock_(clock), changed_(std::move(changed)) {}

TokenStore::~TokenStore() = default;

void TokenStore::Use(const TokenOwner& owner, const std::set<TokenRef>& refs) {
  if (refs.empty()) return Drop(owner.pod_uid);
  Tokens& tokens = pods_[owner.pod_uid];
  std::erase_if(tokens, [&refs](const auto& entry) { return !refs.contains(entry.first); });
  for (const TokenRef& ref : refs) {
    auto& token = tokens[ref];
    if (token) continue;
    token = std::make_unique<Token>(Token{owner, ref});
    Ask(*token);
  }
}

void TokenStore::Drop(const PodUid& uid) { pods_.erase(uid); }

void TokenStore::Ask(Token& token) {
  token.wait.reset();
  token.question =
      api_.Send(TokenCall(token.owner, token.ref),
                [this, &token](Result<ApiReply> reply) { OnAnswer(token, std::move(reply)); });
}

void TokenStore::AskAfter(Token& token, milliseconds delay) {
  token.wait = api_.After(delay, [this, &token] { Ask(token); });
}

void TokenStore::OnAnswer(Token& token, Result<ApiReply> reply) {
  const TicketPtr answered = std::move(token.question);
  if (!reply) return OnTrouble(token, TokenWhyOf(reply.error()));
  if (IsTooEarly(*reply) && token.early_for < kTooEarlyFor) {
    const milliseconds delay = DelayWhenTooEarly(token.early_tries++);
    token.early_for += delay;
    return AskAfter(token, delay);
  }
  if (!reply->ok()) return OnTrouble(token, TokenWhyOf(*reply));
  auto issued = ReadToken(*reply);
  if (!issued) return OnTrouble(token, TokenWhyOf(issued.error()));
  OnIssued(token, std::move(*issued));
}

void TokenStore::OnIssued(Token& token, IssuedToken issued) {
  token.failures = 0;
  token.early_tries = 0;
  token.early_for = milliseconds(0);
  token.text = std::move(issued.text);
  token.issued = clock_.Wall();
  token.expires = issued.expires;
  const nanoseconds life = std::max<nanoseconds>(token.expires - token.issued, nanoseconds(0));
  const double used = 0.8 - 0.1 * Random();
  const auto use = static_cast<int64_t>(static_cast<double>(life.count()) * used);
  token.renew = token.issued + std::min<nanoseconds>(nanoseconds(use), kLongestUse);
  Wait(token, kRetryRenewal);  // also when our clock says that it has expired
  changed_(token.owner.pod_uid, token.ref, {InputState::kPresent, token.text, "", token.expires});
}

void TokenStore::OnTrouble(Token& token, const std::string& why) {
  if (token.text == nullptr) {
    AskAfter(token, DelayAfter(token.failures++, Random()));
  } else {
    AskAfter(token, kRetryRenewal);
    if (IsValid(token)) return;
  }
  const std::string text = token.text == nullptr
                               ? why
                               : StrCat("token of service account \"", token.owner.service_account,
                                        "\" expired and refresh failed: ", why);
  changed_(token.owner.pod_uid, token.ref, {InputState::kUnavailable, nullptr, text, {}});
}

void TokenStore::Wait(Token& token, milliseconds least) {
  const nanoseconds left = std::max<nanoseconds>(token.renew - clock_.Wall(), nanoseconds(0));
  const auto delay = std::max(least, duration_cast<milliseconds>(left) + milliseconds(1));
  token.wait =
      api_.After(std::min<milliseconds>(delay, kTokenLook), [this, &token] { LookAtClock(token); });
}

// Renews what is due; also what is of the future since the clock was set back.
void TokenStore::LookAtClock(Token& token) {
  const WallTime now = clock_.Wall();
  if (now >= token.renew || now < token.issued) return Ask(token);
  Wait(token, kSoonestToken);
}

bool TokenStore::IsValid(const Token& token) const {
  const WallTime now = clock_.Wall();
  return token.issued <= now && now < token.expires;
}

}  // namespace holdfast::agent
