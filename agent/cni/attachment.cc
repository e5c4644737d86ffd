// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/attachment.h"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/lock_file.h"

namespace holdfast::agent::cni {
namespace {

constexpr char kVersion[] = "holdfast-cni-attachment 1";
constexpr size_t kRecordBytes = 8 << 20;  // a configuration and a result, each of 1 MiB at most
// A former agent that was killed just now still has the lock.
constexpr std::chrono::seconds kDyingTime{5};

Json EncodeNetwork(const NetworkConfig& network) {
  return {{"name", network.name},
          {"versions", network.versions},
          {"version", network.version},
          {"disableCheck", network.disable_check},
          {"disableGC", network.disable_gc},
          {"plugins", network.plugins}};
}

NetworkConfig DecodeNetwork(const Json& json) {
  NetworkConfig network;
  json.at("name").get_to(network.name);
  json.at("versions").get_to(network.versions);
  json.at("version").get_to(network.version);
  json.at("disableCheck").get_to(network.disable_check);
  json.at("disableGC").get_to(network.disable_gc);
  network.plugins = json.at("plugins").get<std::vector<Json>>();
  return network;
}

// It becomes a file's name.
Result<void> CheckUid(const PodUid& uid) {
  const bool fine = !uid.empty() && uid.value.size() <= 128 && uid.value.front() != '.' &&
                    std::ranges::all_of(uid.value, [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
                    });
  if (fine) return {};
  return InvalidArgument(StrCat("pod uid \"", uid.value, "\": not usable as a name"));
}

}  // namespace

std::string EncodeAttachment(const Attachment& attachment) {
  const PluginTarget& target = attachment.attached.target;
  const Json json = {{"kind", kVersion},
                     {"podNamespace", attachment.pod_namespace},
                     {"podName", attachment.pod_name},
                     {"containerId", target.container_id},
                     {"netns", target.netns},
                     {"ifName", target.interface},
                     {"args", target.args},
                     {"capabilityArgs", attachment.attached.capabilities},
                     {"network", EncodeNetwork(attachment.network)},
                     {"result", attachment.result},
                     {"detaching", attachment.detaching}};
  return Print(json) + "\n";
}

Result<Attachment> DecodeAttachment(const PodUid& uid, const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseObject(text));
  try {
    if (json.at("kind") != kVersion) return InvalidArgument("of an unknown version");
    Attachment attachment;
    attachment.uid = uid;
    PluginTarget& target = attachment.attached.target;
    json.at("podNamespace").get_to(attachment.pod_namespace);
    json.at("podName").get_to(attachment.pod_name);
    json.at("containerId").get_to(target.container_id);
    json.at("netns").get_to(target.netns);
    json.at("ifName").get_to(target.interface);
    json.at("args").get_to(target.args);
    attachment.attached.capabilities = json.at("capabilityArgs");
    attachment.network = DecodeNetwork(json.at("network"));
    attachment.result = json.at("result");
    json.at("detaching").get_to(attachment.detaching);
    return attachment;
  } catch (const Json::exception& error) {
    return InvalidArgument(error.what());
  }
}

Result<AttachmentStore> AttachmentStore::Open(const std::string& directory) {
  AttachmentStore store;
  ASSIGN_OR_RETURN(const DirFd top, sys::MakeDirs(AT_FDCWD, directory, 0700));
  auto lock = sys::TakeLock(top.get(), "lock", kDyingTime);
  if (!lock && lock.error().code() == Code::kConflict) {
    return Conflict(StrCat("another agent uses ", directory));
  }
  if (!lock) return std::move(lock.error());
  store.lock_ = std::move(*lock);
  ASSIGN_OR_RETURN(store.directory_, sys::MakeDirs(top.get(), "attachments", 0700));
  RETURN_IF_ERROR(sys::RemoveTemporariesAt(store.directory_.get(), "."));
  return store;
}

Result<AttachmentStore::Loaded> AttachmentStore::Load() const {
  Loaded loaded;
  ASSIGN_OR_RETURN(const auto names, sys::ListDirAt(directory_.get(), "."));
  for (const std::string& name : names) {
    auto text = sys::ReadFileAt(directory_.get(), name, kRecordBytes);
    auto attachment =
        text ? DecodeAttachment(PodUid(name), *text) : Result<Attachment>(text.error());
    if (attachment) {
      loaded.attachments.push_back(std::move(*attachment));
    } else {
      loaded.problems.push_back(StrCat("record of the network attachment of pod ", name, ": ",
                                       attachment.error().message()));
    }
  }
  return loaded;
}

Result<void> AttachmentStore::Save(const Attachment& attachment) const {
  RETURN_IF_ERROR(CheckUid(attachment.uid));
  return sys::WriteFileAtomicAt(directory_.get(), attachment.uid.value,
                                EncodeAttachment(attachment), 0600);
}

Result<void> AttachmentStore::Remove(const PodUid& uid) const {
  return sys::RemoveFileAt(directory_.get(), uid.value);
}

}  // namespace holdfast::agent::cni
