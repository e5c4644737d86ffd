// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/environment.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include "agent/kube/expansion.h"
#include "agent/pod/spec/downward.h"
#include "agent/pod/spec/env_file.h"
#include "agent/pod/spec/input_values.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

class EnvironmentBuilder {
 public:
  EnvironmentBuilder(const corev1::Pod& pod, const corev1::Container& container,
                     const NodeEnvironment& node, const std::vector<std::string>& pod_ips,
                     const PodInputs& inputs, const VolumeTexts& texts)
      : pod_(pod),
        container_(container),
        node_(node),
        pod_ips_(pod_ips),
        inputs_(inputs),
        texts_(texts) {}

  void AddImage(const std::vector<std::string>& image_env) {
    for (const std::string& entry : image_env) AddEntry(entry, false);
  }

  Result<void> AddServices() {
    const auto& spec = pod_.spec();
    const bool links = !spec.has_enableservicelinks() || spec.enableservicelinks();
    const auto variables = inputs_.ServiceVariables(PodUid(pod_.metadata().uid()),
                                                    pod_.metadata().namespace_(), links);
    if (!variables) {
      return Unavailable("services have not yet been read at least once, cannot construct envvars");
    }
    for (const std::string& entry : *variables) AddEntry(entry, true);
    return {};
  }

  Result<void> AddFrom(const corev1::EnvFromSource& from) {
    if (from.has_configmapref())
      return AddAll(ObjectKind::kConfigMap, from.configmapref(), from.prefix());
    if (from.has_secretref()) return AddAll(ObjectKind::kSecret, from.secretref(), from.prefix());
    return {};
  }

  Result<void> AddVariable(const corev1::EnvVar& variable) {
    if (!variable.has_valuefrom()) {
      Add(variable.name(), kube::Expand(variable.value(), out_.of_pod));
      return {};
    }
    ASSIGN_OR_RETURN(const auto value, ValueFrom(variable.valuefrom()));
    if (value) Add(variable.name(), *value);
    return {};
  }

  Environment Take() { return std::move(out_); }

 private:
  // Keeps the place of the first entry of a name and the value of the last. Thousands of Services
  // have tens of thousands of names.
  void Put(const std::string& name, const std::string& value) {
    const auto [place, added] = places_.try_emplace(name, out_.list.size());
    if (added) out_.list.emplace_back();
    out_.list[place->second] = StrCat(name, "=", value);
  }

  void Add(const std::string& name, const std::string& value) {
    Put(name, value);
    out_.of_pod[name] = value;
  }

  // "NAME=value"; anything else is untrusted text, not a variable.
  void AddEntry(const std::string& entry, bool of_pod) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return;
    const std::string name = entry.substr(0, equals);
    Put(name, entry.substr(equals + 1));
    if (of_pod) out_.of_pod[name] = entry.substr(equals + 1);
  }

  template <class Source>
  Result<std::shared_ptr<const ObjectData>> DataOf(ObjectKind kind, const Source& source) const {
    const ObjectRef ref{kind, pod_.metadata().namespace_(), source.localobjectreference().name()};
    return ObjectOf(inputs_, PodUid(pod_.metadata().uid()), ref, source.optional());
  }

  template <class Source>
  Result<void> AddAll(ObjectKind kind, const Source& source, const std::string& prefix) {
    ASSIGN_OR_RETURN(const auto data, DataOf(kind, source));
    if (data == nullptr) return {};
    for (const auto& [key, value] : data->values) {
      if (!data->binary.contains(key)) Add(prefix + key, value);
    }
    return {};
  }

  // Absent: it is left out.
  template <class Source>
  Result<std::optional<std::string>> KeyOf(ObjectKind kind, const Source& source) const {
    ASSIGN_OR_RETURN(const auto data, DataOf(kind, source));
    if (data == nullptr) return std::optional<std::string>();
    const auto value = data->values.find(source.key());
    if (value != data->values.end() && !data->binary.contains(source.key())) {
      return std::optional<std::string>(value->second);
    }
    if (source.optional()) return std::optional<std::string>();
    return NotFound(StrCat("couldn't find key ", source.key(), " in ",
                           kind == ObjectKind::kSecret ? "Secret " : "ConfigMap ",
                           pod_.metadata().namespace_(), "/",
                           source.localobjectreference().name()));
  }

  Result<std::optional<std::string>> InFile(const corev1::FileKeySelector& source) const {
    const auto place = texts_.places.find(source.volumename());
    if (place == texts_.places.end() || !texts_.read) {
      return NotFound(
          StrCat("cannot find the volume \"", source.volumename(), "\" referenced by FileKeyRef"));
    }
    const std::string& volume = place->second.path;
    ASSIGN_OR_RETURN(const std::string text,
                     WithContext(texts_.read(volume, source.path()), "couldn't parse env file"));
    ASSIGN_OR_RETURN(std::string value,
                     WithContext(ValueInEnvFile(text, source.key()), "couldn't parse env file"));
    if (!value.empty()) return std::optional(std::move(value));
    if (source.optional()) return std::optional<std::string>();
    return NotFound(StrCat("environment variable key \"", source.key(), "\" not found in file \"",
                           volume, "/", source.path(), "\""));
  }

  Result<std::optional<std::string>> ValueFrom(const corev1::EnvVarSource& source) const {
    if (source.has_configmapkeyref())
      return KeyOf(ObjectKind::kConfigMap, source.configmapkeyref());
    if (source.has_secretkeyref()) return KeyOf(ObjectKind::kSecret, source.secretkeyref());
    if (source.has_filekeyref()) return InFile(source.filekeyref());
    if (source.has_fieldref()) {
      ASSIGN_OR_RETURN(std::string value,
                       DownwardField(pod_, source.fieldref().fieldpath(), node_, pod_ips_));
      return std::optional(std::move(value));
    }
    if (source.has_resourcefieldref()) {
      ASSIGN_OR_RETURN(std::string value,
                       DownwardResource(pod_, &container_, source.resourcefieldref(), node_));
      return std::optional(std::move(value));
    }
    return Unsupported("environment variable source is not supported");
  }

  const corev1::Pod& pod_;
  const corev1::Container& container_;
  const NodeEnvironment& node_;
  const std::vector<std::string>& pod_ips_;
  const PodInputs& inputs_;
  const VolumeTexts& texts_;
  Environment out_;
  std::unordered_map<std::string, size_t> places_;  // of the names in its list
};

}  // namespace

// Later ones win: 1. the image, 2. Services, 3. envFrom in its order, 4. env in its order, each of which may refer to
// what is before it, the image excepted.
Result<Environment> BuildEnvironment(const corev1::Pod& pod, const corev1::Container& container,
                                     const std::vector<std::string>& image_env,
                                     const NodeEnvironment& node,
                                     const std::vector<std::string>& pod_ips,
                                     const PodInputs& inputs, const VolumeTexts& texts) {
  EnvironmentBuilder builder(pod, container, node, pod_ips, inputs, texts);
  builder.AddImage(image_env);
  RETURN_IF_ERROR(builder.AddServices());
  for (const corev1::EnvFromSource& from : container.envfrom()) {
    RETURN_IF_ERROR(builder.AddFrom(from));
  }
  for (const corev1::EnvVar& variable : container.env()) {
    RETURN_IF_ERROR(builder.AddVariable(variable));
  }
  return builder.Take();
}

}  // namespace holdfast::agent
