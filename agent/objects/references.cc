// SPDX-License-Identifier: Apache-2.0
#include "agent/objects/references.h"

#include "agent/kube/claim_resize.h"
#include "agent/kube/containers_of.h"
#include "agent/kube/csi_names.h"
#include "agent/kube/volume_kinds.h"
#include "agent/objects/object_kinds.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;

constexpr std::chrono::seconds kDefaultLife{3600};

class Collector {
 public:
  Collector(const corev1::Pod& pod, const KnownObject& known)
      : pod_(pod), namespace_(pod.metadata().namespace_()), known_(known) {}

  void Environment(ObjectKind kind, const std::string& name, bool optional) {
    ObjectUse* use = UseOf(kind, name);
    if (use == nullptr) return;
    use->in_environment = true;
    use->required = use->required || !optional;
  }
  void Volume(ObjectKind kind, const std::string& name) {
    if (auto* use = UseOf(kind, name)) use->in_volume = true;
  }

  void ClassOfRuntime(const std::string& name) {
    if (!name.empty()) out.objects[{ObjectKind::kRuntimeClass, "", name}].by_sandbox = true;
  }

  void VolumeOf(const corev1::Volume& volume) {
    const corev1::VolumeSource& source = volume.volumesource();
    if (source.has_configmap()) {
      Volume(ObjectKind::kConfigMap, source.configmap().localobjectreference().name());
    }
    if (source.has_secret()) Volume(ObjectKind::kSecret, source.secret().secretname());
    for (const auto& part : source.projected().sources()) Projection(part);
    if (const auto claim = kube::ClaimNameOf(pod_, volume); !claim.empty()) Claim(claim);
    if (source.has_csi()) {
      Driver(source.csi().driver());
      Volume(ObjectKind::kSecret, source.csi().nodepublishsecretref().name());
    }
  }

  // A source of an environment that names a Secret or ConfigMap.
  template <class Source>
  void SourceOf(ObjectKind kind, const Source& source) {
    Environment(kind, source.localobjectreference().name(), source.optional());
  }

  template <class Container>
  void ContainerOf(const Container& container) {
    for (const auto& from : container.envfrom()) {
      if (from.has_configmapref()) SourceOf(ObjectKind::kConfigMap, from.configmapref());
      if (from.has_secretref()) SourceOf(ObjectKind::kSecret, from.secretref());
    }
    for (const auto& variable : container.env()) {
      const auto& source = variable.valuefrom();
      if (source.has_configmapkeyref()) {
        SourceOf(ObjectKind::kConfigMap, source.configmapkeyref());
      }
      if (source.has_secretkeyref()) SourceOf(ObjectKind::kSecret, source.secretkeyref());
    }
  }

  PodReferences out;

 private:
  // A name that is missing (the server allows that, for old objects) refers to nothing.
  ObjectUse* UseOf(ObjectKind kind, const std::string& name) {
    return name.empty() ? nullptr : &out.objects[{kind, namespace_, name}];
  }

  void Claim(const std::string& name) {
    const ObjectRef ref{ObjectKind::kClaim, namespace_, name};
    out.objects[ref].in_volume = true;
    const auto data = known_(ref);
    const auto* const claim = ObjectIn<corev1::PersistentVolumeClaim>(data);
    if (claim == nullptr || claim->spec().volumename().empty()) return;
    const bool grows = kube::AwaitsNodeResize(*claim);
    out.revisited = out.revisited || grows;
    const ObjectRef bound{ObjectKind::kVolume, "", claim->spec().volumename()};
    out.objects[bound].in_volume = true;
    const auto found = known_(bound);
    const auto* const volume = ObjectIn<corev1::PersistentVolume>(found);
    if (volume != nullptr && volume->spec().persistentvolumesource().has_csi()) {
      PluginOf(volume->spec().persistentvolumesource().csi(), grows);
    }
  }

  void PluginOf(const corev1::CSIPersistentVolumeSource& source, bool grows) {
    const auto secret = [this](const corev1::SecretReference& ref) {
      out.objects[{ObjectKind::kSecret, ref.namespace_(), ref.name()}].in_volume = true;
    };
    if (source.has_nodestagesecretref()) secret(source.nodestagesecretref());
    if (source.has_nodepublishsecretref()) secret(source.nodepublishsecretref());
    if (grows && source.has_nodeexpandsecretref()) secret(source.nodeexpandsecretref());
    if (!NeedsAttachment(Driver(source.driver()))) return;
    const ObjectRef attachment{
        ObjectKind::kAttachment, "",
        kube::AttachmentName(source.driver(), source.volumehandle(), pod_.spec().nodename())};
    out.objects[attachment].in_volume = true;
  }

  std::shared_ptr<const ObjectData> Driver(const std::string& name) {
    const ObjectRef ref{ObjectKind::kCsiDriver, "", name};
    out.objects[ref].in_volume = true;
    auto data = known_(ref);
    if (const auto* const driver = ObjectIn<storagev1::CSIDriver>(data)) WishesOf(driver->spec());
    return data;
  }

  void WishesOf(const storagev1::CSIDriverSpec& driver) {
    out.revisited = out.revisited || driver.requiresrepublish();
    for (const auto& token : driver.tokenrequests()) {
      out.tokens.insert(TokenRefOf(token.audience(), token.expirationseconds()));
    }
  }

  void Projection(const corev1::VolumeProjection& part) {
    if (part.has_configmap()) {
      Volume(ObjectKind::kConfigMap, part.configmap().localobjectreference().name());
    }
    if (part.has_secret()) {
      Volume(ObjectKind::kSecret, part.secret().localobjectreference().name());
    }
    if (part.has_serviceaccounttoken()) {
      const auto& token = part.serviceaccounttoken();
      out.tokens.insert(TokenRefOf(token.audience(), token.expirationseconds()));
    }
  }

  const corev1::Pod& pod_;
  const std::string namespace_;
  const KnownObject& known_;
};

}  // namespace

PodReferences ReferencesOf(const corev1::Pod& pod, const KnownObject& known) {
  Collector collector(pod, known);
  collector.ClassOfRuntime(pod.spec().runtimeclassname());
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    collector.VolumeOf(volume);
  }
  for (const auto& secret : pod.spec().imagepullsecrets()) {
    collector.Environment(ObjectKind::kSecret, secret.name(), true);  // a pull is tried without it
  }
  kube::ForEachContainer(pod.spec(), [&](kube::ContainerList /*list*/, const auto& container) {
    collector.ContainerOf(container);
  });
  return std::move(collector.out);
}

PodReferences ReferencesOf(const corev1::Pod& pod, const PodInputs& inputs) {
  const PodUid uid(pod.metadata().uid());
  return ReferencesOf(pod, [&](const ObjectRef& ref) { return inputs.Object(uid, ref).data; });
}

TokenRef TokenRefOf(const std::string& audience, int64_t expiration_seconds) {
  return {audience,
          expiration_seconds > 0 ? std::chrono::seconds(expiration_seconds) : kDefaultLife};
}

std::string NotFoundText(const ObjectRef& ref) { return NameOf(ref) + " not found"; }

std::string NameOf(const ObjectRef& ref) {
  return StrCat(RowOf(ref.kind).noun, " \"", ref.name, "\"");
}

bool NeedsAttachment(const std::shared_ptr<const ObjectData>& driver) {
  const auto* const object = ObjectIn<storagev1::CSIDriver>(driver);
  return object == nullptr || !object->spec().has_attachrequired() ||
         object->spec().attachrequired();
}

}  // namespace holdfast::agent
