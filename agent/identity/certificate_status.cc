// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_status.h"

#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

// What is under way or went wrong; "" when nothing is to be said.
std::string Next(const CertificateStatus& status) {
  if (!status.request.empty() && !status.approved) {
    return StrCat("CSR ", status.request, " waits for approval: kubectl certificate approve ",
                  status.request);
  }
  if (!status.request.empty()) {
    return StrCat("CSR ", status.request, " is approved and waits for its signer");
  }
  if (!status.refused.empty()) return StrCat("the last request was refused: ", status.refused);
  return status.trouble;
}

const char* ReasonWithout(const CertificateStatus& status) {
  if (!status.request.empty()) return "Pending";
  if (!status.refused.empty()) return "Refused";
  return status.trouble.empty() ? "Missing" : "Failing";
}

std::string Joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : StrCat(a, "; ", b);
}

struct Judgement {
  bool usable = false;
  std::string reason, message;
};

Judgement Judge(const CertificateStatus& status, WallTime now) {
  const std::string next = Next(status);
  if (!status.not_after) {
    return {false, ReasonWithout(status), next.empty() ? "there is no certificate" : next};
  }
  if (now >= *status.not_after) {
    return {false, "Expired", Joined(StrCat("expired at ", ShowTime(*status.not_after)), next)};
  }
  if (now < *status.not_before) {
    return {false, "NotYetValid",
            Joined(StrCat("valid from ", ShowTime(*status.not_before)), next)};
  }
  std::string message = StrCat("valid until ", ShowTime(*status.not_after));
  if (next.empty() && status.renewal) {
    message += StrCat(", renewed from ", ShowTime(*status.renewal));
  }
  return {true, next.empty() ? "Valid" : "Renewing", Joined(message, next)};
}

}  // namespace

std::string ShowTime(WallTime time) { return kube::FormatRfc3339(time); }

k8s::io::api::core::v1::NodeCondition ShowCertificate(const std::string& type,
                                                      const CertificateStatus& status,
                                                      WallTime now) {
  const Judgement shown = Judge(status, now);
  k8s::io::api::core::v1::NodeCondition condition;
  condition.set_type(type);
  condition.set_status(shown.usable ? "True" : "False");
  condition.set_reason(shown.reason);
  condition.set_message(shown.message);
  kube::SetTime(now, condition.mutable_lastheartbeattime());
  return condition;
}

}  // namespace holdfast::agent
