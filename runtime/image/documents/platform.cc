// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/documents/platform.h"

#include <array>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::runtime {
namespace {

constexpr int kUnknown = 100;
constexpr size_t kMaxShown = 20;

// What an arm64 machine runs besides its own, best first.
constexpr std::array<std::string_view, 4> kArmVariants = {"v8", "v7", "v6", "v5"};

bool IsOwnVariant(const Platform& platform, const Platform& host) {
  if (platform.variant.empty() || platform.variant == host.variant) return true;
  // v2 and v3 need what the processor may not have.
  if (host.architecture == "amd64") return platform.variant == "v1";
  return host.architecture == "arm64" && platform.variant == "v8";
}

}  // namespace

std::optional<int> RankOf(const Platform& platform, const Platform& host) {
  if (platform.os.empty() && platform.architecture.empty()) return kUnknown;
  if (platform.os != host.os) return std::nullopt;
  if (platform.architecture == host.architecture) {
    if (IsOwnVariant(platform, host)) return 0;
    return std::nullopt;
  }
  if (host.architecture != "arm64" || platform.architecture != "arm") return std::nullopt;
  // Without a variant it is v7, as containerd normalises it.
  const std::string_view named = platform.variant;
  const std::string_view variant = named.empty() ? std::string_view("v7") : named;
  for (size_t i = 0; i < kArmVariants.size(); ++i) {
    if (kArmVariants[i] == variant) return static_cast<int>(i) + 1;
  }
  return std::nullopt;
}

std::string Describe(const Platform& platform) {
  return StrCat(platform.os, "/", platform.architecture, platform.variant.empty() ? "" : "/",
                platform.variant);
}

Result<Descriptor> ChooseForHost(const std::vector<Descriptor>& offered, const std::string& where) {
  const Platform host = HostPlatform();
  const Descriptor* best = nullptr;
  int best_rank = 0;
  for (const Descriptor& entry : offered) {
    const auto rank = RankOf(entry.platform, host);
    if (!rank || (best != nullptr && *rank >= best_rank)) continue;
    best = &entry;
    best_rank = *rank;
  }
  if (best != nullptr) return *best;
  std::string list;
  for (size_t i = 0; i < offered.size() && i < kMaxShown; ++i) {
    list += (list.empty() ? "" : ", ") + Describe(offered[i].platform);
  }
  if (offered.size() > kMaxShown) list += ", …";
  return NotFound(StrCat("no match for platform in manifest: this machine is ", Describe(host),
                         ", ", where, " has ", list));
}

}  // namespace holdfast::runtime
