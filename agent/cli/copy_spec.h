// SPDX-License-Identifier: Apache-2.0
// Where cp copies from and to, as kubectl names it. Pure.
#pragma once

#include <string>
#include <string_view>

#include "holdfast/base/result.h"

namespace holdfast::agent::cli {

// "[[namespace/]pod:]path"; without a pod it is on this machine.
struct FileSpec {
  std::string name_space;
  std::string pod;
  std::string path;
  bool operator==(const FileSpec&) const = default;
};
Result<FileSpec> ParseFileSpec(const std::string& text);

// A path in a container without what says nothing ("//", "/./", "/" at the end), with ".." taken as far as it
// goes: never above the root. "." for "".
std::string CleanRemotePath(std::string_view path);

// What the names of tar's members begin with when tar is asked for `path`: without "/" and ".." in front.
std::string TarPrefix(std::string_view path);

}  // namespace holdfast::agent::cli
