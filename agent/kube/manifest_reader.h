// SPDX-License-Identifier: Apache-2.0
// Reads manifests strictly: one text with YAML or JSON documents -> objects, and everything that is
// wrong with it, each with file, line and column. Pure; thread-safe; the text is untrusted.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/parse.h"
#include "agent/kube/scheme.h"
#include "agent/kube/types_fwd.h"

namespace holdfast::agent::kube {

// One object of a manifest. Move-only.
struct ManifestObject {
  TypeMeta type;
  ObjectPtr object;
  size_t document = 0;  // counted from 0, empty documents left out

  // Kept so that later checks can name line and column too; drop it with `tree.reset()`.
  std::shared_ptr<const Node> tree;
  std::string file;
  std::string path;  // "items[2]" for an object out of a list, else empty

  // The object if it is of that type, else nullptr: As<corev1::Pod>().
  template <class T>
  T* As() {
    return dynamic_cast<T*>(object.get());
  }
  template <class T>
  const T* As() const {
    return dynamic_cast<const T*>(object.get());
  }

  // Gives the object away if it is of that type, else nullptr.
  template <class T>
  std::unique_ptr<T> Take() {
    if (As<T>() == nullptr) return nullptr;
    return std::unique_ptr<T>(static_cast<T*>(object.release()));
  }

  // A diagnostic for the field at `field_path`, relative to the object: line and column of the
  // field, or of what is nearest around it.
  Diagnostic At(std::string_view field_path, std::string message) const;
};

struct Manifest {
  std::vector<ManifestObject> objects;  // only those that were read without a fault
  std::vector<Diagnostic> diagnostics;  // in the order of the file; empty when all is well
  bool ok() const { return diagnostics.empty(); }
};

// Of manifests that a node takes. As large as what an API server takes at a time: a Secret of 1 MiB is more in base64.
inline constexpr ParseLimits kManifestLimits = {.max_document_bytes = 3u << 20};

// `file` is for the messages only. Lists (kind List, PodList, …) are taken apart. Defaults are not
// filled in and nothing is validated beyond the schema.
Manifest ReadManifest(std::string_view file, std::string_view text, const ParseLimits& limits = {});

}  // namespace holdfast::agent::kube
