// SPDX-License-Identifier: Apache-2.0
#include "runtime/state/store.h"

#include <stdio.h>

#include <algorithm>
#include <cerrno>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "runtime/state/paths.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kRecordLimit = 16u << 20;  // argv and env may hold 2 MiB and more
constexpr mode_t kRecordMode = 0600;
constexpr mode_t kStateMode = 0700;

Result<void> Write(int dir, const std::string& name, const std::string& bytes) {
  if (!IsSafeName(name)) return InvalidArgument(StrCat("\"", name, "\" cannot name a record"));
  return WithContext(sys::WriteFileAtomicAt(dir, name, bytes, kRecordMode, false), "write record");
}

// Aside, so that it neither hides nor is lost; the name is free for a new record.
void PutAside(int dir, const std::string& name) {
  ::renameat(dir, name.c_str(), dir, (name + kCorruptSuffix).c_str());
}

template <class T>
Result<T> Read(int dir, const std::string& name, Result<T> (*decode)(std::string_view)) {
  if (!IsSafeName(name)) return NotFound(StrCat("no record \"", name, "\""));
  auto bytes = sys::ReadFileAt(dir, name, kRecordLimit);
  if (!bytes && bytes.error().code() == Code::kNotFound) return std::move(bytes.error());
  auto record = bytes ? decode(*bytes) : Result<T>(std::move(bytes.error()));
  if (record) return record;
  PutAside(dir, name);
  return NotFound(StrCat("record ", name, ": ", record.error().message()));
}

bool IsRecordName(const std::string& name) {
  return IsSafeName(name) && !name.ends_with(kCorruptSuffix);
}

template <class T>
Result<std::vector<T>> ReadAll(int dir, Result<T> (*decode)(std::string_view)) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir, "."));
  std::vector<T> records;
  for (const std::string& name : names) {
    if (!IsRecordName(name)) continue;
    auto record = Read(dir, name, decode);
    if (record) records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace

bool IsSafeName(const std::string& id) {
  if (id.empty() || id.size() > 128 || id[0] == '.') return false;
  return std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  });
}

Result<StateStore> StateStore::Open(const std::string& run_dir) {
  ASSIGN_OR_RETURN(const DirFd run, sys::OpenDir(run_dir));
  ASSIGN_OR_RETURN(DirFd root, sys::MakeDirs(run.get(), kStateDir, kStateMode));
  ASSIGN_OR_RETURN(DirFd sandboxes, sys::MakeDirs(root.get(), kSandboxesDir, kStateMode));
  ASSIGN_OR_RETURN(DirFd containers, sys::MakeDirs(root.get(), kContainersDir, kStateMode));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(sandboxes.get(), "."));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(containers.get(), "."));
  return StateStore(std::move(root), std::move(sandboxes), std::move(containers));
}

Result<void> StateStore::Put(const SandboxRecord& record) const {
  RETURN_IF_ERROR(Write(sandboxes_.get(), record.spec.uid.value, EncodeRecord(record)));
  HOLDFAST_PAUSE_POINT("state.sandbox_written");
  return {};
}

Result<void> StateStore::Put(const ContainerRecord& record) const {
  RETURN_IF_ERROR(Write(containers_.get(), record.spec.id.value, EncodeRecord(record)));
  HOLDFAST_PAUSE_POINT("state.container_written");
  return {};
}

Result<SandboxRecord> StateStore::Sandbox(const PodUid& uid) const {
  return Read(sandboxes_.get(), uid.value, DecodeSandbox);
}

Result<ContainerRecord> StateStore::Container(const ContainerId& id) const {
  return Read(containers_.get(), id.value, DecodeContainer);
}

Result<void> StateStore::RemoveSandbox(const PodUid& uid) const {
  if (!IsSafeName(uid.value)) return {};
  RETURN_IF_ERROR(sys::RemoveFileAt(sandboxes_.get(), uid.value));
  HOLDFAST_PAUSE_POINT("state.sandbox_removed");
  return {};
}

Result<void> StateStore::RemoveContainer(const ContainerId& id) const {
  if (!IsSafeName(id.value)) return {};
  RETURN_IF_ERROR(sys::RemoveFileAt(containers_.get(), id.value));
  HOLDFAST_PAUSE_POINT("state.container_removed");
  return {};
}

Result<std::vector<SandboxRecord>> StateStore::Sandboxes() const {
  return ReadAll(sandboxes_.get(), DecodeSandbox);
}

Result<std::vector<ContainerRecord>> StateStore::Containers() const {
  return ReadAll(containers_.get(), DecodeContainer);
}

Result<std::vector<std::string>> StateStore::Corrupt() const {
  std::vector<std::string> found;
  for (const auto& [dir, prefix] :
       {std::pair{&sandboxes_, kSandboxesDir}, std::pair{&containers_, kContainersDir}}) {
    ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(dir->get(), "."));
    for (const std::string& name : names) {
      if (name.ends_with(kCorruptSuffix)) found.push_back(StrCat(prefix, "/", name));
    }
  }
  return found;
}

Result<void> StateStore::RemoveCorrupt(const std::string& name) const {
  return sys::RemoveTreeAt(root_.get(), name);
}

}  // namespace holdfast::runtime
