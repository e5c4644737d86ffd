// SPDX-License-Identifier: Apache-2.0
// How the client reaches a keeper process: by path, again and again while it is being restarted.
// Thread-safe: no state.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/keeper/wire.h"

namespace holdfast::runtime::keeper {

enum class Peer : uint8_t { kHolder, kLauncher, kLogger };

inline constexpr std::chrono::seconds kCallLimit{10};

// Repeats the requests (see Call) while nobody answers (kUnavailable) until `limit`: every message
// sent this way may arrive twice. An answer of type kError becomes the Error.
Result<Message> CallKeeper(const std::string& run_dir, Peer peer, std::span<const Request> requests,
                           std::chrono::milliseconds limit = kCallLimit);
Result<Message> CallKeeper(const std::string& run_dir, Peer peer, MessageType type,
                           std::string_view payload, std::span<const int> fds,
                           std::chrono::milliseconds limit = kCallLimit);

Result<std::vector<std::string>> ListKeysOf(const std::string& run_dir, Peer peer,
                                            const std::string& prefix);

// Sends the new binary and waits until the process answers as one that was upgraded once more.
Result<void> UpgradeProcess(const std::string& run_dir, Peer peer, int binary);

}  // namespace holdfast::runtime::keeper
