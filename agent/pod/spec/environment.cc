// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/environment.h"

#include <algorithm>
#include <utility>

#include "agent/kube/containers_of.h"
#include "agent/kube/pod_resources.h"
#include "agent/pod/spec/expansion.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

std::string Joined(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += StrCat(out.empty() ? "" : ",", value);
  return out;
}

// The key of "metadata.labels['key']" when `path` begins with `prefix`.
std::optional<std::string> Subscript(const std::string& path, const std::string& prefix) {
  if (!path.starts_with(prefix + "['") || !path.ends_with("']")) return std::nullopt;
  return path.substr(prefix.size() + 2, path.size() - prefix.size() - 4);
}

std::string ValueOf(const google::protobuf::Map<std::string, std::string>& map,
                    const std::string& key) {
  const auto it = map.find(key);
  return it == map.end() ? std::string() : it->second;
}

int64_t DivideUp(int64_t value, int64_t divisor) {
  return divisor <= 0 ? value : (value + divisor - 1) / divisor;
}

// The divisor in the unit of the value: thousandths for CPU. "0" and absent mean 1.
int64_t Divisor(const corev1::ResourceFieldSelector& selector, bool cpu) {
  const auto amount = kube::Amount::Parse(selector.divisor().string());
  if (!amount || amount->IsZero()) return cpu ? 1000 : 1;
  return cpu ? amount->Milli() : amount->Units();
}

// A limit that is not set is the node's capacity.
Result<std::string> ResourceField(const corev1::Pod& pod, const corev1::Container& self,
                                  const corev1::ResourceFieldSelector& selector,
                                  const NodeEnvironment& node) {
  const corev1::Container* c =
      selector.containername().empty() ? &self : kube::FindContainer(pod, selector.containername());
  if (c == nullptr) return NotFound(StrCat("container ", selector.containername(), " not found"));
  const std::string& path = selector.resource();
  const size_t dot = path.find('.');
  const std::string kind = path.substr(0, dot);
  const std::string resource = dot == std::string::npos ? std::string() : path.substr(dot + 1);
  if ((kind != "limits" && kind != "requests") || resource.empty()) {
    return InvalidArgument(StrCat("unsupported container resource : ", path));
  }
  const bool limit = kind == "limits";
  const bool cpu = resource == "cpu";
  const kube::ResourceList amounts = limit ? kube::Limits(*c) : kube::Requests(*c);
  std::optional<int64_t> value;
  if (const auto it = amounts.find(resource); it != amounts.end()) {
    value = cpu ? it->second.Milli() : it->second.Units();
  }
  if (!value && limit && cpu) value = node.cpu_milli_capacity;
  if (!value && limit && resource == "memory") value = node.memory_capacity_bytes;
  return std::to_string(DivideUp(value.value_or(0), Divisor(selector, cpu)));
}

Result<std::string> ValueFrom(const corev1::Pod& pod, const corev1::Container& container,
                              const corev1::EnvVarSource& source, const NodeEnvironment& node,
                              const std::vector<std::string>& pod_ips, bool& absent) {
  if (source.has_fieldref()) {
    return DownwardField(pod, source.fieldref().fieldpath(), node, pod_ips);
  }
  if (source.has_resourcefieldref()) {
    return ResourceField(pod, container, source.resourcefieldref(), node);
  }
  absent = true;
  if (source.has_configmapkeyref()) {
    if (source.configmapkeyref().optional()) return std::string();
    return NotFound(StrCat("configmap \"", source.configmapkeyref().localobjectreference().name(),
                           "\" not found"));
  }
  if (source.has_secretkeyref()) {
    if (source.secretkeyref().optional()) return std::string();
    return NotFound(
        StrCat("secret \"", source.secretkeyref().localobjectreference().name(), "\" not found"));
  }
  return Unsupported("environment variable source is not supported");
}

Result<void> CheckEnvFrom(const corev1::Container& container) {
  for (const corev1::EnvFromSource& from : container.envfrom()) {
    if (from.has_configmapref() && !from.configmapref().optional()) {
      return NotFound(StrCat("configmap \"", from.configmapref().localobjectreference().name(),
                             "\" not found"));
    }
    if (from.has_secretref() && !from.secretref().optional()) {
      return NotFound(
          StrCat("secret \"", from.secretref().localobjectreference().name(), "\" not found"));
    }
  }
  return {};
}

// Keeps the place of the first entry of a name and the value of the last.
void Put(std::vector<std::string>& list, const std::string& name, const std::string& value) {
  const std::string prefix = name + "=";
  const auto it = std::find_if(list.begin(), list.end(),
                               [&](const std::string& entry) { return entry.starts_with(prefix); });
  if (it != list.end()) {
    *it = prefix + value;
  } else {
    list.push_back(prefix + value);
  }
}

}  // namespace

Result<std::string> DownwardField(const corev1::Pod& pod, const std::string& path,
                                  const NodeEnvironment& node,
                                  const std::vector<std::string>& pod_ips) {
  const auto& meta = pod.metadata();
  const auto first = [](const std::vector<std::string>& list) {
    return list.empty() ? std::string() : list.front();
  };
  const std::vector<std::string>& ips = pod.spec().hostnetwork() ? node.host_ips : pod_ips;
  if (path == "metadata.name") return meta.name();
  if (path == "metadata.namespace") return meta.namespace_();
  if (path == "metadata.uid") return meta.uid();
  if (path == "spec.nodeName") return node.node_name;
  if (path == "spec.serviceAccountName") return pod.spec().serviceaccountname();
  if (path == "status.hostIP") return first(node.host_ips);
  if (path == "status.hostIPs") return Joined(node.host_ips);
  if (path == "status.podIP") return first(ips);
  if (path == "status.podIPs") return Joined(ips);
  if (const auto key = Subscript(path, "metadata.labels")) return ValueOf(meta.labels(), *key);
  if (const auto key = Subscript(path, "metadata.annotations")) {
    return ValueOf(meta.annotations(), *key);
  }
  return InvalidArgument(StrCat("unsupported fieldPath: ", path));
}

Result<Environment> BuildEnvironment(const corev1::Pod& pod, const corev1::Container& container,
                                     const std::vector<std::string>& image_env,
                                     const NodeEnvironment& node,
                                     const std::vector<std::string>& pod_ips) {
  RETURN_IF_ERROR(CheckEnvFrom(container));
  Environment out;
  for (const std::string& entry : image_env) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;  // untrusted text, not a variable
    Put(out.list, entry.substr(0, equals), entry.substr(equals + 1));
  }
  for (const corev1::EnvVar& variable : container.env()) {
    std::string value;
    bool absent = false;
    if (variable.has_valuefrom()) {
      ASSIGN_OR_RETURN(value,
                       ValueFrom(pod, container, variable.valuefrom(), node, pod_ips, absent));
    } else {
      value = Expand(variable.value(), out.of_pod);
    }
    if (absent) continue;
    Put(out.list, variable.name(), value);
    out.of_pod[variable.name()] = std::move(value);
  }
  return out;
}

}  // namespace holdfast::agent
