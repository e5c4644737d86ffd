// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/copy_spec.h"

#include <filesystem>

namespace holdfast::agent::cli {
namespace {

constexpr char kFormat[] = "filespec must match the canonical format: [[namespace/]pod:]file/path";

}  // namespace

Result<FileSpec> ParseFileSpec(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return FileSpec{"", "", text};
  FileSpec spec{"", text.substr(0, colon), text.substr(colon + 1)};
  const size_t slash = spec.pod.find('/');
  if (slash != std::string::npos) {
    spec.name_space = spec.pod.substr(0, slash);
    spec.pod.erase(0, slash + 1);
    if (spec.name_space.empty()) return InvalidArgument(kFormat);
  }
  if (spec.pod.empty() || spec.pod.find('/') != std::string::npos) return InvalidArgument(kFormat);
  return spec;
}

std::string CleanRemotePath(std::string_view path) {
  std::string clean = std::filesystem::path(path).lexically_normal().string();
  while (clean.size() > 1 && clean.ends_with('/')) clean.pop_back();
  return clean.empty() ? "." : clean;
}

std::string TarPrefix(std::string_view path) {
  const std::string clean = CleanRemotePath(path);
  std::string_view left = clean;
  while (left.starts_with('/')) left.remove_prefix(1);
  while (left.starts_with("../")) left.remove_prefix(3);
  return left == ".." || left == "." ? "" : std::string(left);
}

}  // namespace holdfast::agent::cli
