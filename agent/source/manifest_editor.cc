// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_editor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "agent/kube/codec.h"
#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/pod_identity.h"
#include "agent/kube/validation/validate.h"
#include "agent/source/manifest_file.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

// A directory on another machine's disk changes without an event; what is known of it is no older than this.
constexpr std::chrono::seconds kRelist{20};

constexpr std::string_view kMarker =
    "# Written by holdctl apply. Without this line the file is yours.\n";

using Planned = ManifestEditor::Planned;

template <class Object>
ObjectIdentity IdentityOf(std::string kind, const Object& object) {
  const auto& meta = object.metadata();
  return {std::move(kind), meta.namespace_().empty() ? "default" : meta.namespace_(), meta.name()};
}

// Nothing for a kind that is not run from a manifest file.
std::optional<ObjectIdentity> IdentityOf(const kube::ManifestObject& object) {
  const std::string& kind = object.type.kind;
  if (const auto* pod = object.As<corev1::Pod>()) return IdentityOf(kind, *pod);
  if (const auto* service = object.As<corev1::Service>()) return IdentityOf(kind, *service);
  if (const auto* slice = object.As<discoveryv1::EndpointSlice>()) return IdentityOf(kind, *slice);
  if (const auto* map = object.As<corev1::ConfigMap>()) return IdentityOf(kind, *map);
  if (const auto* secret = object.As<corev1::Secret>()) return IdentityOf(kind, *secret);
  return std::nullopt;
}

// What the object would be refused for; its namespace and defaults are filled in before.
template <class Object>
std::vector<kube::Diagnostic> FaultsOf(const kube::ManifestObject& object,
                                       kube::FieldErrors (*validate)(const Object&)) {
  Object complete = *object.As<Object>();
  if (complete.metadata().namespace_().empty()) {
    complete.mutable_metadata()->set_namespace_("default");
  }
  kube::SetDefaults(&complete);
  return kube::ToDiagnostics(validate(complete), object);
}

template <class Object>
std::vector<kube::Diagnostic> FaultsOfConfig(const kube::ManifestObject& object) {
  Object complete = *object.As<Object>();
  return CompleteConfig(object, &complete);
}

std::vector<kube::Diagnostic> FaultsOf(const kube::ManifestObject& object, const FileRules& rules) {
  if (const auto* pod = object.As<corev1::Pod>()) {
    corev1::Pod complete = *pod;
    return CompletePod(object, rules, &complete);
  }
  if (object.As<corev1::Service>() != nullptr) return FaultsOf(object, kube::ValidateService);
  if (object.As<corev1::ConfigMap>() != nullptr) return FaultsOfConfig<corev1::ConfigMap>(object);
  if (object.As<corev1::Secret>() != nullptr) return FaultsOfConfig<corev1::Secret>(object);
  return FaultsOf(object, kube::ValidateEndpointSlice);
}

// "pods", as in `pods "x" not found`; "" for a kind that no manifest file holds.
std::string ResourceOf(const std::string& kind) {
  if (kind == "Pod") return "pods";
  if (kind == "Service") return "services";
  if (kind == "EndpointSlice") return "endpointslices.discovery.k8s.io";
  if (kind == "ConfigMap") return "configmaps";
  if (kind == "Secret") return "secrets";
  return "";
}

ObjectIdentity IdentityOf(const EditedObject& object) {
  return {object.kind, object.object_namespace, object.name};
}

metav1::ObjectMeta* MetaOf(kube::ManifestObject& object) {
  if (auto* pod = object.As<corev1::Pod>()) return pod->mutable_metadata();
  if (auto* service = object.As<corev1::Service>()) return service->mutable_metadata();
  if (auto* slice = object.As<discoveryv1::EndpointSlice>()) return slice->mutable_metadata();
  if (auto* map = object.As<corev1::ConfigMap>()) return map->mutable_metadata();
  if (auto* secret = object.As<corev1::Secret>()) return secret->mutable_metadata();
  return nullptr;
}

