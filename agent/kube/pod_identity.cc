// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/pod_identity.h"

#include "agent/kube/codec.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent::kube {
namespace {

bool ToleratesEveryNoExecute(const corev1::PodSpec& spec) {
  for (const corev1::Toleration& toleration : spec.tolerations()) {
    if (toleration.key().empty() && toleration.operator_() == "Exists" &&
        (toleration.effect().empty() || toleration.effect() == "NoExecute")) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string HashFnv128a(std::string_view bytes) {
  __extension__ using Wide = unsigned __int128;
  // RFC 9923: offset basis and prime (2^88 + 2^8 + 0x3b) for 128 bits.
  constexpr Wide kPrime = (Wide{1} << 88) + 0x13B;
  Wide hash = (Wide{0x6C62272E07BB0142} << 64) | 0x62B821756295C58D;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (int shift = 124; shift >= 0; shift -= 4) text += kHex[static_cast<int>(hash >> shift) & 15];
  return text;
}

std::string PodUidHash(const corev1::Pod& pod, std::string_view node_name,
                       std::string_view origin) {
  return HashFnv128a(StrCat(EncodeJson(pod), "host:", node_name, origin));
}

void MakeStaticPod(corev1::Pod* pod, std::string_view node_name, std::string_view file) {
  metav1::ObjectMeta& metadata = *pod->mutable_metadata();
  if (metadata.namespace_().empty()) metadata.set_namespace_("default");
  if (metadata.uid().empty()) metadata.set_uid(PodUidHash(*pod, node_name, StrCat("file:", file)));
  const std::string suffix = "-" + ToLower(node_name);
  metadata.set_name(metadata.name() + suffix);
  pod->mutable_spec()->set_nodename(std::string(node_name));
  (*metadata.mutable_annotations())[kConfigHashAnnotation] = metadata.uid();
  (*metadata.mutable_annotations())[kConfigSourceAnnotation] = "file";
  if (!ToleratesEveryNoExecute(pod->spec())) {
    corev1::Toleration& toleration = *pod->mutable_spec()->add_tolerations();
    toleration.set_operator_("Exists");
    toleration.set_effect("NoExecute");
  }
}

}  // namespace holdfast::agent::kube
