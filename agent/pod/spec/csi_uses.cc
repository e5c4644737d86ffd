// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/csi_uses.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "agent/kube/csi_names.h"
#include "agent/kube/times.h"
#include "agent/objects/references.h"
#include "agent/pod/spec/input_values.h"
#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"
#include "k8s/storage/v1/csi.pb.h"

namespace holdfast::agent {
namespace {

namespace corev1 = ::k8s::io::api::core::v1;
namespace storagev1 = ::k8s::io::api::storage::v1;

class CsiUseBuilder {
 public:
  CsiUseBuilder(const corev1::Pod& pod, const PodInputs& inputs, const std::string& node_name,
                PersistentVolume& volume)
      : pod_(pod),
        inputs_(inputs),
        node_name_(node_name),
        volume_(volume),
        source_(volume.spec.persistentvolumesource().csi()) {}

  Result<void> Fill() {
    ASSIGN_OR_RETURN(driver_, Input({ObjectKind::kCsiDriver, "", source_.driver()}));
    RETURN_IF_ERROR(CheckDriver());
    const auto& spec = Driver().spec();
    volume_.csi.fs_group_policy =
        spec.has_fsgrouppolicy() ? spec.fsgrouppolicy() : "ReadWriteOnceWithFSType";
    volume_.csi.takes_selinux_label = spec.selinuxmount();
    if (spec.podinfoonmount()) AddPodInfo();
    volume_.csi.republished = spec.requiresrepublish();
    RETURN_IF_ERROR(AddSecrets());
    RETURN_IF_ERROR(WithContext(
        AddTokens(),
        "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes"));
    return volume_.csi.ephemeral ? Result<void>() : AddAttachment();
  }

 private:
  // Of a plugin without one: nothing is set.
  const storagev1::CSIDriver& Driver() const {
    const auto* const driver = ObjectIn<storagev1::CSIDriver>(driver_);
    return driver == nullptr ? storagev1::CSIDriver::default_instance() : *driver;
  }

  // Null: it does not exist.
  Result<std::shared_ptr<const ObjectData>> Input(const ObjectRef& ref) const {
    return ObjectOf(inputs_, PodUid(pod_.metadata().uid()), ref, true);
  }

  Result<void> CheckDriver() const {
    const auto& spec = Driver().spec();
    const std::string mode = volume_.csi.ephemeral ? "Ephemeral" : "Persistent";
    const auto& modes = spec.volumelifecyclemodes();
    if (driver_ == nullptr && volume_.csi.ephemeral) {
      return Unsupported(StrCat("volume mode \"", mode, "\" not supported by driver ",
                                source_.driver(), " (no CSIDriver object)"));
    }
    // Without any it is for persistent volumes only.
    const bool is_offered =
        modes.empty() ? !volume_.csi.ephemeral : std::ranges::find(modes, mode) != modes.end();
    if (driver_ != nullptr && !is_offered) {
      return Unsupported(
          StrCat("volume mode \"", mode, "\" not supported by driver ", source_.driver()));
    }
    return {};
  }

  void AddPodInfo() {
    const auto& meta = pod_.metadata();
    volume_.csi.pod_info = {
        {"csi.storage.k8s.io/pod.name", meta.name()},
        {"csi.storage.k8s.io/pod.namespace", meta.namespace_()},
        {"csi.storage.k8s.io/pod.uid", meta.uid()},
        {"csi.storage.k8s.io/serviceAccount.name", pod_.spec().serviceaccountname()},
        {"csi.storage.k8s.io/ephemeral", volume_.csi.ephemeral ? "true" : "false"}};
  }

  Result<void> AddSecrets() {
    if (source_.has_nodestagesecretref()) {
      ASSIGN_OR_RETURN(volume_.csi.stage_secrets,
                       Secret("NodeStageSecretRef", source_.nodestagesecretref()));
    }
    if (source_.has_nodepublishsecretref()) {
      ASSIGN_OR_RETURN(volume_.csi.publish_secrets,
                       Secret("NodePublishSecretRef", source_.nodepublishsecretref()));
    }
    return {};
  }

