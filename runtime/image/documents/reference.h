// SPDX-License-Identifier: Apache-2.0
// Image names, by the grammar that docker, containerd and the kubelet share. Pure.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::runtime {

struct Reference {
  std::string repository;  // "docker.io/library/nginx"
  std::string tag;         // "1.27"; "latest" when neither tag nor digest was given; else ""
  std::string digest;      // "sha256:…" or ""

  // The form names are stored under: with a digest the tag does not count.
  std::string Name() const;
  // "docker.io" and "library/nginx".
  std::string Registry() const { return repository.substr(0, repository.find('/')); }
  std::string Path() const { return repository.substr(repository.find('/') + 1); }
};

// kInvalidArgument: `couldn't parse image name "X": invalid reference format…`.
Result<Reference> ParseReference(const std::string& text);

// Whether it names no registry, so that docker.io is meant unless somebody says otherwise.
bool IsShortName(std::string_view text);

}  // namespace holdfast::runtime
