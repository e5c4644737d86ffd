// SPDX-License-Identifier: Apache-2.0
#include "agent/identity/certificate_plan.h"

#include <algorithm>

#include "holdfast/base/ip_address.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;

constexpr char kClientSigner[] = "kubernetes.io/kube-apiserver-client-kubelet";
constexpr char kServingSigner[] = "kubernetes.io/kubelet-serving";
constexpr char kDigitalSignature[] = "digital signature";

constexpr double kEarliestShare = 0.7;
constexpr double kShareSpread = 0.2;
constexpr milliseconds kFirstRetry{2'000}, kLastRetry{32'000};
constexpr milliseconds kFirstRefused{300'000}, kLastRefused{3'600'000};

CertificateSubject SubjectOfNode(const std::string& node_name) {
  CertificateSubject subject;
  subject.common_name = "system:node:" + node_name;
  subject.organizations = {"system:nodes"};
  return subject;
}

bool HasAll(const std::vector<std::string>& have, const std::vector<std::string>& want) {
  return std::all_of(want.begin(), want.end(), [&](const std::string& one) {
    return std::find(have.begin(), have.end(), one) != have.end();
  });
}

milliseconds Doubled(milliseconds first, milliseconds last, int times) {
  milliseconds delay = first;
  for (int i = 1; i < times && delay < last; ++i) delay *= 2;
  return std::min(delay, last);
}

// "reason: message" of a condition.
std::string WhyOf(const certificatesv1::CertificateSigningRequestCondition& condition) {
  if (condition.message().empty()) return condition.reason();
  return StrCat(condition.reason(), ": ", condition.message());
}

}  // namespace

CertificatePlan ClientPlan(const std::string& node_name) {
  return {kClientSigner, {kDigitalSignature, "client auth"}, SubjectOfNode(node_name)};
}

std::optional<CertificatePlan> ServingPlan(const std::string& node_name,
                                           const std::vector<std::string>& host_ips) {
  if (host_ips.empty() || host_ips.front().starts_with("127.")) return std::nullopt;
  CertificatePlan plan{
      kServingSigner, {kDigitalSignature, "server auth"}, SubjectOfNode(node_name)};
  plan.subject.ip_addresses = host_ips;
  // The Node's Hostname address; one that is an address is no name.
  const bool is_address = IpAddress::Parse(node_name).has_value();
  (is_address ? plan.subject.ip_addresses : plan.subject.dns_names).push_back(node_name);
  for (auto* list : {&plan.subject.dns_names, &plan.subject.ip_addresses}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
  return plan;
}

// As a kubelet digests it at bootstrap: each part in base 64, ended by a character that is not of its alphabet. Names
// and addresses, which a client's has none of, come last: other addresses are another request.
std::string RequestName(const CertificatePlan& plan, const std::string& public_key) {
  std::string parts;
  const auto add = [&](const std::string& part) { parts += EncodeBase64Url(part) + "|"; };
  add(public_key);
  add(plan.subject.common_name);
  for (const std::string& organization : plan.subject.organizations) add(organization);
  for (const std::string& usage : plan.usages) add(usage);
  for (const std::string& name : plan.subject.dns_names) add(name);
  for (const std::string& address : plan.subject.ip_addresses) add(address);
  return "node-csr-" + DigestOf(parts);
}

certificatesv1::CertificateSigningRequest MakeRequest(const CertificatePlan& plan,
                                                      const std::string& public_key,
                                                      const std::string& request_pem) {
  certificatesv1::CertificateSigningRequest request;
  request.mutable_metadata()->set_name(RequestName(plan, public_key));
  request.mutable_spec()->set_request(request_pem);
  request.mutable_spec()->set_signername(plan.signer);
  for (const std::string& usage : plan.usages) request.mutable_spec()->add_usages(usage);
  return request;
}

// Denied and Failed are final, whatever stands beside them.
RequestState StateOfRequest(const certificatesv1::CertificateSigningRequest& request) {
  bool approved = false;
  for (const auto& condition : request.status().conditions()) {
    if (condition.status() == "False") continue;
    if (condition.type() == "Denied") return {RequestVerdict::kDenied, WhyOf(condition)};
    if (condition.type() == "Failed") return {RequestVerdict::kFailed, WhyOf(condition)};
    if (condition.type() == "Approved") approved = true;
  }
  if (!approved) return {RequestVerdict::kPending, ""};
  const bool issued = !request.status().certificate().empty();
  return {issued ? RequestVerdict::kIssued : RequestVerdict::kApproved, ""};
}

WallTime RotationDeadline(const CertificateFacts& facts) {
  const auto life = static_cast<double>((facts.not_after - facts.not_before).count());
  const double share = kEarliestShare + kShareSpread * facts.share;
  return facts.not_before + std::chrono::nanoseconds(static_cast<int64_t>(life * share));
}

bool Covers(const CertificateFacts& facts, const CertificatePlan& plan) {
  const CertificateSubject& have = facts.subject;
  return have.common_name == plan.subject.common_name &&
         HasAll(have.organizations, plan.subject.organizations) &&
         HasAll(have.dns_names, plan.subject.dns_names) &&
         HasAll(have.ip_addresses, plan.subject.ip_addresses);
}

milliseconds RetryDelay(int failures) { return Doubled(kFirstRetry, kLastRetry, failures); }
milliseconds RefusedDelay(int refusals) { return Doubled(kFirstRefused, kLastRefused, refusals); }

}  // namespace holdfast::agent
