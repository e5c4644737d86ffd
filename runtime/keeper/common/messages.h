// SPDX-License-Identifier: Apache-2.0
// Payloads that both the client and a keeper process know. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/keeper/common/types.h"

namespace holdfast::runtime::keeper {

// kLaunch: of a start record, what is known before the start.
std::string EncodeLaunch(const StartRecord& start);
Result<StartRecord> DecodeLaunch(std::string_view payload);

// kLaunched, beside the pidfd and a pty master; pidfd absent when the process has ended already.
struct LaunchedPayload {
  pid_t pid = 0;
  uint64_t start_ticks = 0;
  WallTime started_at;
  bool has_pidfd = false;
  bool has_pty = false;
  std::vector<std::string> warnings;
};
std::string Encode(const LaunchedPayload& payload);
Result<LaunchedPayload> DecodeLaunched(std::string_view payload);

// kLaunchFailed.
std::string Encode(const LaunchFailure& failure);
Result<LaunchFailure> DecodeLaunchFailure(std::string_view payload);

// Names beside the descriptors of a sandbox.
std::string EncodeNames(const std::vector<std::string>& names);
Result<std::vector<std::string>> DecodeNames(std::string_view payload);

// kLogRegister.
std::string Encode(const LogRegistration& registration);
Result<LogRegistration> DecodeLogRegistration(std::string_view payload);

// kLogStatus.
std::string Encode(const LogStatus& status);
Result<LogStatus> DecodeLogStatus(std::string_view payload);

}  // namespace holdfast::runtime::keeper
