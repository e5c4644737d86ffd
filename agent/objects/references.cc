// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/references.h"

#include "agent/kube/containers_of.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {
namespace {

constexpr std::chrono::seconds kDefaultLife{3600};

class Collector {
 public:
  explicit Collector(const corev1::Pod& pod) : namespace_(pod.metadata().namespace_()) {}

  void Environment(bool secret, const std::string& name, bool optional) {
    ObjectUse* use = UseOf(secret, name);
    if (use == nullptr) return;
    use->in_environment = true;
    use->required = use->required || !optional;
  }
  void Volume(bool secret, const std::string& name) {
    if (auto* use = UseOf(secret, name)) use->in_volume = true;
  }

  void VolumeOf(const corev1::VolumeSource& source) {
    if (source.has_configmap()) Volume(false, source.configmap().localobjectreference().name());
    if (source.has_secret()) Volume(true, source.secret().secretname());
    for (const auto& part : source.projected().sources()) Projection(part);
  }

  // A source of an environment that names a Secret or ConfigMap.
  template <class Source>
  void SourceOf(bool secret, const Source& source) {
    Environment(secret, source.localobjectreference().name(), source.optional());
  }

  template <class Container>
  void ContainerOf(const Container& container) {
    for (const auto& from : container.envfrom()) {
      if (from.has_configmapref()) SourceOf(false, from.configmapref());
      if (from.has_secretref()) SourceOf(true, from.secretref());
    }
    for (const auto& variable : container.env()) {
      const auto& source = variable.valuefrom();
      if (source.has_configmapkeyref()) SourceOf(false, source.configmapkeyref());
      if (source.has_secretkeyref()) SourceOf(true, source.secretkeyref());
    }
  }

  PodReferences out;

 private:
  // A name that is missing (the server allows that, for old objects) refers to nothing.
  ObjectUse* UseOf(bool secret, const std::string& name) {
    return name.empty() ? nullptr : &out.objects[{secret, namespace_, name}];
  }

  void Projection(const corev1::VolumeProjection& part) {
    if (part.has_configmap()) Volume(false, part.configmap().localobjectreference().name());
    if (part.has_secret()) Volume(true, part.secret().localobjectreference().name());
    if (part.has_serviceaccounttoken()) {
      const auto& token = part.serviceaccounttoken();
      out.tokens.insert(TokenRefOf(token.audience(), token.expirationseconds()));
    }
  }

  const std::string namespace_;
};

}  // namespace

PodReferences ReferencesOf(const corev1::Pod& pod) {
  Collector collector(pod);
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    collector.VolumeOf(volume.volumesource());
  }
  for (const auto& secret : pod.spec().imagepullsecrets()) {
    collector.Environment(true, secret.name(), true);  // a pull is tried without it
  }
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList /*list*/, const auto& container) {
    collector.ContainerOf(container);
  });
  return std::move(collector.out);
}

TokenRef TokenRefOf(const std::string& audience, int64_t expiration_seconds) {
  return {audience,
          expiration_seconds > 0 ? std::chrono::seconds(expiration_seconds) : kDefaultLife};
}

std::string NotFoundText(const ObjectRef& ref) {
  return StrCat(ref.secret ? "secret" : "configmap", " \"", ref.name, "\" not found");
}

}  // namespace holdfast::agent
