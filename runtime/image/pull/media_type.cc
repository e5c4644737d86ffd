// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/pull/media_type.h"

#include "holdfast/base/strings.h"
#include "runtime/image/documents/oci_documents.h"
#include "runtime/json/json_read.h"

namespace holdfast::runtime {
namespace {

bool IsKnown(std::string_view type) { return IsIndexType(type) || IsManifestType(type); }

// Without parameters ("; charset=utf-8").
std::string_view Bare(std::string_view type) {
  type = type.substr(0, type.find(';'));
  while (type.ends_with(' ')) type.remove_suffix(1);
  return type;
}

}  // namespace

Result<std::string> ManifestType(std::string_view content_type, std::string_view text) {
  const std::string_view announced = Bare(content_type);
  if (IsKnown(announced)) return std::string(announced);
  if (announced.starts_with("application/vnd.docker.distribution.manifest.v1+")) {
    return Unsupported("Docker schema 1 manifests are not supported: convert the image");
  }
  const std::string said = StrCat("manifest: sent as \"", announced.substr(0, 100), "\"");
  simdjson::dom::parser parser;
  auto object = json::ParseObject(parser, text, said);
  if (!object) return std::move(object.error());
  ASSIGN_OR_RETURN(std::string own, json::String(*object, "mediaType"));
  if (IsKnown(own)) return own;
  return InvalidArgument(StrCat(said, ", which is no image manifest or index"));
}

}  // namespace holdfast::runtime
