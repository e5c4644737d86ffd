// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_keeper.h"

#include <utility>

#include "agent/identity/certificate_request.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

// Only certificates go to the disk, whatever else somebody sent.
std::string OnlyCertificates(const std::string& pem) {
  constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----";
  constexpr std::string_view kEnd = "-----END CERTIFICATE-----";
  std::string chain;
  for (size_t begin = pem.find(kBegin); begin != std::string::npos;) {
    const size_t end = pem.find(kEnd, begin);
    if (end == std::string::npos) break;
    chain += pem.substr(begin, end + kEnd.size() - begin) + "\n";
    begin = pem.find(kBegin, end);
  }
  return chain;
}

}  // namespace

CertificateKeeper::CertificateKeeper(Api& api, const Clock& clock, CertificateFiles files,
                                     CertificateKeeperOptions options)
    : api_(api), clock_(clock), files_(std::move(files)), options_(std::move(options)) {}
CertificateKeeper::~CertificateKeeper() = default;

void CertificateKeeper::Load() {
  auto pair = files_.Current();
  if (!pair) return TakeTrouble(pair.error().message());
  if (!*pair) return;
  const auto facts = ReadCertificate((*pair)->chain_pem);
  if (!facts) return TakeTrouble(StrCat(path(), ": ", facts.error().message()));
  const auto plan = options_.plan();
  const std::string& name = facts->subject.common_name;
  if (plan && name != plan->subject.common_name) {
    return TakeTrouble(StrCat(path(), " is of \"", name, "\", this node is \"",
                              plan->subject.common_name, "\": not used"));
  }
  if (auto gone = files_.RemoveUsedKeys(**pair); !gone) options_.log(gone.error().message());
  Adopt(std::move(**pair), *facts);
}

void CertificateKeeper::Adopt(CertificatePair pair, const CertificateFacts& facts) {
  current_ = std::move(pair);
  facts_ = facts;
  CertificateStatus status;
  status.not_before = facts.not_before;
  status.not_after = facts.not_after;
  if (options_.renew) status.renewal = RotationDeadline(facts);
  SetStatus(std::move(status));
}

bool CertificateKeeper::IsUsable() const { return facts_ && clock_.Wall() < facts_->not_after; }

// A clock that was set back makes no new one necessary.
bool CertificateKeeper::Wants(const CertificatePlan& plan) const {
  if (!facts_ || !Covers(*facts_, plan)) return true;
  const WallTime now = clock_.Wall();
  return now >= facts_->not_after || (options_.renew && now >= RotationDeadline(*facts_));
}

void CertificateKeeper::Rest() {
  asking_.reset();
  CertificateStatus status = status_;
  status.request.clear();
  SetStatus(std::move(status));
}

void CertificateKeeper::Look(const std::string& purpose) {
  const auto plan = options_.plan();
  if (!plan || !Wants(*plan)) return Rest();
  const bool same = purpose == purpose_ && plan->subject == plan_.subject;
  if ((asking_ && same) || clock_.Boot() < rest_until_) return;
  asking_.reset();
  if (auto asked = Ask(*plan, purpose); !asked) TakeTrouble(asked.error().message());
}

Result<void> CertificateKeeper::Ask(const CertificatePlan& plan, const std::string& purpose) {
  ASSIGN_OR_RETURN(key_, KeyFor(purpose));
  ASSIGN_OR_RETURN(const std::string public_key, PublicKeyOfKey(key_));
  ASSIGN_OR_RETURN(const std::string text, MakeCertificateRequest(key_, plan.subject));
  plan_ = plan;
  purpose_ = purpose;
  asked_ = RequestName(plan, public_key);
  asking_ = AskForCertificate(
      api_, MakeRequest(plan, public_key, text),
      {[this](const RequestState& state, const std::string& chain) { TakeState(state, chain); },
       [this](const Error& error) { TakeTrouble(error.message()); }});
  return {};
}

