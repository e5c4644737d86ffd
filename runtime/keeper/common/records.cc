// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/wire.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr uint32_t kStartMagic = 0x54534648;  // "HFST"
constexpr uint32_t kExitMagic = 0x58454648;   // "HFEX"
constexpr uint16_t kRecordVersion = 1;
constexpr size_t kMaxRecordBytes = 16 * 1024;

std::string Encode(const StartRecord& r) {
  return Encoder()
      .U32(kStartMagic)
      .U16(kRecordVersion)
      .Text(r.id)
      .U8(static_cast<uint8_t>(r.kind))
      .U32(r.attempt)
      .I32(r.pid)
      .U64(r.start_ticks)
      .I64(r.started_at.since_epoch.count())
      .U64(r.stdout_inode)
      .U64(r.stderr_inode)
      .Text(r.tag)
      .Take();
}

Result<StartRecord> DecodeStart(const std::string& data) {
  Decoder in(data);
  if (in.U32() != kStartMagic) return InvalidArgument("not a start record");
  if (const uint16_t v = in.U16(); v != kRecordVersion) {
    return Unsupported(StrCat("start record of version ", v));
  }
  StartRecord r;
  r.id = in.Text();
  r.kind = static_cast<ProcessKind>(in.U8());
  r.attempt = in.U32();
  r.pid = in.I32();
  r.start_ticks = in.U64();
  r.started_at.since_epoch = std::chrono::nanoseconds(in.I64());
  r.stdout_inode = in.U64();
  r.stderr_inode = in.U64();
  r.tag = in.Text();
  if (!in.AtEnd()) return InvalidArgument("start record is cut off");
  return r;
}

std::string Encode(const ExitRecord& r) {
  return Encoder()
      .U32(kExitMagic)
      .U16(kRecordVersion)
      .Text(r.id)
      .I32(r.pid)
      .U64(r.start_ticks)
      .U8(static_cast<uint8_t>(r.report.source))
      .I32(r.report.exit_code)
      .I32(r.report.signal)
      .U8(r.report.oom_killed ? 1 : 0)
      .I64(r.report.finished_at.since_epoch.count())
      .Take();
}

Result<ExitRecord> DecodeExit(const std::string& data) {
  Decoder in(data);
  if (in.U32() != kExitMagic) return InvalidArgument("not an exit record");
  if (const uint16_t v = in.U16(); v != kRecordVersion) {
    return Unsupported(StrCat("exit record of version ", v));
  }
  ExitRecord r;
  r.id = in.Text();
  r.pid = in.I32();
  r.start_ticks = in.U64();
  r.report.source = static_cast<model::ExitReport::Source>(in.U8());
  r.report.exit_code = in.I32();
  r.report.signal = in.I32();
  r.report.oom_killed = in.U8() != 0;
  r.report.finished_at.since_epoch = std::chrono::nanoseconds(in.I64());
  if (!in.AtEnd()) return InvalidArgument("exit record is cut off");
  return r;
}

// The file's content, nullopt when there is no such file.
Result<std::optional<std::string>> ReadRecord(int dir, const std::string& id) {
  if (!IsValidId(id)) return InvalidArgument(StrCat("record id \"", id, "\" is not valid"));
  auto data = sys::ReadFileAt(dir, id, kMaxRecordBytes);
  if (data) return std::optional<std::string>(std::move(*data));
  if (data.error().sys_errno() == ENOENT) return std::optional<std::string>();
  return std::move(data.error()).Wrap(StrCat("record ", id));
}

Result<std::vector<std::string>> ListIds(int dir) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, sys::ListDirAt(dir, "."));
  std::erase_if(names, [](const std::string& name) { return !IsValidId(name); });
  return names;
}

// Nearly always it is there: each look at a record comes here.
Result<UniqueFd> OpenRecordDir(int run_dir, const char* path) {
  auto dir = sys::OpenAt(run_dir, path, O_RDONLY | O_DIRECTORY);
  if (dir || dir.error().code() != Code::kNotFound) return dir;
  RETURN_IF_ERROR(sys::MakeDirs(run_dir, path, 0700));
  return sys::OpenAt(run_dir, path, O_RDONLY | O_DIRECTORY);
}

}  // namespace

Result<Records> Records::Open(const std::string& run_dir) {
  ASSIGN_OR_RETURN(UniqueFd fd, sys::OpenAt(AT_FDCWD, run_dir, O_RDONLY | O_DIRECTORY));
  return OpenAt(std::move(fd));
}