// An object that names no namespace gets `name_space`; a fault when it names another.
std::optional<kube::Diagnostic> GiveNamespace(kube::ManifestObject& object,
                                              const std::string& name_space) {
  metav1::ObjectMeta* meta = MetaOf(object);
  if (meta == nullptr || name_space.empty() || meta->namespace_() == name_space) return {};
  if (meta->namespace_().empty()) {
    meta->set_namespace_(name_space);
    return {};
  }
  return object.At("metadata.namespace",
                   StrCat("the namespace from the provided object \"", meta->namespace_(),
                          "\" does not match the namespace \"", name_space,
                          "\". You must pass '--namespace=", meta->namespace_(),
                          "' to perform this operation."));
}

// Every fault of every document at once; objects only when there is none.
Result<std::vector<Planned>> ReadObjects(const std::string& manifest, const std::string& origin,
                                         const std::string& name_space, const FileRules& rules) {
  kube::Manifest parsed = kube::ReadManifest(origin, manifest, kube::kManifestLimits);
  std::vector<kube::Diagnostic> faults = parsed.diagnostics;
  std::vector<Planned> planned;
  for (kube::ManifestObject& object : parsed.objects) {
    if (auto fault = GiveNamespace(object, name_space)) faults.push_back(std::move(*fault));
    const std::optional<ObjectIdentity> identity = IdentityOf(object);
    if (!identity) {
      faults.push_back(
          object.At("kind", StrCat(object.type.kind, " is not run from a manifest file")));
      continue;
    }
    for (auto& fault : FaultsOf(object, rules)) faults.push_back(std::move(fault));
    Planned next;
    next.object = {identity->kind, identity->object_namespace, identity->name, "",
                   EditOutcome::kCreated};
    next.text = StrCat(kMarker, kube::PrintYaml(*object.object));
    if (const auto* pod = object.As<corev1::Pod>()) next.uid = pod->metadata().uid();
    const auto same = [&](const Planned& other) { return IdentityOf(other.object) == *identity; };
    if (std::any_of(planned.begin(), planned.end(), same)) {
      faults.push_back(object.At(
          "metadata.name", StrCat(ToLower(identity->kind), " ", identity->object_namespace, "/",
                                  identity->name, " appears twice")));
    }
    planned.push_back(std::move(next));
  }
  if (!faults.empty()) {
    std::string text = kube::ToString(faults);
    while (text.ends_with('\n')) text.pop_back();
    return InvalidArgument(std::move(text));
  }
  if (planned.empty()) return InvalidArgument(StrCat(origin, ": holds no object"));
  return planned;
}

// Names hold no "_", so that two objects never share a file. Very long ones are cut, with a hash.
std::string FileFor(const EditedObject& object) {
  constexpr size_t kLongest = 200;  // a temporary name must fit into 255 bytes as well
  std::string stem = StrCat(ToLower(object.kind), "_", object.object_namespace, "_", object.name);
  if (stem.size() > kLongest) {
    stem = StrCat(stem.substr(0, kLongest - 33), "_", kube::HashFnv128a(stem));
  }
  return stem + ".yaml";
}

bool IsOurs(int directory, const std::string& file) {
  const auto content = ReadManifestFile(directory, file);
  return content && content->text.starts_with(kMarker);
}

// What a file defines; nothing when it cannot be read.
std::vector<DefinedObject> ObjectsOf(int directory, const std::string& file) {
  std::vector<DefinedObject> defined;
  const auto content = ReadManifestFile(directory, file);
  if (!content) return defined;
  const bool ours = content->text.starts_with(kMarker);
  for (const kube::ManifestObject& object :
       kube::ReadManifest(file, content->text, kube::kManifestLimits).objects) {
    auto identity = IdentityOf(object);
    if (!identity) continue;
    const auto* pod = object.As<corev1::Pod>();
    defined.push_back({std::move(*identity), file, ours, pod ? pod->metadata().uid() : ""});
  }
  return defined;
}

