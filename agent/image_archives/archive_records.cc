// SPDX-License-Identifier: Apache-2.0
#include "agent/image_archives/archive_records.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr int kRecordsVersion = 1;
constexpr size_t kMaxRecords = 16 << 20;

ArchiveRecord ReadRecord(const nlohmann::json& json) {
  ArchiveRecord record;
  record.stamp.inode = json.at("inode").get<uint64_t>();
  record.stamp.size = json.at("size").get<int64_t>();
  record.stamp.modified_nanos = json.at("modified").get<int64_t>();
  for (const auto& id : json.at("images")) record.images.emplace_back(id.get<std::string>());
  return record;
}

ArchiveRecords ReadRecords(const std::string& path) {
  ArchiveRecords records;
  const auto text = sys::ReadFileAt(AT_FDCWD, path, kMaxRecords);
  if (!text) return records;
  try {
    const auto json = nlohmann::json::parse(*text);
    if (json.at("version") != kRecordsVersion) return records;
    for (const auto& [name, record] : json.at("archives").items()) {
      records.emplace(name, ReadRecord(record));
    }
  } catch (const nlohmann::json::exception&) {
    records.clear();
  }
  return records;
}

std::string RecordsText(const ArchiveRecords& records) {
  nlohmann::json archives = nlohmann::json::object();
  for (const auto& [name, record] : records) {
    if (record.images.empty()) continue;
    nlohmann::json images = nlohmann::json::array();
    for (const Digest& id : record.images) images.push_back(id.value);
    archives[name] = {{"inode", record.stamp.inode},
                      {"size", record.stamp.size},
                      {"modified", record.stamp.modified_nanos},
                      {"images", std::move(images)}};
  }
  const nlohmann::json json = {{"version", kRecordsVersion}, {"archives", std::move(archives)}};
  // A file's name may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::vector<std::string> ArchivesToImport(const ArchiveFiles& files, const ArchiveRecords& records,
                                          const std::function<bool(const Digest&)>& is_here) {
  std::vector<std::string> wanted;
  for (const auto& [name, stamp] : files) {
    const auto known = records.find(name);
    const ArchiveRecord record = known == records.end() ? ArchiveRecord() : known->second;
    const bool in_vain = record.final_error && record.tried == stamp;
    const bool done = record.stamp == stamp && !record.images.empty() &&
                      std::ranges::all_of(record.images, is_here);
    if (!in_vain && !done) wanted.push_back(name);
  }
  return wanted;
}

bool IsArchiveName(const std::string& name) {
  return !name.empty() && !name.starts_with('.') && !name.ends_with(".part") &&
         !name.ends_with(".tmp");
}

ArchiveBook::ArchiveBook(std::string path) : path_(std::move(path)), records_(ReadRecords(path_)) {}

std::string ArchiveBook::PinnedBy(const Digest& id) const {
  const std::lock_guard hold(mutex_);
  for (const auto& [name, record] : records_) {
    if (std::ranges::find(record.images, id) != record.images.end()) return "archive " + name;
  }
  return "";
}

ArchiveRecords ArchiveBook::records() const {
  const std::lock_guard hold(mutex_);
  return records_;
}

Result<void> ArchiveBook::NoteImported(const std::string& name, const ArchiveStamp& stamp,
                                       std::vector<Digest> images) {
  {
    const std::lock_guard hold(mutex_);
    records_.insert_or_assign(name, ArchiveRecord{stamp, std::move(images), {}, {}, false});
  }
  return Write();
}

bool ArchiveBook::NoteFailure(const std::string& name, const ArchiveStamp& stamp,
                              const std::string& error, bool is_final) {
  const std::lock_guard hold(mutex_);
  // What the file brought before it changed stays.
  ArchiveRecord& known = records_[name];
  const bool noted = known.tried == stamp && known.error == error;
  known.tried = stamp;
  known.error = error;
  known.final_error = is_final;
  return !noted;
}

Result<void> ArchiveBook::Retain(const ArchiveFiles& files) {
  {
    const std::lock_guard hold(mutex_);
    const size_t gone =
        std::erase_if(records_, [&](const auto& record) { return !files.contains(record.first); });
    if (gone == 0) return {};
  }
  return Write();
}

Result<void> ArchiveBook::Write() const {
  const size_t slash = path_.rfind('/');
  ASSIGN_OR_RETURN(const DirFd directory, sys::OpenDir(path_.substr(0, slash)));
  return sys::WriteFileAtomicAt(directory.get(), path_.substr(slash + 1), RecordsText(records()),
                                0600);
}

}  // namespace holdfast::agent
