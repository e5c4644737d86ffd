// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "agent/kube/defaulting.h"
#include "agent/kube/pod_identity.h"
#include "agent/kube/validation/validate.h"
#include "agent/source/pod_of_node.h"
#include "holdfast/base/printable.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"
#include "k8s/discovery/v1/endpoint_slice.pb.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMaxFile = 10u << 20;  // feature-map 1.1.3

FileSignature SignatureOf(const struct stat& st) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec * kSecond + st.st_mtim.tv_nsec,
          st.st_ctim.tv_sec * kSecond + st.st_ctim.tv_nsec};
}

void AppendLine(std::string& text, std::string_view line) {
  if (!text.empty()) text.push_back('\n');
  text.append(line);
}

// Why a UID that a manifest gives cannot be a pod's, "" when it can: it becomes a directory's name
// and part of cgroup names. An empty one is filled in.
std::string FaultOfUid(std::string_view uid) {
  constexpr size_t kLimit = 128;
  const bool plain = std::ranges::all_of(uid, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (plain && uid.size() <= kLimit && !uid.starts_with('.')) return "";
  return "not usable as a name: at most 128 letters, digits, '-', '_' and '.', not beginning with "
         "'.'; leave it out, and the pod gets one";
}

// False and the faults in `out` when the object cannot be used.
bool IsFaultless(const std::vector<kube::Diagnostic>& faults, FileObjects& out) {
  if (faults.empty()) return true;
  out.valid = false;
  AppendLine(out.message, kube::ToString(faults));
  return false;
}

void AddPod(kube::ManifestObject& object, const std::string& name, const FileRules& rules,
            FileObjects& out) {
  std::unique_ptr<corev1::Pod> pod(object.Take<corev1::Pod>());
  if (!IsFaultless(CompletePod(object, rules, pod.get()), out)) return;
  kube::MakeStaticPod(pod.get(), rules.node_name, StrCat(rules.directory, "/", name));
  out.pods.push_back(std::move(pod));
}

template <class Object>
void SetNamespace(Object& object) {
  if (object.metadata().namespace_().empty()) object.mutable_metadata()->set_namespace_("default");
}

void AddService(kube::ManifestObject& object, FileObjects& out) {
  std::unique_ptr<corev1::Service> service(object.Take<corev1::Service>());
  SetNamespace(*service);
  kube::SetServiceDefaults(service.get());
  const auto faults = kube::ToDiagnostics(kube::ValidateService(*service), object);
  if (IsFaultless(faults, out)) out.services.push_back(std::move(service));
}

void AddSlice(kube::ManifestObject& object, FileObjects& out) {
  std::unique_ptr<discoveryv1::EndpointSlice> slice(object.Take<discoveryv1::EndpointSlice>());
  SetNamespace(*slice);
  const auto faults = kube::ToDiagnostics(kube::ValidateEndpointSlice(*slice), object);
  if (IsFaultless(faults, out)) out.slices.push_back(std::move(slice));
}

template <class Object>
void AddConfig(kube::ManifestObject& object, FileObjects& out) {
  std::unique_ptr<Object> config(object.Take<Object>());
  if (!IsFaultless(CompleteConfig(object, config.get()), out)) return;
  out.configs.push_back(TakeConfigObject(std::move(config)));
}

// False for a kind that no manifest file may hold here.
bool AddObject(kube::ManifestObject& object, const std::string& name, const FileRules& rules,
               FileObjects& out) {
  if (object.As<corev1::Pod>() != nullptr) {
    AddPod(object, name, rules, out);
  } else if (rules.multiple_documents && object.As<corev1::Service>() != nullptr) {
    AddService(object, out);
  } else if (rules.multiple_documents && object.As<discoveryv1::EndpointSlice>() != nullptr) {
    AddSlice(object, out);
  } else if (rules.multiple_documents && object.As<corev1::ConfigMap>() != nullptr) {
    AddConfig<corev1::ConfigMap>(object, out);
  } else if (rules.multiple_documents && object.As<corev1::Secret>() != nullptr) {
    AddConfig<corev1::Secret>(object, out);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool IsManifestName(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.front() == '#') return false;
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

std::vector<kube::Diagnostic> CompletePod(const kube::ManifestObject& object,
                                          const FileRules& rules, corev1::Pod* pod) {
  ClearSystemFields(pod);
  kube::SetPodDefaults(pod);
  kube::FieldErrors errors = kube::ValidatePod(*pod);
  for (kube::FieldError& error : CheckPodOfNode(*pod, rules.node_name)) {
    errors.push_back(std::move(error));
  }
  if (!rules.multiple_documents) {
    for (kube::FieldError& error : kube::ValidateStaticPod(*pod)) {
      errors.push_back(std::move(error));
    }
  }
  std::vector<kube::Diagnostic> faults = kube::ToDiagnostics(errors, object);
  const std::string uid_fault = FaultOfUid(pod->metadata().uid());
  if (!uid_fault.empty()) faults.push_back(object.At("metadata.uid", uid_fault));
  return faults;
}

std::vector<kube::Diagnostic> CompleteConfig(const kube::ManifestObject& object,
                                             corev1::ConfigMap* map) {
  SetNamespace(*map);
  return kube::ToDiagnostics(kube::ValidateConfigMap(*map), object);
}

std::vector<kube::Diagnostic> CompleteConfig(const kube::ManifestObject& object,
                                             corev1::Secret* secret) {
  SetNamespace(*secret);
  TakeStringData(secret);
  kube::SetDefaults(secret);
  return kube::ToDiagnostics(kube::ValidateSecret(*secret), object);
}

Result<std::optional<FileSignature>> StatManifest(int directory, const std::string& name) {
  struct stat st{};
  if (::fstatat(directory, name.c_str(), &st, 0) != 0) {
    if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)
      return std::optional<FileSignature>();
    return Error::FromErrno(errno, StrCat("stat ", name));
  }
  if (!S_ISREG(st.st_mode)) return std::optional<FileSignature>();
  return std::optional(SignatureOf(st));
}

Result<FileContent> ReadManifestFile(int directory, const std::string& name) {
  // Between stat and open a file can become a FIFO: O_NONBLOCK keeps that from blocking.
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat before{};
  if (::fstat(fd.get(), &before) != 0) return Error::FromErrno(errno, StrCat("stat ", name));
  if (!S_ISREG(before.st_mode)) return InvalidArgument(StrCat(name, ": not a regular file"));
  if (before.st_size > static_cast<off_t>(kMaxFile)) {
    return Error(Code::kResourceExhausted, StrCat(name, ": larger than the limit of 10 MiB"));
  }
  FileContent content;
  content.signature = SignatureOf(before);
  auto text = sys::ReadFd(fd.get(), kMaxFile);
  if (!text) return std::move(text.error()).Wrap(name);
  content.text = std::move(*text);
  struct stat after{};
  if (::fstat(fd.get(), &after) != 0) return Error::FromErrno(errno, StrCat("stat ", name));
  if (SignatureOf(after) != content.signature) {
    return Unavailable(StrCat(name, ": changed while it was read"));
  }
  return content;
}

FileObjects ReadFileObjects(const std::string& name, std::string_view text,
                            const FileRules& rules) {
  kube::Manifest manifest = kube::ReadManifest(name, text, kube::kManifestLimits);
  FileObjects out;
  out.content = kube::HashFnv128a(text);
  if (!manifest.ok()) {
    out.valid = false;
    out.message = kube::ToString(manifest.diagnostics);
  } else if (manifest.objects.empty()) {
    out.valid = false;
    out.message = StrCat(Printable(name), ":1:1: holds no object");
  } else if (!rules.multiple_documents && manifest.objects.size() != 1) {
    out.valid = false;
    out.message = StrCat(Printable(name), ": holds ", manifest.objects.size(),
                         " objects; with an API server a manifest file holds one Pod");
  }
  for (kube::ManifestObject& object : manifest.objects) {
    if (AddObject(object, name, rules, out)) continue;
    AppendLine(
        out.message,
        object.At("kind", StrCat(object.type.kind, " is not run from a manifest file")).ToString());
    if (!rules.multiple_documents) out.valid = false;
  }
  while (out.message.ends_with('\n')) out.message.pop_back();
  return out;
}

}  // namespace holdfast::agent
