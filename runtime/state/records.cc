// SPDX-License-Identifier: Apache-2.0
#include "runtime/state/records.h"

#include "holdfast/base/crc32c.h"
#include "holdfast/base/strings.h"
#include "runtime/state/fields.h"

namespace holdfast::runtime {
namespace {

// "HF", the kind of record, the format's version. Raised only when the codec itself changes.
constexpr char kVersion = 1;
constexpr size_t kHeaderBytes = 12;
enum class Kind : char { kSandbox = 'S', kContainer = 'C', kBrief = 'B' };

template <class T>
std::string Encode(Kind kind, const T& record) {
  RecordWriter payload;
  payload(record);
  const std::string body = payload.Take();
  RecordWriter header;
  header('H', 'F', static_cast<char>(kind), kVersion, static_cast<uint32_t>(body.size()),
         Crc32c(body));
  return header.Take() + body;
}

template <class T>
Result<T> Decode(Kind kind, std::string_view bytes) {
  char h = 0, f = 0, found_kind = 0, version = 0;
  uint32_t size = 0, crc = 0;
  RecordReader header(bytes.substr(0, kHeaderBytes));
  header(h, f, found_kind, version, size, crc);
  if (bytes.size() < kHeaderBytes || h != 'H' || f != 'F') return InvalidArgument("no record");
  if (found_kind != static_cast<char>(kind)) return InvalidArgument("a record of another kind");
  if (version != kVersion) {
    return Unsupported(StrCat("record version ", static_cast<int>(version), " is not known"));
  }
  const std::string_view body = bytes.substr(kHeaderBytes);
  if (body.size() != size) return InvalidArgument("record of wrong length");
  if (Crc32c(body) != crc) return InvalidArgument("record with a wrong checksum");
  T record{};
  RecordReader reader(body);
  reader(record);
  if (reader.failed()) return InvalidArgument("record with damaged fields");
  return record;
}

}  // namespace

ContainerBrief BriefOf(const model::ContainerSpec& spec) {
  return {spec.pod_uid,
          spec.name,
          spec.attempt,
          spec.qos,
          spec.namespaces.pid == model::NamespaceMode::kContainer,
          spec.root_fs.scratch,
          spec.stdin_open && !spec.tty};
}

std::string EncodeRecord(const SandboxRecord& record) { return Encode(Kind::kSandbox, record); }
std::string EncodeRecord(const ContainerRecord& record) { return Encode(Kind::kContainer, record); }
std::string EncodeRecord(const ContainerBrief& brief) { return Encode(Kind::kBrief, brief); }

Result<SandboxRecord> DecodeSandbox(std::string_view bytes) {
  return Decode<SandboxRecord>(Kind::kSandbox, bytes);
}
Result<ContainerRecord> DecodeContainer(std::string_view bytes) {
  return Decode<ContainerRecord>(Kind::kContainer, bytes);
}
Result<ContainerBrief> DecodeBrief(std::string_view bytes) {
  return Decode<ContainerBrief>(Kind::kBrief, bytes);
}

}  // namespace holdfast::runtime
