// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_allocations.h"

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "agent/kube/pod_identity.h"
#include "agent/proxy/convert.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;
using model::ServiceName;

constexpr int kAllocationsVersion = 1;
constexpr char kFile[] = "records";
constexpr size_t kRecordLimit = 1u << 20;
constexpr std::string_view kSuffix = ".json";

// What the UID is made from, and the file that a service had for itself in former versions.
// Namespaces and names hold neither "_" nor "/".
std::string FileOf(const ServiceName& name) {
  return StrCat(name.object_namespace, "_", name.name, kSuffix);
}

Json ToJson(const ServiceName& name) {
  return {
      {"version", kAllocationsVersion}, {"namespace", name.object_namespace}, {"name", name.name}};
}

std::string LineOf(const ServiceName& name, const ServiceRecord& record) {
  Json json = ToJson(name);
  json["created"] = record.created;
  json["clusterIPs"] = record.cluster_ips;
  json["nodePorts"] = record.node_ports;
  json["healthCheckNodePort"] = record.health_check_port;
  return json.dump();
}

std::string LineOfForgotten(const ServiceName& name) {
  Json json = ToJson(name);
  json["forgotten"] = true;
  return json.dump();
}

Result<Json> Parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("version", Json(0)) != kAllocationsVersion) {
    return InvalidArgument("damaged, or of another version");
  }
  return json;
}

Result<ServiceRecord> RecordOf(const Json& json) {
  try {
    ServiceRecord record;
    record.created = json.at("created");
    record.cluster_ips = json.at("clusterIPs").get<std::vector<std::string>>();
    record.node_ports = json.at("nodePorts").get<std::map<std::string, uint16_t>>();
    record.health_check_port = json.at("healthCheckNodePort");
    return record;
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat("damaged: ", error.what()));
  }
}

struct Line {
  ServiceName name;
  std::optional<ServiceRecord> record;  // none: forgotten
};

Result<Line> ReadLine(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  Line line;
  try {
    line.name = {json.at("namespace"), json.at("name")};
    if (json.value("forgotten", false)) return line;
  } catch (const Json::exception& error) {
    return InvalidArgument(StrCat("damaged: ", error.what()));
  }
  ASSIGN_OR_RETURN(line.record, RecordOf(json));
  return line;
}

}  // namespace

Result<ServiceAllocations> ServiceAllocations::Open(const std::string& directory,
                                                    ServiceRanges ranges, const Clock& clock) {
  ASSIGN_OR_RETURN(DirFd for_files, sys::MakeDirs(AT_FDCWD, directory, 0750));
  ASSIGN_OR_RETURN(DirFd for_log, sys::OpenDir(directory));
  const std::string what = StrCat("service records in ", directory);
  ASSIGN_OR_RETURN(RecordLog log, WithContext(RecordLog::Open(std::move(for_log), kFile), what));
  ServiceAllocations book(std::move(log), std::move(ranges), clock);
  book.ReadLines();
  RETURN_IF_ERROR(WithContext(book.TakeOverFiles(for_files.get()), what));
  for (const auto& [name, record] : book.records_) book.taken_.Claim(name, record);
  return book;
}

void ServiceAllocations::ReadLines() {
  size_t number = 0;
  for (const std::string& text : log_.TakeLines()) {
    ++number;
    auto line = ReadLine(text);
    if (!line) {
      warnings_.push_back(StrCat("service record in line ", number, ": ", line.error().message()));
    } else if (line->record) {
      records_[line->name] = std::move(*line->record);
    } else {
      records_.erase(line->name);
    }
  }
}

// Former versions wrote a file per service. They go when all of it is in the one file.
Result<void> ServiceAllocations::TakeOverFiles(int directory) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, sys::ListDirAt(directory, "."));
  std::vector<std::string> taken_over;
  for (const std::string& file : files) {
    const size_t split = file.find('_');
    if (!file.ends_with(kSuffix) || split == std::string::npos) continue;
    const ServiceName name{file.substr(0, split),
                           file.substr(split + 1, file.size() - split - 1 - kSuffix.size())};
    const auto text = sys::ReadFileAt(directory, file, kRecordLimit);
    const auto json = text ? Parse(*text) : Result<Json>(text.error());
    auto record = json ? RecordOf(*json) : Result<ServiceRecord>(json.error());
    if (!record) {
      warnings_.push_back(StrCat("service record ", file, ": ", record.error().message()));
      continue;
    }
    records_.emplace(name, std::move(*record));
    taken_over.push_back(file);
  }
  if (taken_over.empty()) return {};
  RETURN_IF_ERROR(log_.Replace(AllLines()));
  for (const std::string& file : taken_over) RETURN_IF_ERROR(sys::RemoveFileAt(directory, file));
  return {};
}

std::vector<std::string> ServiceAllocations::AllLines() const {
  std::vector<std::string> lines;
  for (const auto& [name, record] : records_) lines.push_back(LineOf(name, record));
  return lines;
}

void ServiceAllocations::Set(const ServiceName& name, ServiceRecord record) {
  log_.Append(LineOf(name, record));
  taken_.Release(name);
  taken_.Claim(name, record);
  records_[name] = std::move(record);
  unsynced_.insert(name);
}

std::vector<ServiceTrouble> ServiceAllocations::Complete(corev1::Service* service) {
  const ServiceName name = NameOf(*service);
  const auto found = records_.find(name);
  const bool is_new = found == records_.end();
  ServiceRecord old = is_new ? ServiceRecord{} : found->second;
  if (is_new) {
    old.created = std::chrono::floor<std::chrono::seconds>(clock_->Wall().since_epoch).count();
  }
  CompletedService completed = CompleteService(service, old, ranges_, taken_, name);
  auto& meta = *service->mutable_metadata();
  meta.mutable_creationtimestamp()->set_seconds(completed.record.created);
  if (meta.uid().empty()) {
    meta.set_uid(
        kube::HashFnv128a(StrCat("Service/", FileOf(name), "/", completed.record.created)));
  }
  if (is_new || completed.record != old) Set(name, std::move(completed.record));
  return std::move(completed.troubles);
}

void ServiceAllocations::Forget(const ServiceName& name) {
  if (records_.erase(name) == 0) return;
  taken_.Release(name);
  unsynced_.erase(name);
  log_.Append(LineOfForgotten(name));
}

Result<void> ServiceAllocations::Sync() {
  if (log_.IsSynced()) return {};
  RETURN_IF_ERROR(WithContext(
      log_.IsLongFor(records_.size()) ? log_.Replace(AllLines()) : log_.Sync(), "service records"));
  unsynced_.clear();
  return {};
}

std::vector<ServiceName> ServiceAllocations::Names() const {
  std::vector<ServiceName> names;
  for (const auto& [name, record] : records_) names.push_back(name);
  return names;
}

}  // namespace holdfast::agent