// The one of a request that was under way, or a new one. A key whose certificate is the current one has done its work.
Result<std::string> CertificateKeeper::KeyFor(const std::string& purpose) const {
  ASSIGN_OR_RETURN(const auto pending, files_.PendingKey(purpose));
  if (pending && PublicKeyOfKey(*pending)) {
    const bool used = current_ && CheckPair({current_->chain_pem, *pending});
    if (!used) return *pending;
  }
  ASSIGN_OR_RETURN(std::string key, NewPrivateKey());
  RETURN_IF_ERROR(files_.SavePendingKey(purpose, key));
  HOLDFAST_PAUSE_POINT("identity.key_saved");
  return key;
}

void CertificateKeeper::TakeState(const RequestState& state, const std::string& chain) {
  switch (state.verdict) {
    case RequestVerdict::kIssued:
      return TakeIssued(chain);
    case RequestVerdict::kDenied:
    case RequestVerdict::kFailed:
      return TakeRefusal(state);
    case RequestVerdict::kPending:
    case RequestVerdict::kApproved:
      break;
  }
  CertificateStatus status = status_;
  const bool is_new = status.request != asked_;
  status.request = asked_;
  status.approved = state.verdict == RequestVerdict::kApproved;
  status.trouble.clear();
  if (is_new && !status.approved) {
    options_.log(StrCat(options_.name, ": CSR ", asked_,
                        " waits for approval (kubectl certificate approve ", asked_, ")"));
  }
  SetStatus(std::move(status));
}

// What cannot be written now (a disk that is full) is there the next time, too: the request and its key remain.
void CertificateKeeper::TakeIssued(const std::string& chain) {
  asking_.reset();
  const std::string pem = OnlyCertificates(chain);
  const CertificatePair pair{pem, key_};
  const auto facts = ReadCertificate(pem);
  const bool fits = facts && CheckPair(pair) && Covers(*facts, plan_);
  if (!fits || clock_.Wall() >= facts->not_after) {
    return TakeRefusal({RequestVerdict::kFailed,
                        fits
                            ? "the certificate that was issued has expired"
                            : "the certificate that was issued is not the one that was asked for"});
  }
  HOLDFAST_PAUSE_POINT("identity.issued");
  if (auto kept = files_.Keep(pair, clock_.Wall()); !kept) {
    return TakeTrouble(kept.error().message());
  }
  if (auto gone = files_.RemovePendingKey(purpose_); !gone) TakeTrouble(gone.error().message());
  refusals_ = 0;
  Adopt(pair, *facts);
  const std::string until = StrCat("valid until ", ShowTime(facts->not_after));
  options_.log(StrCat(options_.name, ": issued by CSR ", asked_, ", ", until));
  options_.event(false, "CertificateIssued", StrCat("New ", options_.name, ", ", until));
  options_.changed(*current_);
}

void CertificateKeeper::TakeRefusal(const RequestState& state) {
  asking_.reset();
  if (auto gone = files_.RemovePendingKey(purpose_); !gone) options_.log(gone.error().message());
  const auto delay = RefusedDelay(++refusals_);
  rest_until_ = clock_.Boot() + delay;
  const bool denied = state.verdict == RequestVerdict::kDenied;
  CertificateStatus status = status_;
  status.request.clear();
  status.refused = StrCat("CSR ", asked_, " was ", denied ? "denied" : "not signed",
                          state.why.empty() ? "" : " (", state.why, state.why.empty() ? "" : ")");
  const std::string next =
      StrCat(std::chrono::duration_cast<std::chrono::minutes>(delay).count(), " min");
  options_.log(StrCat(options_.name, ": ", status.refused, "; another one in ", next));
  options_.event(true, denied ? "CertificateRequestDenied" : "CertificateRequestFailed",
                 StrCat("The request for a ", options_.name, " was refused: ", status.refused));
  SetStatus(std::move(status));
}

void CertificateKeeper::TakeTrouble(const std::string& what) {
  CertificateStatus status = status_;
  if (status.trouble != what) options_.log(StrCat(options_.name, ": ", what));
  status.trouble = what;
  SetStatus(std::move(status));
}

void CertificateKeeper::SetStatus(CertificateStatus status) {
  if (status == status_) return;
  status_ = std::move(status);
  options_.told();
}

}  // namespace holdfast::agent
