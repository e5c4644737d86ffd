// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/grpc_health.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "agent/kube/varint.h"
#include "holdfast/base/grpc_code.h"
#include "holdfast/base/percent.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

using runtime::http::Find;
using runtime::http::Headers;
using How = CheckOutcome::How;

constexpr int kUnimplemented = 12;
constexpr std::array kStates = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
constexpr size_t kServing = 1;
constexpr size_t kFrameHead = 5;

void AppendVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

// Leaves out a field of that wire type; false: there is no such.
bool Skip(std::string_view& in, uint64_t wire) {
  if (wire == 0) return kube::TakeVarint(in).has_value();
  const auto size = wire == 2 ? kube::TakeVarint(in) : std::optional<uint64_t>(wire == 1 ? 8 : 4);
  if ((wire != 1 && wire != 2 && wire != 5) || !size || *size > in.size()) return false;
  in.remove_prefix(*size);
  return true;
}

// The `status` of a HealthCheckResponse; nullopt: it is none.
std::optional<uint64_t> StatusField(std::string_view message) {
  uint64_t status = 0;
  while (!message.empty()) {
    const auto tag = kube::TakeVarint(message);
    if (!tag) return std::nullopt;
    if (*tag == (1 << 3)) {
      const auto value = kube::TakeVarint(message);
      if (!value) return std::nullopt;
      status = *value;
    } else if (!Skip(message, *tag & 7)) {
      return std::nullopt;
    }
  }
  return status;
}

// The message in the only frame, uncompressed.
std::optional<std::string_view> Unframed(std::string_view body) {
  if (body.size() < kFrameHead || body[0] != 0) return std::nullopt;
  uint32_t size = 0;
  for (size_t i = 1; i < kFrameHead; ++i) size = size << 8 | static_cast<uint8_t>(body[i]);
  if (body.size() - kFrameHead != size) return std::nullopt;
  return body.substr(kFrameHead);
}

CheckOutcome Failed(std::string_view code, std::string_view text) {
  return {How::kFailure,
          StrCat("error: health rpc probe failed: rpc error: code = ", code, " desc = ", text)};
}

}  // namespace

std::string HealthQuestion(const std::string& service) {
  std::string message;
  if (!service.empty()) {
    message += static_cast<char>(1 << 3 | 2);
    AppendVarint(message, service.size());
    message += service;
  }
  std::string frame(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    frame += static_cast<char>(message.size() >> shift & 0xff);
  }
  return frame + message;
}

CheckOutcome HealthOutcome(int http_status, const Headers& fields, std::string_view body) {
  if (http_status != 200) {
    return Failed("Unknown",
                  StrCat("unexpected HTTP status code received from server: ", http_status));
  }
  const std::string_view status = Find(fields, "grpc-status");
  int code = -1;
  (void)std::from_chars(status.data(), status.data() + status.size(), code);  // else it is -1
  const std::string text = PercentDecoded(Find(fields, "grpc-message"));
  if (code == kUnimplemented) {
    return {How::kFailure, StrCat("error: this server does not implement the grpc health protocol "
                                  "(grpc.health.v1.Health): ",
                                  text)};
  }
  if (code < 0) return Failed("Internal", "server closed the stream without sending trailers");
  if (code != 0) return Failed(GrpcCodeName(static_cast<size_t>(code)), text);
  const auto message = Unframed(body);
  const auto state = message ? StatusField(*message) : std::nullopt;
  if (!state) return Failed("Internal", "grpc: the answer is no HealthCheckResponse");
  if (*state == kServing) return {How::kSuccess, "service healthy"};
  const std::string name = *state < kStates.size() ? kStates[*state] : StrCat(*state);
  return {How::kFailure, StrCat("service unhealthy (responded with \"", name, "\")")};
}

}  // namespace holdfast::agent
