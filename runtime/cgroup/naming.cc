// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/naming.h"

#include <algorithm>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

std::string_view QosWord(model::QosClass qos) {
  switch (qos) {
    case model::QosClass::kGuaranteed:
      return "";
    case model::QosClass::kBurstable:
      return "burstable";
    case model::QosClass::kBestEffort:
      return "besteffort";
  }
  return "";
}

// What precedes the uid in a pod's directory name.
std::string PodPrefix(CgroupNaming naming, model::QosClass qos) {
  if (naming == CgroupNaming::kCgroupfs) return "pod";
  const std::string_view word = QosWord(qos);
  return StrCat("kubepods-", word, word.empty() ? "" : "-", "pod");
}

// The middle of prefix…suffix, nullopt when the name has another form or the middle is empty.
std::optional<std::string> Between(std::string_view name, std::string_view prefix,
                                   std::string_view suffix) {
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  return std::string(name);
}

}  // namespace

std::string PodsRootName(CgroupNaming naming) {
  return naming == CgroupNaming::kSystemd ? "kubepods.slice" : "kubepods";
}

std::string QosDirName(CgroupNaming naming, model::QosClass qos) {
  const std::string_view word = QosWord(qos);
  if (word.empty() || naming == CgroupNaming::kCgroupfs) return std::string(word);
  return StrCat("kubepods-", word, ".slice");
}

std::string PodDirName(CgroupNaming naming, model::QosClass qos, const PodUid& uid) {
  std::string text = uid.value;
  if (naming == CgroupNaming::kCgroupfs) return PodPrefix(naming, qos) + text;
  std::ranges::replace(text, '-', '_');
  return StrCat(PodPrefix(naming, qos), text, ".slice");
}

std::string ContainerDirName(CgroupNaming naming, const ContainerId& id) {
  if (naming == CgroupNaming::kCgroupfs) return id.value;
  return StrCat("holdfast-", id.value, ".scope");
}

std::optional<PodUid> ParsePodDirName(CgroupNaming naming, model::QosClass qos,
                                      std::string_view name) {
  const bool systemd = naming == CgroupNaming::kSystemd;
  auto text = Between(name, PodPrefix(naming, qos), systemd ? ".slice" : "");
  if (!text) return std::nullopt;
  if (systemd) std::ranges::replace(*text, '_', '-');
  return PodUid(std::move(*text));
}

std::optional<ContainerId> ParseContainerDirName(CgroupNaming naming, std::string_view name) {
  const bool systemd = naming == CgroupNaming::kSystemd;
  auto text = Between(name, systemd ? "holdfast-" : "", systemd ? ".scope" : "");
  if (!text || text->size() != 64) return std::nullopt;
  const bool hex = std::ranges::all_of(
      *text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (!hex) return std::nullopt;
  return ContainerId(std::move(*text));
}

}  // namespace holdfast::runtime
