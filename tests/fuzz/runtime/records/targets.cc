// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/records/targets.h"

#include <string>

#include "holdfast/sys/files.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/keeper/process/exit_events.h"
#include "runtime/plan/wire.h"
#include "runtime/state/codec.h"
#include "runtime/state/records.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using namespace runtime;  // NOLINT: the names of the code under test
namespace kp = runtime::keeper;

// What was understood is understood in the same way when it is written again.
template <class Decode, class Encode>
void RoundTrip(std::string_view input, Decode decode, Encode encode) {
  auto first = decode(input);
  if (!first) return;
  const std::string text = encode(*first);
  auto second = decode(text);
  Require(second.has_value() && encode(*second) == text, "what is encoded is decoded", input);
}

void CheckKeys(std::string_view input) {
  if (const auto key = kp::ParseLogKey(input)) {
    Require(kp::MakeLogKey(key->id, key->part) == input, "a log key is put together again", input);
  }
  if (const auto key = kp::ParseSandboxKey(input)) {
    const auto again = kp::ParseSandboxKey(kp::MakeSandboxKey(*key));
    Require(again && again->sandbox == key->sandbox && again->name == key->name &&
                again->total == key->total,
            "a sandbox key is put together again", input);
  }
  (void)kp::ProcessOfKey(input);
  (void)kp::IsMirrored(input);
}

void CheckList(std::string_view input) {
  const auto memory = sys::SealedMemfd("fuzz", std::string(input));
  if (memory) (void)kp::ListFromMemfd(memory->get());
}

// As a record of this kind: damage should reach what comes after the checksum.
std::string WithRightChecksum(std::string_view body, char kind) {
  RecordWriter header;
  header('H', 'F', kind, char{1}, static_cast<uint32_t>(body.size()), Crc32c(body));
  return header.Take() + std::string(body);
}

}  // namespace

void FuzzKeeperMessage(std::string_view input) {
  if (input.empty()) return;
  const auto kind = static_cast<unsigned char>(input[0]) % 9;
  input.remove_prefix(1);
  const auto encode = [](const auto& value) { return kp::Encode(value); };
  switch (kind) {
    case 0:
      return RoundTrip(input, &kp::DecodeLaunch, &kp::EncodeLaunch);
    case 1:
      return RoundTrip(input, &kp::DecodeLaunched, encode);
    case 2:
      return RoundTrip(input, &kp::DecodeLaunchFailure, encode);
    case 3:
      return RoundTrip(input, &kp::DecodeNames, &kp::EncodeNames);
    case 4:
      return RoundTrip(input, &kp::DecodeLogRegistration, encode);
    case 5:
      return RoundTrip(input, &kp::DecodeLogStatus, encode);
    case 6:
      return CheckKeys(input);
    case 7:
      return CheckList(input);
    default:
      (void)kp::ParseExitEvent(input);
      (void)kp::DecodeError(input);
  }
}

void FuzzLaunchPlan(std::string_view input) { (void)ParsePlan(input, 8); }

void FuzzRuntimeRecord(std::string_view input) {
  const auto encode = [](const auto& value) { return EncodeRecord(value); };
  RoundTrip(WithRightChecksum(input, 'S'), &DecodeSandbox, encode);
  RoundTrip(WithRightChecksum(input, 'C'), &DecodeContainer, encode);
  RoundTrip(WithRightChecksum(input, 'B'), &DecodeBrief, encode);
  (void)DecodeContainer(input);
}

}  // namespace holdfast::fuzz
