// SPDX-License-Identifier: Apache-2.0
// How it stands with one certificate of the node, as people are told. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "holdfast/base/clock.h"
#include "k8s/core/v1/node.pb.h"

namespace holdfast::agent {

struct CertificateStatus {
  std::optional<WallTime> not_before, not_after;  // of the current one; absent: there is none
  std::optional<WallTime> renewal;                // when the next one is asked for
  std::string request;                            // that is under way; "" for none
  bool approved = false;                          // that request is
  std::string refused;  // why the last request came to nothing; "" once one did not
  std::string trouble;  // why there is none, or no other one; "" when all is well
  bool operator==(const CertificateStatus&) const = default;
};

// A condition of the Node as holdctl shows it: True while the certificate can be used. Reasons: Valid, Renewing,
// Pending, Refused, Failing, Expired, NotYetValid, Missing.
k8s::io::api::core::v1::NodeCondition ShowCertificate(const std::string& type,
                                                      const CertificateStatus& status,
                                                      WallTime now);

// "2026-01-02T03:04:05Z".
std::string ShowTime(WallTime time);

}  // namespace holdfast::agent
