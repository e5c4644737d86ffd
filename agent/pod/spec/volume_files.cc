// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/volume_files.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "agent/kube/volume_kinds.h"
#include "agent/objects/references.h"
#include "agent/pod/spec/downward.h"
#include "agent/pod/spec/input_values.h"
#include "agent/volume/set_up_failed.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

constexpr int32_t kDefaultMode = 0644;
constexpr mode_t kTokenMode = 0600;

using Items = google::protobuf::RepeatedPtrField<corev1::KeyToPath>;
using DownwardItems = google::protobuf::RepeatedPtrField<corev1::DownwardAPIVolumeFile>;
using Files = std::map<std::string, VolumeFile>;

template <class Source>
mode_t DefaultMode(const Source& source) {
  return static_cast<mode_t>(source.has_defaultmode() ? source.defaultmode() : kDefaultMode);
}

template <class Item>
mode_t ModeOf(const Item& item, mode_t otherwise) {
  return item.has_mode() ? static_cast<mode_t>(item.mode()) : otherwise;
}

// The one user that all containers run as, if the pod says so.
std::optional<uid_t> OnlyUser(const corev1::PodSpec& spec) {
  std::optional<int64_t> user;
  for (const auto* list : {&spec.initcontainers(), &spec.containers()}) {
    for (const corev1::Container& container : *list) {
      const auto& own = container.securitycontext();
      const auto& pods = spec.securitycontext();
      if (!own.has_runasuser() && !pods.has_runasuser()) return std::nullopt;
      const int64_t wanted = own.has_runasuser() ? own.runasuser() : pods.runasuser();
      if (user && *user != wanted) return std::nullopt;
      user = wanted;
    }
  }
  if (!user) return std::nullopt;
  return static_cast<uid_t>(*user);
}

class VolumeFilesBuilder {
 public:
  VolumeFilesBuilder(const corev1::Pod& pod, const PodInputs& inputs, const NodeEnvironment& node)
      : pod_(pod), inputs_(inputs), node_(node), uid_(pod.metadata().uid()) {
    if (pod.spec().securitycontext().has_fsgroup()) {
      group_ = static_cast<gid_t>(pod.spec().securitycontext().fsgroup());
    }
    user_ = OnlyUser(pod.spec());
  }

  Result<VolumeContent> Content(const corev1::VolumeSource& source) {
    VolumeContent content;
    content.group = group_;
    stands_in_ = false;
    RETURN_IF_ERROR(Add(source, content.files));
    content.stands_in = stands_in_;
    return content;
  }

 private:
  Result<void> Add(const corev1::VolumeSource& source, Files& files) {
    if (source.has_configmap()) {
      const auto& wanted = source.configmap();
      return AddObject({ObjectKind::kConfigMap, Namespace(), wanted.localobjectreference().name()},
                       wanted.items(), DefaultMode(wanted), wanted.optional(), files);
    }
    if (source.has_secret()) {
      const auto& wanted = source.secret();
      return AddObject({ObjectKind::kSecret, Namespace(), wanted.secretname()}, wanted.items(),
                       DefaultMode(wanted), wanted.optional(), files);
    }
    if (source.has_downwardapi()) {
      return AddDownward(source.downwardapi().items(), DefaultMode(source.downwardapi()), files);
    }
    return AddProjected(source.projected(), files);
  }

  const std::string& Namespace() const { return pod_.metadata().namespace_(); }

  Result<void> AddObject(const ObjectRef& ref, const Items& items, mode_t mode, bool optional,
                         Files& files) {
    stands_in_ = stands_in_ || inputs_.Object(uid_, ref).kept;
    ASSIGN_OR_RETURN(const auto data, ObjectOf(inputs_, uid_, ref, optional));
    if (data == nullptr) return {};
    const auto bytes = [&data](const std::string& value) {
      return std::shared_ptr<const std::string>(data, &value);
    };
    if (items.empty()) {
      for (const auto& [key, value] : data->values) files[key] = {bytes(value), mode, {}};
      return {};
    }
    for (const corev1::KeyToPath& item : items) {
      const auto value = data->values.find(item.key());
      if (value != data->values.end()) {
        files[item.path()] = {bytes(value->second), ModeOf(item, mode), {}};
      } else if (!optional) {
        return NoKey(ref, item.key());
      }
    }
    return {};
  }

  static Error NoKey(const ObjectRef& ref, const std::string& key) {
    return NotFound(StrCat(ref.kind == ObjectKind::kSecret
                               ? "references non-existent secret key: "
                               : "configmap references non-existent config key: ",
                           key));
  }

