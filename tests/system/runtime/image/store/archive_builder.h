// SPDX-License-Identifier: Apache-2.0
// Image archives put together by hand, so that each part can be made wrong.
#pragma once

#include <string>
#include <vector>

#include "holdfast/base/strings.h"
#include "runtime/image/content/digest.h"
#include "runtime/image/documents/json_text.h"
#include "tests/support/tar_builder.h"

namespace holdfast::runtime {

inline constexpr const char* kOciLayerType = "application/vnd.oci.image.layer.v1.tar";
inline constexpr const char* kOciManifestType = "application/vnd.oci.image.manifest.v1+json";
inline constexpr const char* kOciIndexType = "application/vnd.oci.image.index.v1+json";
inline constexpr const char* kOciConfigType = "application/vnd.oci.image.config.v1+json";
inline constexpr const char* kHere =
#if defined(__aarch64__)
    "arm64";
#else
    "amd64";
#endif

inline std::string DescriptorText(const std::string& type, const std::string& content,
                                  const std::string& more = "") {
  return StrCat("{\"mediaType\":\"", type, "\",\"digest\":\"", DigestOf(content).value,
                "\",\"size\":", content.size(), more, "}");
}

inline std::string ConfigText(const std::vector<std::string>& layers,
                              const std::string& cmd = "/bin/sh") {
  std::vector<std::string> diff_ids;
  for (const std::string& layer : layers) diff_ids.push_back(DigestOf(layer).value);
  return StrCat(
      "{\"created\":\"2024-05-06T07:08:09.123Z\",\"architecture\":\"", kHere,
      "\",\"os\":\"linux\",\"config\":{\"Cmd\":[\"", cmd,
      "\"],\"Env\":[\"PATH=/bin\"],\"ExposedPorts\":{\"80/tcp\":{}},\"Labels\":{\"a\":\"b\"}},"
      "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":",
      JsonArray(diff_ids), "}}");
}

// Collects blobs and writes the layout as a tar.
class LayoutBuilder {
 public:
  std::string Add(const std::string& content) {
    files_.push_back(test::File("blobs/sha256/" + HexOf(DigestOf(content)), content));
    return content;
  }
  // Adds layers, config and manifest; returns the manifest's text.
  std::string AddImage(const std::vector<std::string>& layers, const std::string& cmd = "/bin/sh",
                       const std::string& layer_type = kOciLayerType) {
    std::string list;
    for (const std::string& layer : layers) {
      Add(layer);
      list += (list.empty() ? "" : ",") + DescriptorText(layer_type, layer);
    }
    const std::string config = Add(ConfigText(layers, cmd));
    return Add(StrCat("{\"schemaVersion\":2,\"mediaType\":\"", kOciManifestType, "\",\"config\":",
                      DescriptorText(kOciConfigType, config), ",\"layers\":[", list, "]}"));
  }
  static std::string Named(const std::string& name) {
    return StrCat(",\"annotations\":{\"org.opencontainers.image.ref.name\":", JsonString(name),
                  "}");
  }
  static std::string Index(const std::string& entries) {
    return StrCat("{\"schemaVersion\":2,\"manifests\":[", entries, "]}");
  }
  std::vector<test::TarMember> Members(const std::string& index) const {
    std::vector<test::TarMember> members = {
        test::File("oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}"),
        test::File("index.json", index)};
    std::vector<std::string> seen;
    for (const test::TarMember& file : files_) {
      if (std::find(seen.begin(), seen.end(), file.name) != seen.end()) continue;
      seen.push_back(file.name);
      members.push_back(file);
    }
    return members;
  }
  std::string Tar(const std::string& index,
                  test::TarPacking packing = test::TarPacking::kPlain) const {
    return test::BuildTar(Members(index), packing);
  }

 private:
  std::vector<test::TarMember> files_;
};

}  // namespace holdfast::runtime
