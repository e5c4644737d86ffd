// SPDX-License-Identifier: Apache-2.0
// A container that is put into a pod which runs.
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <set>

#include "agent/kube/defaulting.h"
#include "agent/kube/validation/report.h"
#include "agent/kube/validation/validate.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr char kAsMain[] = "spec.containers[0]";

// What the rest of an ephemeral container's fields would be about never comes to it.
const std::set<std::string_view>& FieldsOfEphemeral() {
  static const std::set<std::string_view> kFields = {"name",
                                                     "image",
                                                     "command",
                                                     "args",
                                                     "workingDir",
                                                     "envFrom",
                                                     "env",
                                                     "volumeMounts",
                                                     "volumeDevices",
                                                     "terminationMessagePath",
                                                     "terminationMessagePolicy",
                                                     "imagePullPolicy",
                                                     "securityContext",
                                                     "stdin",
                                                     "stdinOnce",
                                                     "tty"};
  return kFields;
}

void CheckFields(const corev1::EphemeralContainerCommon& container, const std::string& path,
                 Report* report) {
  constexpr char kWhy[] = "cannot be set for an Ephemeral Container";
  std::vector<const google::protobuf::FieldDescriptor*> set;
  container.GetReflection()->ListFields(container, &set);
  for (const auto* field : set) {
    const bool says_nothing =
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE &&
        !field->is_repeated() &&
        container.GetReflection()->GetMessage(container, field).ByteSizeLong() == 0;
    if (says_nothing || FieldsOfEphemeral().contains(field->name())) continue;
    report->Forbidden(Child(path, field->name()), kWhy);
  }
  for (int i = 0; i < container.volumemounts_size(); ++i) {
    const std::string mount = Index(Child(path, "volumeMounts"), i);
    if (!container.volumemounts(i).subpath().empty()) {
      report->Forbidden(Child(mount, "subPath"), kWhy);
    }
    if (!container.volumemounts(i).subpathexpr().empty()) {
      report->Forbidden(Child(mount, "subPathExpr"), kWhy);
    }
  }
}

}  // namespace

FieldErrors CompleteEphemeralContainer(const corev1::Pod& pod,
                                       corev1::EphemeralContainer* container) {
  Report report;
  const std::string path = Index("spec.ephemeralContainers", pod.spec().ephemeralcontainers_size());
  CheckFields(container->ephemeralcontainercommon(), path, &report);
  const std::string& target = container->targetcontainername();
  const bool known =
      target.empty() || std::ranges::any_of(pod.spec().containers(),
                                            [&](const auto& c) { return c.name() == target; });
  if (!known) report.NotFound(Child(path, "targetContainerName"), target);
  // As the only container of such a pod it has the fields of one, under the same numbers.
  corev1::Pod alone = pod;
  alone.mutable_spec()->clear_initcontainers();
  alone.mutable_spec()->clear_containers();
  alone.mutable_spec()->clear_ephemeralcontainers();
  (void)alone.mutable_spec()->add_containers()->ParseFromString(
      container->ephemeralcontainercommon().SerializeAsString());  // of our own bytes
  SetPodDefaults(&alone);
  FieldErrors errors = report.Take();
  for (auto* check : {&ValidatePod, &ValidateStaticPod}) {
    for (FieldError& error : check(alone)) {
      if (!error.path.starts_with(kAsMain)) continue;
      error.path = StrCat(path, std::string_view(error.path).substr(sizeof kAsMain - 1));
      errors.push_back(std::move(error));
    }
  }
  corev1::Container& complete = *alone.mutable_spec()->mutable_containers(0);
  if (complete.resources().ByteSizeLong() == 0) complete.clear_resources();
  (void)container->mutable_ephemeralcontainercommon()->ParseFromString(
      complete.SerializeAsString());
  return errors;
}

}  // namespace holdfast::agent::kube
