// SPDX-License-Identifier: Apache-2.0
// Settings that decide which pods the node takes: its labels and taints, and sysctls that are not safe.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "agent/config/access.h"
#include "agent/kube/sysctl_names.h"
#include "agent/kube/validation/names.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::config {
namespace {

using Json = nlohmann::json;
using Values = std::vector<std::string>;

// What a kubelet may say of itself among the names that are Kubernetes' own.
constexpr std::string_view kKubernetesLabels[] = {
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
};

bool IsWithin(std::string_view space, std::string_view domain) {
  return space == domain || space.ends_with(StrCat(".", domain));
}

bool IsOurs(std::string_view key) {
  const std::string_view space = key.substr(0, key.find('/') == key.npos ? 0 : key.find('/'));
  if (!IsWithin(space, "kubernetes.io") && !IsWithin(space, "k8s.io")) return true;
  return IsWithin(space, "kubelet.kubernetes.io") || IsWithin(space, "node.kubernetes.io") ||
         std::ranges::find(kKubernetesLabels, key) != std::end(kKubernetesLabels);
}

Result<void> Check(const std::string& what, const kube::Faults& faults) {
  if (faults.empty()) return {};
  return InvalidArgument(StrCat("\"", what, "\": ", faults.front()));
}

Result<std::pair<std::string, std::string>> ParseLabel(const std::string& text) {
  const size_t split = text.find('=');
  if (split == std::string::npos) {
    return InvalidArgument(StrCat("\"", text, "\" is not of the form example.com/rack=7"));
  }
  std::pair<std::string, std::string> label(text.substr(0, split), text.substr(split + 1));
  RETURN_IF_ERROR(Check(label.first, kube::CheckQualifiedName(label.first)));
  RETURN_IF_ERROR(Check(label.second, kube::CheckLabelValue(label.second)));
  if (!IsOurs(label.first)) {
    return InvalidArgument(
        StrCat("\"", label.first, "\" is one of Kubernetes' own labels that no node sets itself"));
  }
  return label;
}

constexpr std::string_view kEffects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};

Result<NodeTaint> ParseTaint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) {
    return InvalidArgument(StrCat("\"", text, "\" is not of the form dedicated=gpu:NoSchedule"));
  }
  const std::string name = text.substr(0, colon);
  const size_t split = name.find('=');
  NodeTaint taint{name.substr(0, split), split == std::string::npos ? "" : name.substr(split + 1),
                  text.substr(colon + 1)};
  RETURN_IF_ERROR(Check(taint.key, kube::CheckQualifiedName(taint.key)));
  RETURN_IF_ERROR(Check(taint.value, kube::CheckLabelValue(taint.value)));
  if (std::ranges::find(kEffects, taint.effect) == std::end(kEffects)) {
    return InvalidArgument(
        StrCat("\"", taint.effect, "\" is none of: NoSchedule, PreferNoSchedule, NoExecute"));
  }
  return taint;
}

std::string TextOf(const NodeTaint& taint) {
  return StrCat(taint.key, taint.value.empty() ? "" : "=", taint.value, ":", taint.effect);
}

bool IsSysctlPattern(const std::string& text) {
  const std::string name = text.ends_with('*') ? text.substr(0, text.size() - 1) : text;
  return !name.empty() && text.size() <= 253 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '/' || c == '-' ||
           c == '_';
  });
}

Result<void> CheckSysctl(const std::string& pattern) {
  if (!IsSysctlPattern(pattern)) {
    return InvalidArgument(
        StrCat("\"", pattern, "\" is neither a sysctl's name nor the beginning of one with a *"));
  }
  if (kube::SysctlNamespace(kube::DottedSysctl(pattern)).empty()) {
    return InvalidArgument(
        StrCat("\"", pattern, "\" is not known to have a value of its own in each namespace"));
  }
  return {};
}

}  // namespace

Access NodeLabels() {
  return {[](AgentConfig& c, const Values& v) -> Result<void> {
            std::map<std::string, std::string> labels;
            for (const std::string& text : v) {
              ASSIGN_OR_RETURN(auto label, ParseLabel(text));
              labels.insert_or_assign(std::move(label.first), std::move(label.second));
            }
            c.node.labels = std::move(labels);
            return {};
          },
          [](const AgentConfig& c) { return Json(c.node.labels); }};
}

Access NodeTaints() {
  return {
      [](AgentConfig& c, const Values& v) -> Result<void> {
        std::vector<NodeTaint> taints;
        for (const std::string& text : v) {
          ASSIGN_OR_RETURN(NodeTaint taint, ParseTaint(text));
          const bool again = std::ranges::any_of(taints, [&](const NodeTaint& known) {
            return known.key == taint.key && known.effect == taint.effect;
          });
          if (again) {
            return InvalidArgument(StrCat("\"", text, "\": this key and effect stand there twice"));
          }
          taints.push_back(std::move(taint));
        }
        c.node.taints = std::move(taints);
        return {};
      },
      [](const AgentConfig& c) {
        Json texts = Json::array();
        for (const NodeTaint& taint : c.node.taints) texts.push_back(TextOf(taint));
        return texts;
      }};
}

Access UnsafeSysctls() {
  return {[](AgentConfig& c, const Values& v) -> Result<void> {
            for (const std::string& pattern : v) RETURN_IF_ERROR(CheckSysctl(pattern));
            c.node.allowed_unsafe_sysctls = v;
            return {};
          },
          [](const AgentConfig& c) { return Json(c.node.allowed_unsafe_sysctls); }};
}

Access RuntimeHandlers() {
  return {[](AgentConfig& c, const Values& v) -> Result<void> {
            for (auto name = v.begin(); name != v.end(); ++name) {
              RETURN_IF_ERROR(Check(*name, kube::CheckDns1123Label(*name)));
              if (std::find(v.begin(), name, *name) != name) {
                return InvalidArgument(StrCat("\"", *name, "\": stands there twice"));
              }
            }
            c.node.runtime_handlers = v;
            return {};
          },
          [](const AgentConfig& c) { return Json(c.node.runtime_handlers); }};
}

}  // namespace holdfast::agent::config
