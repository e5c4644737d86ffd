// SPDX-License-Identifier: Apache-2.0
#include "agent/source/manifest_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/pod_identity.h"
#include "agent/kube/validation/validate.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "k8s/core/v1/pod.pb.h"

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

// The faults of one pod beyond its schema; empty when it can run.
std::vector<kube::Diagnostic> CheckPod(const kube::ManifestObject& object, const corev1::Pod& pod,
                                       const FileRules& rules) {
  kube::FieldErrors errors = kube::ValidatePod(pod);
  if (!rules.multiple_documents) {
    for (kube::FieldError& error : kube::ValidateStaticPod(pod)) errors.push_back(std::move(error));
  }
  return kube::ToDiagnostics(errors, object);
}

void AddPod(kube::ManifestObject& object, const std::string& name, const FileRules& rules,
            ManifestPods& out) {
  std::unique_ptr<corev1::Pod> pod(object.Take<corev1::Pod>());
  kube::SetPodDefaults(pod.get());
  const std::vector<kube::Diagnostic> faults = CheckPod(object, *pod, rules);
  if (!faults.empty()) {
    out.valid = false;
    AppendLine(out.message, kube::ToString(faults));
    return;
  }
  kube::MakeStaticPod(pod.get(), rules.node_name, StrCat(rules.directory, "/", name));
  out.pods.push_back(std::move(pod));
}

}  // namespace

bool IsManifestName(std::string_view name) {
  if (name.empty() || name.front() == '.' || name.front() == '#') return false;
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
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

ManifestPods ReadPods(const std::string& name, std::string_view text, const FileRules& rules) {
  kube::Manifest manifest = kube::ReadManifest(name, text);
  ManifestPods out;
  if (!manifest.ok()) {
    out.valid = false;
    out.message = kube::ToString(manifest.diagnostics);
  } else if (manifest.objects.empty()) {
    out.valid = false;
    out.message = StrCat(name, ": holds no object");
  } else if (!rules.multiple_documents && manifest.objects.size() != 1) {
    out.valid = false;
    out.message = StrCat(name, ": holds ", manifest.objects.size(),
                         " objects; with an API server a manifest file holds one Pod");
  }
  for (kube::ManifestObject& object : manifest.objects) {
    if (object.As<corev1::Pod>() != nullptr) {
      AddPod(object, name, rules, out);
    } else {
      AppendLine(out.message,
                 object.At("kind", StrCat(object.type.kind, " is not run from a manifest file"))
                     .ToString());
      if (!rules.multiple_documents) out.valid = false;
    }
  }
  while (out.message.ends_with('\n')) out.message.pop_back();
  return out;
}

}  // namespace holdfast::agent
