// SPDX-License-Identifier: Apache-2.0
// What a node asks of a cluster's signers, and when it does so again: a kubelet's rules. Pure; thread-safe.
// Source: control-plane.md 2.2 to 2.6; feature-map.md 1.18.1 to 1.18.4.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "agent/identity/certificate.h"
#include "k8s/certificates/v1/certificate_signing_request.pb.h"

namespace holdfast::agent {

namespace certificatesv1 = ::k8s::io::api::certificates::v1;

struct CertificatePlan {
  std::string signer;               // "kubernetes.io/kube-apiserver-client-kubelet"
  std::vector<std::string> usages;  // in the order in which a kubelet names them
  CertificateSubject subject;
};

// For the API server: that this is the node.
CertificatePlan ClientPlan(const std::string& node_name);
// For who calls the node. Absent as long as the node has no address but its own loopback: nobody would come by that.
std::optional<CertificatePlan> ServingPlan(const std::string& node_name,
                                           const std::vector<std::string>& host_ips);

// "node-csr-…", the same for the same key and plan: who was killed finds what it asked for.
std::string RequestName(const CertificatePlan& plan, const std::string& public_key);
certificatesv1::CertificateSigningRequest MakeRequest(const CertificatePlan& plan,
                                                      const std::string& public_key,
                                                      const std::string& request_pem);

// What the cluster says of a request.
enum class RequestVerdict { kPending, kApproved, kIssued, kDenied, kFailed };
struct RequestState {
  RequestVerdict verdict = RequestVerdict::kPending;
  std::string why;  // of a refusal: "reason: message"
};
RequestState StateOfRequest(const certificatesv1::CertificateSigningRequest& request);

// Between 70 and 90 % of its life, for each certificate somewhere else.
WallTime RotationDeadline(const CertificateFacts& facts);

// Whether it says all that is to be said of the node; more is fine.
bool Covers(const CertificateFacts& facts, const CertificatePlan& plan);

// How long until the next try of a request that did not get through: 2, 4, … 32 s.
std::chrono::milliseconds RetryDelay(int failures);
// Until another request after one that was refused: 5 min doubled up to 1 h.
std::chrono::milliseconds RefusedDelay(int refusals);

}  // namespace holdfast::agent
