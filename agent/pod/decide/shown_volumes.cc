// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/decide/shown_volumes.h"

#include <map>

#include "agent/pod/decide/allocation.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

// What of the pod may change while it runs, and whether a file shows it.
struct ShownParts {
  bool labels = false;
  bool annotations = false;
  bool amounts = false;

  void Add(const corev1::DownwardAPIVolumeFile& file) {
    const std::string& path = file.fieldref().fieldpath();
    labels = labels || path.starts_with("metadata.labels");
    annotations = annotations || path.starts_with("metadata.annotations");
    amounts = amounts || file.has_resourcefieldref();
  }
};

ShownParts PartsOf(const corev1::PodSpec& spec) {
  ShownParts parts;
  for (const corev1::Volume& volume : spec.volumes()) {
    const corev1::VolumeSource& source = volume.volumesource();
    for (const auto& file : source.downwardapi().items()) parts.Add(file);
    for (const auto& projected : source.projected().sources()) {
      for (const auto& file : projected.downwardapi().items()) parts.Add(file);
    }
  }
  return parts;
}

std::map<std::string, std::string> Sorted(
    const google::protobuf::Map<std::string, std::string>& map) {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : map) sorted.emplace(key, value);
  return sorted;
}

// Lengths keep two lists apart that read the same one after the other.
void Append(const std::map<std::string, std::string>& map, std::string& out) {
  out += StrCat(map.size(), ";");
  for (const auto& [key, value] : map) {
    out += StrCat(key.size(), ":", key, value.size(), ":", value);
  }
}

void Append(const Amounts& amounts, std::string& out) {
  Append(amounts.requests, out);
  Append(amounts.limits, out);
}

}  // namespace

std::string ShownByVolumes(const corev1::Pod& pod) {
  const ShownParts parts = PartsOf(pod.spec());
  const auto& meta = pod.metadata();
  std::string out;
  if (parts.labels) Append(Sorted(meta.labels()), out);
  if (parts.annotations) Append(Sorted(meta.annotations()), out);
  if (!parts.amounts) return out;
  const Allocation amounts = AllocationOf(pod);
  for (const auto& [name, of_container] : amounts.containers) {
    out += name;
    Append(of_container, out);
  }
  if (amounts.pod) Append(*amounts.pod, out);
  return out;
}

}  // namespace holdfast::agent