Error Foreign(const EditedObject& object, const std::string& directory, const std::string& file) {
  return Conflict(StrCat(ToLower(object.kind), " ", object.object_namespace, "/", object.name,
                         " comes from ", directory, "/", file,
                         ", which holdctl did not write: edit or remove that file"));
}

// A ConfigMap or a Secret may say that it never changes.
Result<void> MayFollow(const std::string& file, const std::string& before, const Planned& planned,
                       const FileRules& rules) {
  const FileObjects was = ReadFileObjects(file, before, rules);
  const FileObjects will = ReadFileObjects(file, planned.text, rules);
  if (will.configs.empty()) return {};
  const ConfigObject& now = *will.configs.front();
  const auto old = std::ranges::find_if(
      was.configs, [&](const ConfigObjectPtr& config) { return config->ref == now.ref; });
  if (old == was.configs.end()) return {};
  std::string text;
  for (const kube::FieldError& error : CheckUpdate(**old, now)) {
    text += StrCat(text.empty() ? "" : "\n", "The ", planned.object.kind, " \"",
                   planned.object.name, "\" is invalid: ", error.ToString());
  }
  if (!text.empty()) return InvalidArgument(std::move(text));
  return {};
}

bool IsLink(int directory, const std::string& file) {
  struct stat seen{};
  return ::fstatat(directory, file.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(seen.st_mode);
}

// What it defines besides in another file, or in the name of another pod.
Result<void> CheckNotElsewhere(const Planned& planned, const DefinedObjects& defined,
                               const std::string& path) {
  const ObjectIdentity identity = IdentityOf(planned.object);
  for (const DefinedObject* same : defined.Named(identity)) {
    if (same->file != planned.object.file) return Foreign(planned.object, path, same->file);
  }
  if (planned.uid.empty()) return {};
  for (const DefinedObject* other : defined.WithUid(planned.uid)) {
    if (other->identity == identity) continue;
    return Conflict(StrCat("pod ", planned.object.object_namespace, "/", planned.object.name,
                           ": metadata.uid ", planned.uid, " is already that of pod ",
                           other->identity.object_namespace, "/", other->identity.name, " in ",
                           path, "/", other->file, ": leave it out"));
  }
  return {};
}

// A pod is also found by the name that it has on its node.
const DefinedObject* FindNamed(const DefinedObjects& defined, const ObjectIdentity& identity,
                               const std::string& node) {
  const auto exactly = defined.Named(identity);
  if (!exactly.empty()) return exactly.front();
  const std::string suffix = "-" + ToLower(node);
  if (identity.kind != "Pod" || !identity.name.ends_with(suffix)) return nullptr;
  ObjectIdentity shorter = identity;
  shorter.name.resize(identity.name.size() - suffix.size());
  const auto found = defined.Named(shorter);
  return found.empty() ? nullptr : found.front();
}

}  // namespace

Result<void> ManifestEditor::ReadDirectory() {
  ASSIGN_OR_RETURN(const bool is_another, watch_.Refresh());
  DirectoryWatch::News news = watch_.ReadEvents();
  const auto now = std::chrono::steady_clock::now();
  if (is_another || news.all || now - all_read_ >= kRelist) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(watch_.directory(), "."));
    news.files.insert(names.begin(), names.end());
    news.files.merge(defined_.Files());
    all_read_ = now;
  }
  news.files.insert(defined_.Links().begin(), defined_.Links().end());
  for (const std::string& file : news.files) ReadFile(file);
  return {};
}

void ManifestEditor::ReadFile(const std::string& file) {
  if (!IsManifestName(file)) return;
  const int directory = watch_.directory();
  const auto signature = StatManifest(directory, file);
  if (!signature || !*signature) return defined_.Remove(file);
  if (defined_.IsKnown(file, **signature)) return;
  defined_.Set(file, {**signature, IsLink(directory, file), ObjectsOf(directory, file)});
}

