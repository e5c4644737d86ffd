// SPDX-License-Identifier: Apache-2.0
#include "agent/volume/placed_volumes.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;

constexpr int kPlacedVersion = 1;
// With block devices: who does not know them would leave them staged.
constexpr int kPlacedBlockVersion = 2;
// With what the agent itself mounts.
constexpr int kPlacedNfsVersion = 3;
// With directories that are bound.
constexpr int kPlacedBoundVersion = 4;
constexpr size_t kPlacedLimit = 1u << 20;

// The least that knows all of them.
int VersionFor(const PlacedVolumes& volumes) {
  int version = kPlacedVersion;
  for (const auto& [name, volume] : volumes) {
    if (volume.block) version = std::max(version, kPlacedBlockVersion);
    if (volume.kind == "nfs") version = std::max(version, kPlacedNfsVersion);
    if (volume.bound) version = std::max(version, kPlacedBoundVersion);
  }
  return version;
}

Json PlacedToJson(const PlacedVolume& volume) {
  return {{"name", volume.name},          {"kind", volume.kind},   {"path", volume.path},
          {"readOnly", volume.read_only}, {"ready", volume.ready}, {"driver", volume.driver},
          {"handle", volume.handle},      {"block", volume.block}, {"bound", volume.bound}};
}

PlacedVolume PlacedFromJson(const Json& json) {
  return {json.at("name"),           json.at("kind"),
          json.at("path"),           json.at("readOnly"),
          json.at("ready"),          json.value("driver", ""),
          json.value("handle", ""),  json.value("block", false),
          json.value("bound", false)};
}

}  // namespace

Result<PlacedVolumes> ReadPlacedVolumes(const PodPaths& paths) {
  const std::string path = paths.PlacedVolumes();
  auto text = sys::ReadFileAt(AT_FDCWD, path, kPlacedLimit);
  if (!text && text.error().code() == Code::kNotFound) return PlacedVolumes();
  if (!text) return std::move(text.error());
  try {
    const Json json = Json::parse(*text);
    if (const int version = json.at("version");
        version < kPlacedVersion || version > kPlacedBoundVersion) {
      return Unsupported(StrCat(path, ": of another version of this program"));
    }
    PlacedVolumes volumes;
    for (const auto& [name, volume] : json.at("volumes").items()) {
      volumes[name] = PlacedFromJson(volume);
    }
    return volumes;
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat(path, ": ", error.what()));
  }
}

Result<void> WritePlacedVolumes(const PodPaths& paths, const PlacedVolumes& volumes) {
  Json json = {{"version", VersionFor(volumes)}, {"volumes", Json::object()}};
  for (const auto& [name, volume] : volumes) json["volumes"][name] = PlacedToJson(volume);
  ASSIGN_OR_RETURN(const DirFd dir, sys::OpenDir(paths.Dir()));
  RETURN_IF_ERROR(
      sys::WriteFileAtomicAt(dir.get(), PodPaths::kPlacedVolumesFile, json.dump(), 0600));
  HOLDFAST_PAUSE_POINT("agent.volume.placed_saved");
  return {};
}

}  // namespace holdfast::agent
