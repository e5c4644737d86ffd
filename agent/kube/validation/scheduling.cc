// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

std::string Join(const Faults& faults) {
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : ";") + fault;
  return text;
}

// Requirements of label selectors and of node selectors; the latter also compare numbers.
template <class Requirement>
void CheckRequirement(const Requirement& requirement, bool numbers, const std::string& path,
                      Report* report) {
  const std::string& word = requirement.operator_();
  const int values = requirement.values_size();
  if (word == "In" || word == "NotIn") {
    if (values == 0) {
      report->Required(Child(path, "values"),
                       "must be specified when `operator` is 'In' or 'NotIn'");
    }
  } else if (word == "Exists" || word == "DoesNotExist") {
    if (values > 0) {
      report->Forbidden(Child(path, "values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    }
  } else if (numbers && (word == "Gt" || word == "Lt")) {
    if (values != 1) {
      report->Required(Child(path, "values"),
                       "must be specified single value when `operator` is 'Lt' or 'Gt'");
    }
  } else {
    report->Invalid(Child(path, "operator"), word, "not a valid selector operator");
  }
  report->InvalidEach(Child(path, "key"), requirement.key(), CheckQualifiedName(requirement.key()));
  for (int i = 0; i < values; ++i) {
    report->InvalidEach(Index(Child(path, "values"), i), requirement.values(i),
                        CheckLabelValue(requirement.values(i)));
  }
}

void CheckNodeTerm(const corev1::NodeSelectorTerm& term, const std::string& path, Report* report) {
  for (int i = 0; i < term.matchexpressions_size(); ++i) {
    CheckRequirement(term.matchexpressions(i), true, Index(Child(path, "matchExpressions"), i),
                     report);
  }
  for (int i = 0; i < term.matchfields_size(); ++i) {
    const corev1::NodeSelectorRequirement& field = term.matchfields(i);
    const std::string here = Index(Child(path, "matchFields"), i);
    if (field.operator_() != "In" && field.operator_() != "NotIn") {
      report->Invalid(Child(here, "operator"), field.operator_(), "not a valid selector operator");
    } else if (field.values_size() != 1) {
      report->Required(Child(here, "values"),
                       "must be only one value when `operator` is 'In' or 'NotIn' for node field "
                       "selector");
    }
    if (field.key() != "metadata.name") {
      report->Invalid(Child(here, "key"), field.key(), "not a valid field selector key");
    }
  }
}

void CheckWeight(int32_t weight, const std::string& path, Report* report) {
  if (weight < 1 || weight > 100) {
    report->InvalidNumber(Child(path, "weight"), weight, "must be in the range 1-100");
  }
}

void CheckNodeAffinity(const corev1::NodeAffinity& affinity, const std::string& path,
                       Report* report) {
  if (affinity.has_requiredduringschedulingignoredduringexecution()) {
    const auto& selector = affinity.requiredduringschedulingignoredduringexecution();
    const std::string terms =
        Child(path, "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    if (selector.nodeselectorterms().empty()) {
      report->Required(terms, "must have at least one node selector term");
    }
    for (int i = 0; i < selector.nodeselectorterms_size(); ++i) {
      CheckNodeTerm(selector.nodeselectorterms(i), Index(terms, i), report);
    }
  }
  const std::string preferred = Child(path, "preferredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.preferredduringschedulingignoredduringexecution_size(); ++i) {
    const auto& term = affinity.preferredduringschedulingignoredduringexecution(i);
    CheckWeight(term.weight(), Index(preferred, i), report);
    CheckNodeTerm(term.preference(), Child(Index(preferred, i), "preference"), report);
  }
}

void CheckPodTerm(const corev1::PodAffinityTerm& term, const std::string& path, Report* report) {
  if (term.has_labelselector()) {
    CheckLabelSelector(term.labelselector(), Child(path, "labelSelector"), report);
  }
  if (term.has_namespaceselector()) {
    CheckLabelSelector(term.namespaceselector(), Child(path, "namespaceSelector"), report);
  }
  for (const std::string& name : term.namespaces()) {
    report->InvalidEach(Child(path, "namespace"), name, CheckDns1123Label(name));
  }
  if (term.topologykey().empty()) {
    report->Required(Child(path, "topologyKey"), "can not be empty");
  }
  report->InvalidEach(Child(path, "topologyKey"), term.topologykey(),
                      CheckQualifiedName(term.topologykey()));
}

// Affinity and anti-affinity have the same fields.
template <class Affinity>
void CheckPodTerms(const Affinity& affinity, const std::string& path, Report* report) {
  const std::string required = Child(path, "requiredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.requiredduringschedulingignoredduringexecution_size(); ++i) {
    CheckPodTerm(affinity.requiredduringschedulingignoredduringexecution(i), Index(required, i),
                 report);
  }
  const std::string preferred = Child(path, "preferredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.preferredduringschedulingignoredduringexecution_size(); ++i) {
    const auto& term = affinity.preferredduringschedulingignoredduringexecution(i);
    CheckWeight(term.weight(), Index(preferred, i), report);
    CheckPodTerm(term.podaffinityterm(), Child(Index(preferred, i), "podAffinityTerm"), report);
  }
}

void CheckToleration(const corev1::Toleration& toleration, const std::string& path,
                     Report* report) {
  const std::string& word = toleration.operator_();
  if (!toleration.key().empty()) {
    report->InvalidEach(Child(path, "key"), toleration.key(), CheckQualifiedName(toleration.key()));
  } else if (word != "Exists") {
    report->Invalid(Child(path, "operator"), word,
                    "operator must be Exists when `key` is empty, which means \"match all values "
                    "and all keys\"");
  }
  if (toleration.has_tolerationseconds() && toleration.effect() != "NoExecute") {
    report->Invalid(Child(path, "effect"), toleration.effect(),
                    "effect must be 'NoExecute' when `tolerationSeconds` is set");
  }
  if (word.empty() || word == "Equal") {
    if (const Faults faults = CheckLabelValue(toleration.value()); !faults.empty()) {
      report->Invalid(Child(path, "operator"), toleration.value(), Join(faults));
    }
  } else if (word != "Exists") {
    report->NotSupported(Child(path, "operator"), word, {"Equal", "Exists"});
  } else if (!toleration.value().empty()) {
    report->Invalid(Child(path, "operator"), toleration.value(),
                    "value must be empty when `operator` is 'Exists'");
  }
  if (!toleration.effect().empty()) {
    report->OneOf(Child(path, "effect"), toleration.effect(),
                  {"NoSchedule", "PreferNoSchedule", "NoExecute"});
  }
}

}  // namespace

void CheckLabelSelector(const metav1::LabelSelector& selector, const std::string& path,
                        Report* report) {
  CheckLabels(Sorted(selector.matchlabels()), Child(path, "matchLabels"), report);
  for (int i = 0; i < selector.matchexpressions_size(); ++i) {
    CheckRequirement(selector.matchexpressions(i), false, Index(Child(path, "matchExpressions"), i),
                     report);
  }
}

void CheckTolerations(const corev1::PodSpec& spec, Report* report) {
  for (int i = 0; i < spec.tolerations_size(); ++i) {
    CheckToleration(spec.tolerations(i), Index("spec.tolerations", i), report);
  }
}

void CheckAffinity(const corev1::PodSpec& spec, Report* report) {
  const corev1::Affinity& affinity = spec.affinity();
  const std::string path = "spec.affinity";
  CheckNodeAffinity(affinity.nodeaffinity(), Child(path, "nodeAffinity"), report);
  CheckPodTerms(affinity.podaffinity(), Child(path, "podAffinity"), report);
  CheckPodTerms(affinity.podantiaffinity(), Child(path, "podAntiAffinity"), report);
}

void CheckTopologySpread(const corev1::PodSpec& spec, Report* report) {
  std::set<std::pair<std::string, std::string>> seen;
  for (int i = 0; i < spec.topologyspreadconstraints_size(); ++i) {
    const auto& constraint = spec.topologyspreadconstraints(i);
    const std::string path = Index("spec.topologySpreadConstraints", i);
    if (constraint.maxskew() <= 0) {
      report->InvalidNumber(Child(path, "maxSkew"), constraint.maxskew(),
                            "must be greater than zero");
    }
    if (constraint.topologykey().empty()) {
      report->Required(Child(path, "topologyKey"), "can not be empty");
    }
    const std::string& action = constraint.whenunsatisfiable();
    if (action != "DoNotSchedule" && action != "ScheduleAnyway") {
      report->NotSupported(Child(path, "whenUnsatisfiable"), action,
                           {"DoNotSchedule", "ScheduleAnyway"});
    }
    if (!seen.emplace(constraint.topologykey(), action).second) {
      report->Duplicate(Child(path, "{topologyKey, whenUnsatisfiable}"),
                        StrCat("{", constraint.topologykey(), ", ", action, "}"));
    }
    if (constraint.has_mindomains() && constraint.mindomains() <= 0) {
      report->InvalidNumber(Child(path, "minDomains"), constraint.mindomains(),
                            "must be greater than zero");
    }
    if (constraint.has_labelselector()) {
      CheckLabelSelector(constraint.labelselector(), Child(path, "labelSelector"), report);
    }
  }
}

}  // namespace holdfast::agent::kube
