// SPDX-License-Identifier: Apache-2.0
// Names of signers and of the trust bundles that are named after them.
#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kDomainLength = 253;
constexpr size_t kPathLength = 253 + 63 + 1;  // NAMESPACE.NAME
constexpr size_t kSignerLength = kDomainLength + 1 + kPathLength;

// The faults of the first part between dots that has any.
template <class Check>
void CheckParts(std::string_view whole, Check check, const std::string& path, Report* report) {
  std::string_view rest = whole;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const Faults faults = check(part);
    for (const std::string& fault : faults) {
      report->Invalid(path, whole, StrCat("validating label ", Quoted(part), ": ", fault));
    }
    if (!faults.empty() || dot == std::string_view::npos) return;
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace

bool IsKubernetesSigner(std::string_view signer) {
  const std::string domain(signer.substr(0, signer.find('/')));
  return domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
}

void CheckSignerName(const std::string& name, const std::string& path, Report* report) {
  if (name.empty()) return report->Required(path);
  const size_t slash = name.find('/');
  if (slash == std::string::npos || name.find('/', slash + 1) != std::string::npos) {
    return report->Invalid(
        path, name,
        "must be a fully qualified domain and path of the form 'example.com/signer-name'");
  }
  const std::string domain = name.substr(0, slash);
  const std::string rest = name.substr(slash + 1);
  if (domain.size() > kDomainLength) report->TooLong(path, kDomainLength);
  CheckParts(domain, CheckDns1123Label, path, report);
  if (domain.find('.') == std::string::npos) {
    report->Invalid(path, domain,
                    "should be a domain with at least two segments separated by dots");
  }
  CheckParts(rest, CheckDns1123Subdomain, path, report);
  if (name.size() > kSignerLength) report->TooLong(path, kSignerLength);
}

Faults CheckTrustBundleName(std::string_view name) {
  const size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return CheckDns1123Subdomain(name);
  return CheckDns1123Subdomain(name.substr(colon + 1));
}

}  // namespace holdfast::agent::kube
