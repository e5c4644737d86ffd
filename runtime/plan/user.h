// SPDX-License-Identifier: Apache-2.0
// Who a container runs as. Pure: the image's /etc/passwd and /etc/group come as text ("" when the
// image has none), and both are untrusted.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/model/container_spec.h"

namespace holdfast::runtime {

// Larger files are refused (containerd's limit too).
inline constexpr size_t kMaxUserFileBytes = 10u << 20;

struct ResolvedUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // primary first, each once
  std::string home = "/";
};

// `who` names pod and container in messages: "pod: \"web_default(uid)\", container: web".
// kConfig: runAsNonRoot is not met or cannot be verified. kCreate: a name that the image does not
// have, an id out of range.
std::expected<ResolvedUser, StartFailure> ResolveUser(const model::UserSpec& spec,
                                                      std::string_view passwd,
                                                      std::string_view group,
                                                      const std::string& who);

}  // namespace holdfast::runtime
