// SPDX-License-Identifier: Apache-2.0
// One request for a certificate at the API server: posted (or found there), followed until it is issued or refused,
// posted again when somebody removed it. Waits for approval as long as it takes. On the API thread.
// Source: control-plane.md 2.2, 2.4.
#pragma once

#include <functional>
#include <string>

#include "agent/cluster/api.h"
#include "agent/identity/certificate_plan.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

struct RequestCallbacks {
  // Whenever it changes. After kIssued (with the chain), kDenied or kFailed nothing follows.
  std::function<void(const RequestState&, const std::string& chain_pem)> state;
  // A call failed; it is tried again.
  std::function<void(const Error&)> trouble;
};

// `api` is borrowed. The ticket is destroyed on the API thread, also by a callback, or after it ended.
[[nodiscard]] TicketPtr AskForCertificate(Api& api,
                                          certificatesv1::CertificateSigningRequest request,
                                          RequestCallbacks callbacks);

}  // namespace holdfast::agent