// kCreated, kConfigured or kUnchanged, without writing.
Result<EditOutcome> ManifestEditor::OutcomeOf(const Planned& planned,
                                              const FileRules& rules) const {
  const std::string& path = rules.directory;
  const int directory = watch_.directory();
  RETURN_IF_ERROR(CheckNotElsewhere(planned, defined_, path));
  if (!sys::ExistsAt(directory, planned.object.file)) return EditOutcome::kCreated;
  if (!IsOurs(directory, planned.object.file)) {
    return Foreign(planned.object, path, planned.object.file);
  }
  ASSIGN_OR_RETURN(const FileContent content, ReadManifestFile(directory, planned.object.file));
  if (content.text == planned.text) return EditOutcome::kUnchanged;
  RETURN_IF_ERROR(MayFollow(planned.object.file, content.text, planned, rules));
  return EditOutcome::kConfigured;
}

ManifestEditor::ManifestEditor(std::string directory, std::string node_name)
    : directory_(std::move(directory)), node_name_(std::move(node_name)), watch_(directory_) {}

Result<void> ManifestEditor::Recover() {
  if (!sys::ExistsAt(AT_FDCWD, directory_)) return {};
  // Others may write there too.
  for (const char* kind : {"pod_", "service_", "endpointslice_", "configmap_", "secret_"}) {
    RETURN_IF_ERROR(sys::RemoveTemporariesAt(AT_FDCWD, directory_, sys::Writer::kAny, kind));
  }
  return {};
}

Result<std::vector<EditedObject>> ManifestEditor::Apply(const std::string& manifest,
                                                        const std::string& origin, bool dry_run,
                                                        const std::string& name_space) {
  const std::lock_guard hold(mutex_);
  const FileRules rules{directory_, node_name_, true};
  ASSIGN_OR_RETURN(std::vector<Planned> planned, ReadObjects(manifest, origin, name_space, rules));
  RETURN_IF_ERROR(sys::MakeDirs(AT_FDCWD, directory_, 0755));
  RETURN_IF_ERROR(ReadDirectory());
  for (Planned& next : planned) {
    next.object.file = FileFor(next.object);
    ASSIGN_OR_RETURN(next.object.outcome, OutcomeOf(next, rules));
  }
  std::vector<EditedObject> done;
  for (const Planned& next : planned) {
    if (!dry_run && next.object.outcome != EditOutcome::kUnchanged) {
      RETURN_IF_ERROR(
          sys::WriteFileAtomicAt(watch_.directory(), next.object.file, next.text, 0600));
    }
    done.push_back(next.object);
  }
  return done;
}

Result<EditedObject> ManifestEditor::Delete(const std::string& kind,
                                            const std::string& object_namespace,
                                            const std::string& name) {
  const std::string resource = ResourceOf(kind);
  if (resource.empty()) return InvalidArgument(StrCat("no manifest file holds a \"", kind, "\""));
  const std::lock_guard hold(mutex_);
  const Error absent = NotFound(StrCat(resource, " \"", name, "\" not found"));
  if (auto read = ReadDirectory(); !read) {
    if (read.error().code() == Code::kNotFound) return absent;
    return std::move(read.error());
  }
  const int directory = watch_.directory();
  const ObjectIdentity wanted{kind, object_namespace, name};
  if (const DefinedObject* found = FindNamed(defined_, wanted, node_name_)) {
    const EditedObject object{kind, object_namespace, found->identity.name, found->file,
                              EditOutcome::kDeleted};
    if (!found->ours) return Foreign(object, directory_, found->file);
    RETURN_IF_ERROR(sys::RemoveFileAt(directory, found->file));
    HOLDFAST_PAUSE_POINT("source.manifest-removed");
    return object;
  }
  // A file of ours that was edited until it could not be read any more still bears its name.
  EditedObject broken{kind, object_namespace, name, "", EditOutcome::kDeleted};
  broken.file = FileFor(broken);
  if (!IsOurs(directory, broken.file)) return absent;
  RETURN_IF_ERROR(sys::RemoveFileAt(directory, broken.file));
  return broken;
}

}  // namespace holdfast::agent
