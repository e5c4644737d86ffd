// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/scheme.h"

#include <span>

#include "k8s/apps/v1/deployment.pb.h"
#include "k8s/authentication/v1/token.pb.h"
#include "k8s/authorization/v1/access_review.pb.h"
#include "k8s/certificates/v1/certificate_signing_request.pb.h"
#include "k8s/coordination/v1/lease.pb.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/event.pb.h"
#include "k8s/core/v1/namespace.pb.h"
#include "k8s/core/v1/node.pb.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"
#include "k8s/meta/v1/options.pb.h"
#include "k8s/meta/v1/status.pb.h"
#include "k8s/networking/v1/service_cidr.pb.h"
#include "k8s/node/v1/runtime_class.pb.h"
#include "k8s/policy/v1/eviction.pb.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent::kube {
namespace {

namespace authenticationv1 = ::k8s::io::api::authentication::v1;
namespace authorizationv1 = ::k8s::io::api::authorization::v1;
namespace certificatesv1 = ::k8s::io::api::certificates::v1;
namespace coordinationv1 = ::k8s::io::api::coordination::v1;
namespace networkingv1 = ::k8s::io::api::networking::v1;
namespace nodev1 = ::k8s::io::api::node::v1;
namespace policyv1 = ::k8s::io::api::policy::v1;
namespace storagev1 = ::k8s::io::api::storage::v1;
using google::protobuf::Message;

struct Entry {
  std::string_view api_version;
  std::string_view kind;
  const Message* prototype;
};

template <class T>
Entry Make(std::string_view api_version, std::string_view kind) {
  return {api_version, kind, &T::default_instance()};
}

std::span<const Entry> Entries() {
  static const Entry kEntries[] = {
      Make<corev1::Pod>("v1", "Pod"),
      Make<corev1::PodTemplate>("v1", "PodTemplate"),
      Make<corev1::Service>("v1", "Service"),
      Make<corev1::ConfigMap>("v1", "ConfigMap"),
      Make<corev1::Secret>("v1", "Secret"),
      Make<corev1::Node>("v1", "Node"),
      Make<corev1::Event>("v1", "Event"),
      Make<corev1::Namespace>("v1", "Namespace"),
      Make<corev1::ServiceAccount>("v1", "ServiceAccount"),
      Make<appsv1::Deployment>("apps/v1", "Deployment"),
      Make<discoveryv1::EndpointSlice>("discovery.k8s.io/v1", "EndpointSlice"),
      Make<coordinationv1::Lease>("coordination.k8s.io/v1", "Lease"),
      Make<corev1::PodList>("v1", "PodList"),
      Make<corev1::PodTemplateList>("v1", "PodTemplateList"),
      Make<corev1::ServiceList>("v1", "ServiceList"),
      Make<corev1::ConfigMapList>("v1", "ConfigMapList"),
      Make<corev1::SecretList>("v1", "SecretList"),
      Make<corev1::NodeList>("v1", "NodeList"),
      Make<corev1::EventList>("v1", "EventList"),
      Make<corev1::NamespaceList>("v1", "NamespaceList"),
      Make<corev1::ServiceAccountList>("v1", "ServiceAccountList"),
      Make<appsv1::DeploymentList>("apps/v1", "DeploymentList"),
      Make<discoveryv1::EndpointSliceList>("discovery.k8s.io/v1", "EndpointSliceList"),
      Make<coordinationv1::LeaseList>("coordination.k8s.io/v1", "LeaseList"),
      Make<certificatesv1::CertificateSigningRequest>("certificates.k8s.io/v1",
                                                      "CertificateSigningRequest"),
      Make<certificatesv1::CertificateSigningRequestList>("certificates.k8s.io/v1",
                                                          "CertificateSigningRequestList"),
      Make<authenticationv1::TokenRequest>("authentication.k8s.io/v1", "TokenRequest"),
      Make<authenticationv1::TokenReview>("authentication.k8s.io/v1", "TokenReview"),
      Make<authorizationv1::SubjectAccessReview>("authorization.k8s.io/v1", "SubjectAccessReview"),
      Make<authorizationv1::SelfSubjectAccessReview>("authorization.k8s.io/v1",
                                                     "SelfSubjectAccessReview"),
      Make<storagev1::CSINode>("storage.k8s.io/v1", "CSINode"),
      Make<storagev1::CSINodeList>("storage.k8s.io/v1", "CSINodeList"),
      Make<storagev1::CSIDriver>("storage.k8s.io/v1", "CSIDriver"),
      Make<storagev1::CSIDriverList>("storage.k8s.io/v1", "CSIDriverList"),
      Make<storagev1::VolumeAttachment>("storage.k8s.io/v1", "VolumeAttachment"),
      Make<storagev1::VolumeAttachmentList>("storage.k8s.io/v1", "VolumeAttachmentList"),
      Make<nodev1::RuntimeClass>("node.k8s.io/v1", "RuntimeClass"),
      Make<nodev1::RuntimeClassList>("node.k8s.io/v1", "RuntimeClassList"),
      Make<policyv1::Eviction>("policy/v1", "Eviction"),
      Make<networkingv1::ServiceCIDR>("networking.k8s.io/v1", "ServiceCIDR"),
      Make<networkingv1::ServiceCIDRList>("networking.k8s.io/v1", "ServiceCIDRList"),
      Make<corev1::PersistentVolume>("v1", "PersistentVolume"),
      Make<corev1::PersistentVolumeList>("v1", "PersistentVolumeList"),
      Make<corev1::PersistentVolumeClaim>("v1", "PersistentVolumeClaim"),
      Make<corev1::PersistentVolumeClaimList>("v1", "PersistentVolumeClaimList"),
      Make<metav1::Status>("v1", "Status"),
      Make<metav1::WatchEvent>("v1", "WatchEvent"),
      Make<metav1::DeleteOptions>("v1", "DeleteOptions"),
      Make<metav1::GetOptions>("v1", "GetOptions"),
      Make<metav1::ListOptions>("v1", "ListOptions"),
      Make<metav1::CreateOptions>("v1", "CreateOptions"),
      Make<metav1::UpdateOptions>("v1", "UpdateOptions"),
      Make<metav1::PatchOptions>("v1", "PatchOptions"),
  };
  return kEntries;
}

// What somebody may apply or get; the rest are lists, what only an API server and nodes exchange,
// replies and options.
constexpr size_t kObjectKinds = 12;

}  // namespace

void ObjectDeleter::operator()(Message* object) const { delete object; }

ObjectPtr NewObject(const TypeMeta& type) {
  for (const Entry& entry : Entries()) {
    if (entry.kind == type.kind && entry.api_version == type.api_version) {
      return ObjectPtr(entry.prototype->New());
    }
  }
  return nullptr;
}

TypeMeta TypeMetaOf(const Message& object) {
  for (const Entry& entry : Entries()) {
    if (entry.prototype->GetDescriptor() == object.GetDescriptor()) {
      return {std::string(entry.api_version), std::string(entry.kind)};
    }
  }
  return {};
}

std::vector<TypeMeta> KnownKinds() {
  std::vector<TypeMeta> kinds;
  for (const Entry& entry : Entries().first(kObjectKinds)) {
    kinds.push_back({std::string(entry.api_version), std::string(entry.kind)});
  }
  return kinds;
}

}  // namespace holdfast::agent::kube
