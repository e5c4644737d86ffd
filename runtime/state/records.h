// SPDX-License-Identifier: Apache-2.0
// What the runtime writes down, and its form on disk: magic and version, length, CRC-32C, payload
// (codec.h). A record is read whole and right, or not at all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/base/clock.h"
#include "holdfast/base/result.h"
#include "holdfast/model/container_spec.h"

namespace holdfast::runtime {

struct SandboxRecord {
  model::SandboxSpec spec;
  WallTime created_at;
  // Of the pod's containers that ask for none; "": it was made without SELinux.
  std::string selinux_level = {};
  bool operator==(const SandboxRecord&) const = default;
};

struct ContainerRecord {
  model::ContainerSpec spec;
  WallTime created_at;
  bool operator==(const ContainerRecord&) const = default;
};

// What is needed to see a container, to stop and to remove it. Travels as the tag of the keeper's
// start record too, so that a lost ContainerRecord costs no running container.
struct ContainerBrief {
  PodUid pod_uid;
  std::string name;
  uint32_t attempt = 0;
  model::QosClass qos = model::QosClass::kBestEffort;
  bool own_pid_namespace = true;
  std::string scratch;
  bool stdin_pipe = false;  // the keeper holds the write end of its standard input
  bool operator==(const ContainerBrief&) const = default;
};
ContainerBrief BriefOf(const model::ContainerSpec& spec);

std::string EncodeRecord(const SandboxRecord& record);
std::string EncodeRecord(const ContainerRecord& record);
std::string EncodeRecord(const ContainerBrief& brief);
// kInvalidArgument says what is wrong with the bytes, kUnsupported a version that is too new.
Result<SandboxRecord> DecodeSandbox(std::string_view bytes);
Result<ContainerRecord> DecodeContainer(std::string_view bytes);
Result<ContainerBrief> DecodeBrief(std::string_view bytes);

}  // namespace holdfast::runtime
