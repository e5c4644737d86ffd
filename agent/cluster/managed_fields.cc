// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/managed_fields.h"

#include <array>
#include <optional>
#include <span>

namespace holdfast::agent {
namespace {

constexpr std::string_view kEnvelopeStart{"k8s\0", 4};

// Numbers of the fields that lead from the envelope (raw = 2) over the object (metadata = 1; of a list items = 2) to
// managedFields = 17.
constexpr std::array<uint64_t, 3> kOfObject = {2, 1, 17};
constexpr std::array<uint64_t, 4> kOfList = {2, 2, 1, 17};

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::optional<uint64_t> TakeNumber(std::string_view& bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

void AddNumber(uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// The content of a field whose tag was taken; fixed and varint ones count their own bytes.
std::optional<std::string_view> TakeContent(uint64_t wire_type, std::string_view& bytes) {
  const std::string_view before = bytes;
  uint64_t size = 0;
  switch (wire_type) {
    case kVarint:
      if (!TakeNumber(bytes)) return std::nullopt;
      return before.substr(0, before.size() - bytes.size());
    case kBytes:
      if (const auto length = TakeNumber(bytes)) {
        size = *length;
        break;
      }
      return std::nullopt;
    case kFixed64:
      size = 8;
      break;
    case kFixed32:
      size = 4;
      break;
    default:  // groups do not occur in Kubernetes' types
      return std::nullopt;
  }
  if (size > bytes.size()) return std::nullopt;
  const std::string_view content = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return content;
}

// Appends `message` without what `path` leads to; false when it cannot be read.
bool Cut(std::string_view message, std::span<const uint64_t> path, std::string& out) {
  while (!message.empty()) {
    const std::string_view before = message;
    const auto tag = TakeNumber(message);
    if (!tag) return false;
    const std::string_view tag_text = before.substr(0, before.size() - message.size());
    const auto content = TakeContent(*tag & 7, message);
    if (!content) return false;
    if (*tag >> 3 != path.front() || (*tag & 7) != kBytes) {
      out.append(before.substr(0, before.size() - message.size()));
    } else if (path.size() > 1) {
      std::string inner;
      inner.reserve(content->size());
      if (!Cut(*content, path.subspan(1), inner)) return false;
      out.append(tag_text);
      AddNumber(inner.size(), out);
      out.append(inner);
    }
  }
  return true;
}

}  // namespace

std::string WithoutManagedFields(std::string_view envelope, EnvelopeHolds holds) {
  if (!envelope.starts_with(kEnvelopeStart)) return std::string(envelope);
  const std::span<const uint64_t> path = holds == EnvelopeHolds::kList
                                             ? std::span<const uint64_t>(kOfList)
                                             : std::span<const uint64_t>(kOfObject);
  std::string out(kEnvelopeStart);
  out.reserve(envelope.size());
  if (!Cut(envelope.substr(kEnvelopeStart.size()), path, out)) return std::string(envelope);
  return out;
}

}  // namespace holdfast::agent
