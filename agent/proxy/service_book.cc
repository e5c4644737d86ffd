// SPDX-License-Identifier: Apache-2.0
#include "agent/proxy/service_book.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "agent/kube/pod_identity.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent {
namespace {

using Json = nlohmann::json;
using model::ServiceName;

constexpr int kVersion = 1;
constexpr size_t kRecordLimit = 1u << 20;
constexpr std::string_view kSuffix = ".json";

// Namespaces and names hold neither "_" nor "/".
std::string FileOf(const ServiceName& name) {
  return StrCat(name.object_namespace, "_", name.name, kSuffix);
}

}  // namespace

Result<ServiceBook> ServiceBook::Open(const std::string& directory, ServiceRanges ranges,
                                      const Clock& clock) {
  ASSIGN_OR_RETURN(DirFd dir, sys::MakeDirs(AT_FDCWD, directory, 0750));
  ServiceBook book(std::move(dir), std::move(ranges), clock);
  RETURN_IF_ERROR(WithContext(book.Load(), StrCat("service records in ", directory)));
  return book;
}

Result<void> ServiceBook::Load() {
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(directory_.get(), "."));
  ASSIGN_OR_RETURN(const std::vector<std::string> files, sys::ListDirAt(directory_.get(), "."));
  for (const std::string& file : files) {
    const size_t split = file.find('_');
    if (!file.ends_with(kSuffix) || split == std::string::npos) continue;
    const ServiceName name{file.substr(0, split),
                           file.substr(split + 1, file.size() - split - 1 - kSuffix.size())};
    const auto text = sys::ReadFileAt(directory_.get(), file, kRecordLimit);
    const auto record = text ? Decode(*text) : Result<ServiceRecord>(text.error());
    if (!record) {
      warnings_.push_back(StrCat("service record ", file, ": ", record.error().message()));
      continue;
    }
    records_[name] = *record;
    taken_.Claim(name, *record);
  }
  return {};
}

Result<ServiceRecord> ServiceBook::Decode(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("version", 0) != kVersion) {
    return InvalidArgument("damaged, or of another version");
  }
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

std::string ServiceBook::Encode(const ServiceRecord& record) {
  const Json json = {{"version", kVersion},
                     {"created", record.created},
                     {"clusterIPs", record.cluster_ips},
                     {"nodePorts", record.node_ports},
                     {"healthCheckNodePort", record.health_check_port}};
  return json.dump() + "\n";
}

Result<std::vector<ServiceTrouble>> ServiceBook::Complete(corev1::Service* service, bool durable) {
  const ServiceName name{service->metadata().namespace_(), service->metadata().name()};
  const auto found = records_.find(name);
  const bool is_new = found == records_.end();
  ServiceRecord old = is_new ? ServiceRecord{} : found->second;
  if (is_new) {
    old.created = std::chrono::floor<std::chrono::seconds>(clock_->Wall().since_epoch).count();
  }
  CompletedService completed = CompleteService(service, old, ranges_, taken_, name);
  if (is_new || completed.record != old) {
    RETURN_IF_ERROR(WithContext(sys::WriteFileAtomicAt(directory_.get(), FileOf(name),
                                                       Encode(completed.record), 0600, durable),
                                "service record"));
    if (!durable) synced_ = false;
    HOLDFAST_PAUSE_POINT("proxy.service_recorded");
    taken_.Release(name);
    taken_.Claim(name, completed.record);
    records_[name] = completed.record;
  }
  auto& meta = *service->mutable_metadata();
  meta.mutable_creationtimestamp()->set_seconds(completed.record.created);
  if (meta.uid().empty()) {
    meta.set_uid(
        kube::HashFnv128a(StrCat("Service/", FileOf(name), "/", completed.record.created)));
  }
  return std::move(completed.troubles);
}

Result<void> ServiceBook::Sync() {
  if (synced_) return {};
  ASSIGN_OR_RETURN(const UniqueFd fd,
                   sys::OpenAt(directory_.get(), ".", O_RDONLY | O_DIRECTORY));  // not O_PATH
  if (::syncfs(fd.get()) != 0) return Error::FromErrno(errno, "syncfs of the service records");
  synced_ = true;
  return {};
}

Result<void> ServiceBook::Forget(const ServiceName& name) {
  const auto found = records_.find(name);
  if (found == records_.end()) return {};
  RETURN_IF_ERROR(sys::RemoveFileAt(directory_.get(), FileOf(name)));
  HOLDFAST_PAUSE_POINT("proxy.service_forgotten");
  taken_.Release(name);
  records_.erase(found);
  return {};
}

std::vector<ServiceName> ServiceBook::Names() const {
  std::vector<ServiceName> names;
  for (const auto& [name, record] : records_) names.push_back(name);
  return names;
}

}  // namespace holdfast::agent
