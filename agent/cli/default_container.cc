// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/default_container.h"

#include <cstdio>

#include "agent/cli/table.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

namespace core = ::k8s::io::api::core::v1;

std::string ContainerChoice(const core::Pod& pod) {
  std::string text;
  const auto add = [&text](const std::string& name, std::string_view kind) {
    text += StrCat(text.empty() ? "" : ", ", name, kind);
  };
  for (const auto& container : pod.spec().containers()) add(container.name(), "");
  for (const auto& container : pod.spec().initcontainers()) add(container.name(), " (init)");
  for (const auto& container : pod.spec().ephemeralcontainers()) {
    add(container.ephemeralcontainercommon().name(), " (ephem)");
  }
  return text;
}

std::string DefaultContainer(const core::Pod& pod, bool quiet) {
  const auto& annotations = pod.metadata().annotations();
  const auto annotated = annotations.find("kubectl.kubernetes.io/default-container");
  if (annotated != annotations.end()) return annotated->second;
  if (pod.spec().containers().empty()) return "";
  const std::string& first = pod.spec().containers(0).name();
  const bool alone = pod.spec().containers_size() + pod.spec().initcontainers_size() +
                         pod.spec().ephemeralcontainers_size() ==
                     1;
  if (!alone && !quiet) {
    std::fprintf(stderr, "Defaulted container \"%s\" out of: %s\n", first.c_str(),
                 Visible(ContainerChoice(pod)).c_str());
  }
  return first;
}

}  // namespace holdfast::agent::cli
