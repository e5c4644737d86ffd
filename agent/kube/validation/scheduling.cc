// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/meta/v1/meta.pb.h"

namespace holdfast::agent::kube {
namespace {

// Requirements of label selectors and of node selectors; the latter also compare numbers.
// Kubernetes does not look at the values of what is preferred only.
template <class Requirement>
void CheckRequirement(const Requirement& requirement, bool numbers, bool check_values,
                      const std::string& path, Report* report) {
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
  for (int i = 0; check_values && i < values; ++i) {
    report->InvalidEach(Index(Child(path, "values"), i), requirement.values(i),
                        CheckLabelValue(requirement.values(i)));
  }
}

void CheckNodeTerm(const corev1::NodeSelectorTerm& term, bool required, const std::string& path,
                   Report* report) {
  for (int i = 0; i < term.matchexpressions_size(); ++i) {
    CheckRequirement(term.matchexpressions(i), true, required,
                     Index(Child(path, "matchExpressions"), i), report);
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
      continue;
    }
    for (int k = 0; k < field.values_size(); ++k) {
      report->InvalidEach(Index(Child(here, "values"), k), field.values(k),
                          CheckDns1123Subdomain(field.values(k)));
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
      CheckNodeTerm(selector.nodeselectorterms(i), true, Index(terms, i), report);
    }
  }
  const std::string preferred = Child(path, "preferredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.preferredduringschedulingignoredduringexecution_size(); ++i) {
    const auto& term = affinity.preferredduringschedulingignoredduringexecution(i);
    CheckWeight(term.weight(), Index(preferred, i), report);
    CheckNodeTerm(term.preference(), false, Child(Index(preferred, i), "preference"), report);
  }
}

using PodLabels = std::map<std::string, std::string>;
using Keys = google::protobuf::RepeatedPtrField<std::string>;

bool HasKey(const Keys& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Keys whose values are taken from the pod itself; without a selector there is nothing to add them
// to.
void CheckLabelKeys(const Keys& keys, bool has_selector, const std::string& path, Report* report) {
  if (keys.empty()) return;
  if (!has_selector) {
    return report->Forbidden(path, "must not be specified when labelSelector is not set");
  }
  for (int i = 0; i < keys.size(); ++i) {
    report->InvalidEach(Index(path, i), keys[i], CheckQualifiedName(keys[i]));
  }
}

// The API server adds a requirement to the selector for each key that the pod has a label of; a key
// may be in it no more than once then.
void CheckMatchLabelKeys(const Keys& keys, const metav1::LabelSelector& selector,
                         const PodLabels& labels, const std::string& path, Report* report) {
  std::map<std::string, int> places;  // the last one counts
  for (int i = 0; i < keys.size(); ++i) places[keys[i]] = i;
  for (const auto& [key, place] : places) {
    auto count = static_cast<int>(selector.matchlabels().count(key));
    for (const auto& expression : selector.matchexpressions()) count += expression.key() == key;
    if (labels.contains(key)) count += static_cast<int>(std::count(keys.begin(), keys.end(), key));
    for (; count > 1; --count) {
      report->Invalid(Index(path, place), key, "exists in both matchLabelKeys and labelSelector");
    }
  }
}

void CheckPodTerm(const corev1::PodAffinityTerm& term, const PodLabels& labels,
                  const std::string& path, Report* report) {
  if (term.has_labelselector()) {
    CheckLabelSelector(term.labelselector(), Child(path, "labelSelector"), report);
  }
  if (term.has_namespaceselector()) {
    CheckLabelSelector(term.namespaceselector(), Child(path, "namespaceSelector"), report);
  }
  for (const std::string& name : term.namespaces()) {
    report->InvalidEach(Child(path, "namespace"), name, CheckDns1123Label(name));
  }
  const std::string match = Child(path, "matchLabelKeys");
  CheckLabelKeys(term.matchlabelkeys(), term.has_labelselector(), match, report);
  CheckLabelKeys(term.mismatchlabelkeys(), term.has_labelselector(),
                 Child(path, "mismatchLabelKeys"), report);
  if (term.has_labelselector()) {
    CheckMatchLabelKeys(term.matchlabelkeys(), term.labelselector(), labels, match, report);
  }
  for (int i = 0; i < term.matchlabelkeys_size(); ++i) {
    if (!HasKey(term.mismatchlabelkeys(), term.matchlabelkeys(i))) continue;
    report->Invalid(Index(match, i), term.matchlabelkeys(i),
                    "exists in both matchLabelKeys and mismatchLabelKeys");
  }
  if (term.topologykey().empty()) {
    report->Required(Child(path, "topologyKey"), "can not be empty");
  }
  report->InvalidEach(Child(path, "topologyKey"), term.topologykey(),
                      CheckQualifiedName(term.topologykey()));
}

// Affinity and anti-affinity have the same fields.
template <class Affinity>
void CheckPodTerms(const Affinity& affinity, const PodLabels& labels, const std::string& path,
                   Report* report) {
  const std::string required = Child(path, "requiredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.requiredduringschedulingignoredduringexecution_size(); ++i) {
    CheckPodTerm(affinity.requiredduringschedulingignoredduringexecution(i), labels,
                 Index(required, i), report);
  }
  const std::string preferred = Child(path, "preferredDuringSchedulingIgnoredDuringExecution");
  for (int i = 0; i < affinity.preferredduringschedulingignoredduringexecution_size(); ++i) {
    const auto& term = affinity.preferredduringschedulingignoredduringexecution(i);
    CheckWeight(term.weight(), Index(preferred, i), report);
    CheckPodTerm(term.podaffinityterm(), labels, Child(Index(preferred, i), "podAffinityTerm"),
                 report);
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
      report->Invalid(Child(path, "operator"), toleration.value(), Join(faults, ";"));
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

void CheckMinDomains(const corev1::TopologySpreadConstraint& constraint, const std::string& path,
                     Report* report) {
  if (constraint.mindomains() <= 0) {
    report->InvalidNumber(path, constraint.mindomains(), "must be greater than zero");
  }
  if (constraint.whenunsatisfiable() != "DoNotSchedule") {
    report->InvalidNumber(path, constraint.mindomains(),
                          StrCat("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ",
                                 constraint.whenunsatisfiable()));
  }
}

void CheckConstraint(const corev1::TopologySpreadConstraint& constraint, const PodLabels& labels,
                     const std::string& path, Report* report) {
  if (constraint.maxskew() <= 0) {
    report->InvalidNumber(Child(path, "maxSkew"), constraint.maxskew(),
                          "must be greater than zero");
  }
  if (constraint.topologykey().empty()) {
    report->Required(Child(path, "topologyKey"), "can not be empty");
  }
  report->OneOfShown(Child(path, "whenUnsatisfiable"), constraint.whenunsatisfiable(),
                     {"DoNotSchedule", "ScheduleAnyway"});
  if (constraint.has_mindomains()) CheckMinDomains(constraint, Child(path, "minDomains"), report);
  if (constraint.has_nodeaffinitypolicy()) {
    report->OneOfShown(Child(path, "nodeAffinityPolicy"), constraint.nodeaffinitypolicy(),
                       {"Honor", "Ignore"});
  }
  if (constraint.has_nodetaintspolicy()) {
    report->OneOfShown(Child(path, "nodeTaintsPolicy"), constraint.nodetaintspolicy(),
                       {"Honor", "Ignore"});
  }
  const std::string keys = Child(path, "matchLabelKeys");
  CheckLabelKeys(constraint.matchlabelkeys(), constraint.has_labelselector(), keys, report);
  if (constraint.has_labelselector()) {
    CheckMatchLabelKeys(constraint.matchlabelkeys(), constraint.labelselector(), labels, keys,
                        report);
    CheckLabelSelector(constraint.labelselector(), Child(path, "labelSelector"), report);
  }
}

}  // namespace

void CheckLabelSelector(const metav1::LabelSelector& selector, const std::string& path,
                        Report* report) {
  CheckLabels(Sorted(selector.matchlabels()), Child(path, "matchLabels"), report);
  for (int i = 0; i < selector.matchexpressions_size(); ++i) {
    CheckRequirement(selector.matchexpressions(i), false, true,
                     Index(Child(path, "matchExpressions"), i), report);
  }
}

void CheckTolerations(const corev1::PodSpec& spec, Report* report) {
  for (int i = 0; i < spec.tolerations_size(); ++i) {
    CheckToleration(spec.tolerations(i), Index("spec.tolerations", i), report);
  }
}

void CheckAffinity(const corev1::Pod& pod, Report* report) {
  const corev1::Affinity& affinity = pod.spec().affinity();
  const PodLabels labels = Sorted(pod.metadata().labels());
  const std::string path = "spec.affinity";
  CheckNodeAffinity(affinity.nodeaffinity(), Child(path, "nodeAffinity"), report);
  CheckPodTerms(affinity.podaffinity(), labels, Child(path, "podAffinity"), report);
  CheckPodTerms(affinity.podantiaffinity(), labels, Child(path, "podAntiAffinity"), report);
}

void CheckTopologySpread(const corev1::Pod& pod, Report* report) {
  const auto& constraints = pod.spec().topologyspreadconstraints();
  const PodLabels labels = Sorted(pod.metadata().labels());
  for (int i = 0; i < constraints.size(); ++i) {
    const std::string path = Index("spec.topologySpreadConstraints", i);
    CheckConstraint(constraints[i], labels, path, report);
    const auto same = [&](const corev1::TopologySpreadConstraint& other) {
      return other.topologykey() == constraints[i].topologykey() &&
             other.whenunsatisfiable() == constraints[i].whenunsatisfiable();
    };
    if (std::any_of(constraints.begin() + i + 1, constraints.end(), same)) {
      report->Duplicate(
          Child(path, "{topologyKey, whenUnsatisfiable}"),
          StrCat("{", constraints[i].topologykey(), ", ", constraints[i].whenunsatisfiable(), "}"));
    }
  }
}

}  // namespace holdfast::agent::kube
