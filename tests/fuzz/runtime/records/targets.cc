// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/records/targets.h"

#include <string>

#include "holdfast/base/crc32c.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/common/keys.h"
#include "runtime/keeper/common/messages.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/keeper/process/exit_events.h"
#include "runtime/plan/wire.h"
#include "runtime/state/codec.h"
#include "runtime/state/records.h"
#include "runtime/sys/journal_form.h"
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

void FuzzJournal(std::string_view input) {
  (void)sys::ParseJournal(input);
  constexpr std::string_view kMark = "\x01mark\xff..";
  std::string file = sys::JournalHeader(kMark);
  for (size_t at; (at = input.find("!!")) != std::string_view::npos; input.remove_prefix(at + 2)) {
    file.append(input.substr(0, at)).append(kMark);
  }
  file += input;
  const auto parsed = sys::ParseJournal(file);
  Require(parsed.has_value() && parsed->end <= file.size(), "a right header is read", input);
  size_t end = sys::kJournalHeader;
  for (const sys::JournalEntry& entry : parsed->entries) {
    Require(entry.offset >= end, "entries follow each other", input);
    end = entry.offset + entry.size;
    std::string again = sys::JournalEntryBytes(kMark, entry.key, entry.value);
    again[sys::kJournalState] = entry.state;
    Require(file.substr(entry.offset, entry.size) == again, "an entry is what was written", input);
  }
  Require(end == parsed->end, "the next entry follows the last", input);
  file.resize(parsed->end);
  file += sys::JournalEntryBytes(kMark, "k", "v");
  const auto longer = sys::ParseJournal(file);
  Require(longer->entries.size() == parsed->entries.size() + 1, "one can go on", input);
}

}  // namespace holdfast::fuzz
