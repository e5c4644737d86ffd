// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/messages.h"

#include "holdfast/base/strings.h"
#include "runtime/keeper/common/wire.h"

namespace holdfast::runtime::keeper {
namespace {

void PutList(Encoder& out, const std::vector<std::string>& list) {
  out.U32(static_cast<uint32_t>(list.size()));
  for (const std::string& item : list) out.Text(item);
}

std::vector<std::string> GetList(Decoder& in) {
  std::vector<std::string> list;
  for (uint32_t n = in.U32(); n > 0 && in.ok(); --n) list.push_back(in.Text());
  return list;
}

Error Unreadable(std::string_view what) {
  return InvalidArgument(std::string(what) + ": unreadable message");
}

}  // namespace

Error LaunchFailure::ToError() const {
  Code code = sys_errno != 0 ? CodeFromErrno(sys_errno) : Code::kInternal;
  if (step == "keeper" && sys_errno == 0) code = Code::kUnavailable;
  const std::string head = StrCat(step, ": ");
  return Error(code, text.starts_with(head) ? text : head + text);  // exec's texts begin so
}

std::string EncodeLaunch(const StartRecord& start) {
  return Encoder()
      .Text(start.id)
      .U8(static_cast<uint8_t>(start.kind))
      .U32(start.attempt)
      .U64(start.stdout_inode)
      .U64(start.stderr_inode)
      .Text(start.tag)
      .Take();
}

Result<StartRecord> DecodeLaunch(std::string_view payload) {
  Decoder in(payload);
  StartRecord start;
  start.id = in.Text();
  start.kind = static_cast<ProcessKind>(in.U8());
  start.attempt = in.U32();
  start.stdout_inode = in.U64();
  start.stderr_inode = in.U64();
  start.tag = in.Text();
  if (!in.AtEnd()) return Unreadable("launch");
  return start;
}

std::string Encode(const LaunchedPayload& payload) {
  Encoder out;
  out.I32(payload.pid)
      .U64(payload.start_ticks)
      .I64(payload.started_at.since_epoch.count())
      .U8(payload.has_pidfd ? 1 : 0)
      .U8(payload.has_pty ? 1 : 0);
  PutList(out, payload.warnings);
  return out.Take();
}

Result<LaunchedPayload> DecodeLaunched(std::string_view payload) {
  Decoder in(payload);
  LaunchedPayload out;
  out.pid = in.I32();
  out.start_ticks = in.U64();
  out.started_at.since_epoch = std::chrono::nanoseconds(in.I64());
  out.has_pidfd = in.U8() != 0;
  out.has_pty = in.U8() != 0;
  out.warnings = GetList(in);
  if (!in.AtEnd()) return Unreadable("launched");
  return out;
}

std::string Encode(const LaunchFailure& failure) {
  return Encoder()
      .Text(failure.step)
      .I32(failure.sys_errno)
      .Text(failure.text)
      .U8(failure.exec_failed ? 1 : 0)
      .Take();
}

Result<LaunchFailure> DecodeLaunchFailure(std::string_view payload) {
  Decoder in(payload);
  LaunchFailure out;
  out.step = in.Text();
  out.sys_errno = in.I32();
  out.text = in.Text();
  out.exec_failed = in.U8() != 0;
  if (!in.AtEnd()) return Unreadable("launch failure");
  return out;
}

std::string EncodeNames(const std::vector<std::string>& names) {
  Encoder out;
  PutList(out, names);
  return out.Take();
}

Result<std::vector<std::string>> DecodeNames(std::string_view payload) {
  Decoder in(payload);
  std::vector<std::string> names = GetList(in);
  if (!in.AtEnd()) return Unreadable("names");
  return names;
}

std::string Encode(const LogRegistration& registration) {
  return Encoder()
      .Text(registration.id)
      .Text(registration.spec.path)
      .U64(registration.spec.max_size_bytes)
      .U32(registration.spec.max_files)
      .U8(registration.tty ? 1 : 0)
      .Take();
}

Result<LogRegistration> DecodeLogRegistration(std::string_view payload) {
  Decoder in(payload);
  LogRegistration out;
  out.id = in.Text();
  out.spec.path = in.Text();
  out.spec.max_size_bytes = in.U64();
  out.spec.max_files = in.U32();
  out.tty = in.U8() != 0;
  if (!in.AtEnd()) return Unreadable("log registration");
  return out;
}

std::string Encode(const LogStatus& status) {
  return Encoder()
      .U8(status.drained ? 1 : 0)
      .U64(status.bytes_in)
      .U64(status.bytes_dropped)
      .U64(status.rotations)
      .Take();
}

Result<LogStatus> DecodeLogStatus(std::string_view payload) {
  Decoder in(payload);
  LogStatus out;
  out.drained = in.U8() != 0;
  out.bytes_in = in.U64();
  out.bytes_dropped = in.U64();
  out.rotations = in.U64();
  if (!in.AtEnd()) return Unreadable("log status");
  return out;
}

}  // namespace holdfast::runtime::keeper