  Result<std::shared_ptr<const std::map<std::string, std::string>>> Secret(
      const char* what, const corev1::SecretReference& ref) const {
    auto data = ObjectOf(inputs_, PodUid(pod_.metadata().uid()),
                         {ObjectKind::kSecret, ref.namespace_(), ref.name()}, false);
    if (!data) {
      return std::move(data.error())
          .Wrap(StrCat("fetching ", what, " ", ref.namespace_(), "/", ref.name(), " failed"));
    }
    return std::shared_ptr<const std::map<std::string, std::string>>(*data, &(*data)->values);
  }

  // By audience, in the form of a TokenRequest's status.
  Result<void> AddTokens() {
    if (IsBlock(volume_)) return {};  // as by a kubelet
    const auto& spec = Driver().spec();
    nlohmann::json tokens = nlohmann::json::object();
    for (const auto& wanted : spec.tokenrequests()) {
      const TokenRef ref = TokenRefOf(wanted.audience(), wanted.expirationseconds());
      const TokenInput input = inputs_.Token(PodUid(pod_.metadata().uid()), ref.audience, ref.life);
      if (input.token == nullptr) {
        return Unavailable(input.why.empty() ? "it has not been read yet" : input.why);
      }
      tokens[ref.audience] = {{"token", *input.token},
                              {"expirationTimestamp", kube::FormatRfc3339(input.expires)}};
    }
    if (tokens.empty()) return {};
    volume_.csi.tokens = tokens.dump();
    volume_.csi.tokens_are_secret = spec.serviceaccounttokeninsecrets();
    return {};
  }

  Result<void> AddAttachment() {
    if (!NeedsAttachment(driver_)) return {};
    const std::string name =
        kube::AttachmentName(source_.driver(), source_.volumehandle(), node_name_);
    ASSIGN_OR_RETURN(const auto data, Input({ObjectKind::kAttachment, "", name}));
    const auto* const attachment = ObjectIn<storagev1::VolumeAttachment>(data);
    if (attachment == nullptr || !attachment->status().attached() ||
        attachment->metadata().has_deletiontimestamp()) {
      return Unavailable(StrCat("Volume not attached according to node status for volume \"",
                                volume_.name, "\" (UniqueName: \"",
                                kube::UniqueVolumeName(source_.driver(), source_.volumehandle()),
                                "\")"));
    }
    const auto& metadata = attachment->status().attachmentmetadata();
    volume_.csi.publish_context.insert(metadata.begin(), metadata.end());
    return {};
  }

  const corev1::Pod& pod_;
  const PodInputs& inputs_;
  const std::string& node_name_;
  PersistentVolume& volume_;
  const corev1::CSIPersistentVolumeSource& source_;
  std::shared_ptr<const ObjectData> driver_;
};

}  // namespace

Result<void> FillCsiUse(const corev1::Pod& pod, const PodInputs& inputs,
                        const std::string& node_name, PersistentVolume& volume) {
  auto filled = CsiUseBuilder(pod, inputs, node_name, volume).Fill();
  if (filled) return {};
  const char* const step = IsBlock(volume) ? kBlockSteps.stage : kFileSystemSteps.publish;
  return StepFailed(step, volume.name, std::move(filled.error()));
}

PersistentVolume EphemeralCsiVolume(const corev1::Pod& pod, const corev1::Volume& volume) {
  const auto& named = volume.volumesource().csi();
  PersistentVolume out;
  out.name = volume.name();
  out.read_only = named.readonly();
  out.csi.ephemeral = true;
  auto& source = *out.spec.mutable_persistentvolumesource()->mutable_csi();
  source.set_driver(named.driver());
  source.set_volumehandle(kube::EphemeralHandle(pod.metadata().uid(), volume.name()));
  source.set_fstype(named.fstype());
  source.mutable_volumeattributes()->insert(named.volumeattributes().begin(),
                                            named.volumeattributes().end());
  if (named.has_nodepublishsecretref()) {
    auto& ref = *source.mutable_nodepublishsecretref();
    ref.set_name(named.nodepublishsecretref().name());
    ref.set_namespace_(pod.metadata().namespace_());
  }
  return out;
}

}  // namespace holdfast::agent
