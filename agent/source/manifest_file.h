// SPDX-License-Identifier: Apache-2.0
// One manifest file: which names count, how it is read from a hostile directory, what is in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/manifest_reader.h"
#include "agent/kube/types_fwd.h"
#include "agent/objects/config_object.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// *.yaml, *.yml and *.json, but no dot files, backups and editors' temporaries ("#x#", "x~", …).
bool IsManifestName(std::string_view name);

// What changes whenever a file's content does.
struct FileSignature {
  dev_t device = 0;
  ino_t inode = 0;
  int64_t size = 0;
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  bool operator==(const FileSignature&) const = default;
};

struct FileContent {
  FileSignature signature;
  std::string text;
};

// Absent for everything that is no regular file (FIFOs and devices are not opened for reading,
// links are followed, a loop of links counts as nothing).
Result<std::optional<FileSignature>> StatManifest(int directory, const std::string& name);
// kUnavailable when it changed while it was read; kResourceExhausted above 10 MiB.
Result<FileContent> ReadManifestFile(int directory, const std::string& name);

struct FileRules {
  std::string directory;  // for the origin that goes into the UID
  std::string node_name;
  bool multiple_documents = true;
};

struct FileObjects {
  // Defaulted and validated; complete only when `valid`. The pods are made static pods of this
  // node, the others have their namespace.
  std::vector<std::shared_ptr<const corev1::Pod>> pods;
  std::vector<std::shared_ptr<const corev1::Service>> services;
  std::vector<std::shared_ptr<const discoveryv1::EndpointSlice>> slices;
  std::vector<ConfigObjectPtr> configs;
  bool valid = true;
  std::string content;  // a hash of the text
  std::string message;  // every fault, one per line; also of what is valid but not run from here
};

// Fills in what a pod of a manifest leaves out and takes away what only the system sets. Returns its
// faults beyond the schema, `object` saying where they are: none when this node can run it. Pure.
std::vector<kube::Diagnostic> CompletePod(const kube::ManifestObject& object,
                                          const FileRules& rules, corev1::Pod* pod);

// Fills in what a ConfigMap or a Secret leaves out, its namespace too. Returns its faults. Pure.
std::vector<kube::Diagnostic> CompleteConfig(const kube::ManifestObject& object,
                                             corev1::ConfigMap* map);
std::vector<kube::Diagnostic> CompleteConfig(const kube::ManifestObject& object,
                                             corev1::Secret* secret);

// Pure.
FileObjects ReadFileObjects(const std::string& name, std::string_view text, const FileRules& rules);

}  // namespace holdfast::agent
