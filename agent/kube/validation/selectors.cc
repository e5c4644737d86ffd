// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "holdfast/base/ascii.h"
#include "k8s/core/v1/reference.pb.h"

namespace holdfast::agent::kube {
namespace {

const Words& Resources() {
  static const Words& words =
      *new Words{"limits.cpu",   "limits.ephemeral-storage",   "limits.memory",
                 "requests.cpu", "requests.ephemeral-storage", "requests.memory"};
  return words;
}

bool Contains(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Fields of a pod that a selector may name at all; where it stands allows some of them.
constexpr std::string_view kLabels[] = {
    "metadata.annotations", "metadata.labels",    "metadata.name",
    "metadata.namespace",   "metadata.uid",       "spec.nodeName",
    "spec.restartPolicy",   "spec.schedulerName", "spec.serviceAccountName",
    "status.hostIP",        "status.hostIPs",     "status.phase",
    "status.podIP",         "status.podIPs"};

bool IsHugePages(std::string_view resource) {
  return resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
}

// metadata.labels['key'] and metadata.annotations['key'].
void CheckSubscript(std::string_view field, const std::string& path, Report* report) {
  const size_t bracket = field.find("['");
  const std::string_view base = field.substr(0, bracket);
  const std::string_view key = field.substr(bracket + 2, field.size() - bracket - 4);
  if (base == "metadata.annotations") {
    report->InvalidEach(path, key, CheckQualifiedName(ToLower(key)));
  } else if (base == "metadata.labels") {
    report->InvalidEach(path, key, CheckQualifiedName(key));
  } else {
    report->Invalid(
        Child(path, "fieldPath"), field,
        StrCat("error converting fieldPath: field label does not support subscript: ", field));
  }
}

void CheckDivisor(std::string_view resource, const std::string& divisor, const std::string& path,
                  Report* report) {
  const auto amount = Amount::Parse(divisor.empty() ? "0" : divisor);
  if (!amount || amount->IsZero()) return;
  const std::string text = amount->ToString();
  if (!IsHugePages(resource) && !Contains(Resources(), resource)) return;
  if (resource.ends_with(".cpu")) {
    if (text != "1m" && text != "1") {
      report->Invalid(path, resource,
                      "only divisor's values 1m and 1 are supported with the cpu resource");
    }
    return;
  }
  const std::string_view what = resource.ends_with(".memory") ? "memory"
                                : resource.ends_with(".ephemeral-storage")
                                    ? "local ephemeral storage"
                                : IsHugePages(resource) ? "hugepages"
                                                        : "";
  static const Words& units =
      *new Words{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"};
  if (what.empty() || Contains(units, text)) return;
  report->Invalid(
      path, resource,
      StrCat("only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, "
             "1Ei are supported with the ",
             what, " resource"));
}

}  // namespace

void CheckFieldRef(const corev1::ObjectFieldSelector& selector, const Words& fields,
                   const std::string& path, Report* report) {
  if (selector.apiversion().empty()) return report->Required(Child(path, "apiVersion"));
  const std::string& field = selector.fieldpath();
  if (field.empty()) return report->Required(Child(path, "fieldPath"));
  if (selector.apiversion() != "v1") {
    return report->Invalid(
        Child(path, "fieldPath"), field,
        StrCat("error converting fieldPath: unsupported pod version: ", selector.apiversion()));
  }
  const size_t bracket = field.find("['");
  if (bracket != 0 && bracket != std::string::npos && field.ends_with("']") &&
      bracket + 4 <= field.size()) {
    CheckSubscript(field, path, report);
  } else if (std::find(std::begin(kLabels), std::end(kLabels), field) == std::end(kLabels)) {
    report->Invalid(Child(path, "fieldPath"), field,
                    StrCat("error converting fieldPath: field label not supported: ", field));
  } else if (!Contains(fields, field)) {
    report->NotSupported(Child(path, "fieldPath"), field, fields);
  }
}

void CheckResourceFieldRef(const corev1::ResourceFieldSelector& selector, bool needs_container,
                           const std::string& path, Report* report) {
  const std::string& resource = selector.resource();
  if (needs_container && selector.containername().empty()) {
    report->Required(Child(path, "containerName"));
  } else if (resource.empty()) {
    report->Required(Child(path, "resource"));
  } else if (!IsHugePages(resource) && !Contains(Resources(), resource)) {
    report->NotSupported(Child(path, "resource"), resource, Resources());
  }
  CheckDivisor(resource, selector.divisor().string(), Child(path, "divisor"), report);
}

}  // namespace holdfast::agent::kube