Result<Records> Records::OpenAt(UniqueFd run_dir) {
  Records records;
  records.run_dir_ = std::move(run_dir);
  ASSIGN_OR_RETURN(records.starts_, OpenRecordDir(records.run_dir_.get(), kStartsDir));
  ASSIGN_OR_RETURN(records.exits_, OpenRecordDir(records.run_dir_.get(), kExitsDir));
  ASSIGN_OR_RETURN(records.begun_, OpenRecordDir(records.run_dir_.get(), kBegunDir));
  return records;
}

Result<void> Records::WriteStart(const StartRecord& record) const {
  if (!IsValidId(record.id)) return InvalidArgument("start record: the id is not valid");
  HOLDFAST_PAUSE_POINT("keeper.before-start-record");
  return sys::WriteFileAtomicAt(starts_.get(), record.id, Encode(record), 0600, false);
}

Result<std::optional<StartRecord>> Records::ReadStart(const std::string& id) const {
  ASSIGN_OR_RETURN(auto data, ReadRecord(starts_.get(), id));
  if (!data) return std::optional<StartRecord>();
  ASSIGN_OR_RETURN(StartRecord record, WithContext(DecodeStart(*data), id));
  return std::optional<StartRecord>(std::move(record));
}

Result<std::vector<StartRecord>> Records::ListStarts() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(starts_.get()));
  std::vector<StartRecord> records;
  for (const std::string& id : ids) {
    auto record = ReadStart(id);
    if (record && *record) records.push_back(std::move(**record));
  }
  return records;
}

Result<void> Records::RemoveStart(const std::string& id) const {
  RETURN_IF_ERROR(sys::RemoveFileAt(starts_.get(), id));
  RemoveBegun(id);
  return {};
}

Result<UniqueFd> Records::MakeBegun(const std::string& id) const {
  if (!IsValidId(id)) return InvalidArgument("begun mark: the id is not valid");
  RemoveBegun(id);  // a former launch's
  ASSIGN_OR_RETURN(UniqueFd mark,
                   sys::OpenAt(begun_.get(), id, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  // Written: the child's store into a hole would need space, and end it where there is none.
  if (::pwrite(mark.get(), "", 1, 0) == 1) return mark;
  const int err = errno;
  RemoveBegun(id);
  return Error::FromErrno(err, StrCat("begun mark ", id));
}

// Ignored when it fails: without its start record it says nothing.
void Records::RemoveBegun(const std::string& id) const {
  (void)sys::RemoveFileAt(begun_.get(), id);
}

bool Records::NeverBegan(const std::string& id) const {
  const auto mark = ReadRecord(begun_.get(), id);
  return mark && *mark && (*mark)->size() == 1 && (*mark)->front() == 0;
}

Result<void> Records::WriteExit(const ExitRecord& record) const {
  ASSIGN_OR_RETURN(const auto present, ReadExit(record.id));
  if (present && present->pid == record.pid && present->start_ticks == record.start_ticks) {
    return {};
  }
  return ReplaceExit(record);
}

Result<void> Records::ReplaceExit(const ExitRecord& record) const {
  return sys::WriteFileAtomicAt(exits_.get(), record.id, Encode(record), 0600, false);
}

Result<std::optional<ExitRecord>> Records::ReadExit(const std::string& id) const {
  ASSIGN_OR_RETURN(auto data, ReadRecord(exits_.get(), id));
  if (!data) return std::optional<ExitRecord>();
  ASSIGN_OR_RETURN(ExitRecord record, WithContext(DecodeExit(*data), id));
  return std::optional<ExitRecord>(std::move(record));
}

Result<std::optional<model::ExitReport>> Records::ExitOf(const StartRecord& start) const {
  ASSIGN_OR_RETURN(const auto exit, ReadExit(start.id));
  const bool same = exit && exit->pid == start.pid && exit->start_ticks == start.start_ticks;
  return same ? std::optional(exit->report) : std::nullopt;
}

Result<std::vector<ExitRecord>> Records::ListExits() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ListIds(exits_.get()));
  std::vector<ExitRecord> records;
  for (const std::string& id : ids) {
    auto record = ReadExit(id);
    if (record && *record) records.push_back(std::move(**record));
  }
  return records;
}

Result<void> Records::RemoveExit(const std::string& id) const {
  return sys::RemoveFileAt(exits_.get(), id);
}

Result<void> Records::RemoveExitIfForgotten(const std::string& id) const {
  ASSIGN_OR_RETURN(const auto start, ReadStart(id));
  if (start) return {};
  return RemoveExit(id);
}

}  // namespace holdfast::runtime::keeper