  Result<void> AddDownward(const DownwardItems& items, mode_t mode, Files& files) const {
    std::vector<Error> errors;
    for (const corev1::DownwardAPIVolumeFile& item : items) {
      auto text = item.has_resourcefieldref()
                      ? DownwardResource(pod_, nullptr, item.resourcefieldref(), node_)
                      : DownwardField(pod_, item.fieldref().fieldpath(), node_, {});
      if (!text) {
        errors.push_back(std::move(text.error()));
        continue;
      }
      files[item.path()] = {
          std::make_shared<const std::string>(std::move(*text)), ModeOf(item, mode), {}};
    }
    return AllOf(errors);
  }

  Result<void> AddProjected(const corev1::ProjectedVolumeSource& source, Files& files) {
    std::vector<Error> errors;
    for (const corev1::VolumeProjection& part : source.sources()) {
      if (auto added = AddPart(part, DefaultMode(source), files); !added) {
        errors.push_back(std::move(added.error()));
      }
    }
    return AllOf(errors);
  }

  Result<void> AddPart(const corev1::VolumeProjection& part, mode_t mode, Files& files) {
    if (part.has_configmap()) {
      const auto& wanted = part.configmap();
      return AddObject({ObjectKind::kConfigMap, Namespace(), wanted.localobjectreference().name()},
                       wanted.items(), mode, wanted.optional(), files);
    }
    if (part.has_secret()) {
      const auto& wanted = part.secret();
      return AddObject({ObjectKind::kSecret, Namespace(), wanted.localobjectreference().name()},
                       wanted.items(), mode, wanted.optional(), files);
    }
    if (part.has_downwardapi()) return AddDownward(part.downwardapi().items(), mode, files);
    if (part.has_serviceaccounttoken()) return AddToken(part.serviceaccounttoken(), mode, files);
    if (part.has_clustertrustbundle()) {
      if (part.clustertrustbundle().optional()) return {};
      return Unsupported("clusterTrustBundle sources are not supported");
    }
    if (part.has_podcertificate()) return Unsupported("podCertificate sources are not supported");
    return {};
  }

  // Whoever may read it: the only user, or the group, which gets its right with the volume's.
  Result<void> AddToken(const corev1::ServiceAccountTokenProjection& wanted, mode_t mode,
                        Files& files) {
    const TokenRef ref = TokenRefOf(wanted.audience(), wanted.expirationseconds());
    const TokenInput input = inputs_.Token(uid_, ref.audience, ref.life);
    if (input.state == InputState::kAbsent) {
      stands_in_ = true;
      return {};
    }
    if (input.state != InputState::kPresent) {
      return Unavailable(input.why.empty() ? "the token has not been fetched yet" : input.why);
    }
    files[wanted.path()] = {input.token, user_ || group_ ? kTokenMode : mode, user_};
    return {};
  }

  // As a kubelet puts several together: each text once.
  static Result<void> AllOf(std::vector<Error>& errors) {
    if (errors.empty()) return {};
    if (errors.size() == 1) return std::move(errors.front());
    std::set<std::string> seen;
    std::string text;
    for (const Error& error : errors) {
      if (!seen.insert(error.message()).second) continue;
      text += StrCat(text.empty() ? "" : ", ", error.message());
    }
    return Error(errors.front().code(), seen.size() == 1 ? text : StrCat("[", text, "]"));
  }

  const corev1::Pod& pod_;
  const PodInputs& inputs_;
  const NodeEnvironment& node_;
  const PodUid uid_;
  std::optional<gid_t> group_;
  std::optional<uid_t> user_;
  bool stands_in_ = false;  // of the volume that is being built
};

}  // namespace

BuiltVolumes BuildVolumeContents(const corev1::Pod& pod, const PodInputs& inputs,
                                 const NodeEnvironment& node) {
  VolumeFilesBuilder builder(pod, inputs, node);
  BuiltVolumes built;
  for (const corev1::Volume& volume : pod.spec().volumes()) {
    if (!kube::HasWrittenFiles(volume.volumesource())) continue;
    auto content = builder.Content(volume.volumesource());
    if (content) {
      built.contents[volume.name()] = std::move(*content);
    } else {
      built.errors.push_back(SetUpFailed(volume.name(), std::move(content.error())));
    }
  }
  return built;
}

}  // namespace holdfast::agent
