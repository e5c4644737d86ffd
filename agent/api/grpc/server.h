// SPDX-License-Identifier: Apache-2.0
// ApiServer: holdfast.v1.NodeAgent on a unix socket.
//
// Owns the listening socket, a thread that accepts and reads peer credentials, one gRPC server per
// set of permitted operations, and bounded worker threads for calls that block. Everything in
// ApiDependencies is borrowed and must outlive the server, except what is a value.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/base/clock.h"
#include "holdfast/base/ids.h"
#include "holdfast/base/result.h"
#include "holdfast/interfaces/container_runtime.h"
#include "holdfast/interfaces/image_store.h"
#include "holdfast/model/instance.h"

namespace k8s::io::api::core::v1 {
class Node;
}

namespace holdfast::agent {

class PodView;
class ServiceView;
struct EditedObject;

struct ApiDependencies {
  PodView& pods;
  ServiceView& services;
  ContainerRuntime& runtime;
  ImageStore& images;
  const Clock& clock;
  model::Instance instance;
  // ManifestEditor::Apply and ::Delete. Thread-safe; may block.
  std::function<Result<std::vector<EditedObject>>(const std::string& manifest,
                                                  const std::string& origin, bool dry_run,
                                                  const std::string& name_space)>
      apply;
  std::function<Result<EditedObject>(const std::string& kind, const std::string& object_namespace,
                                     const std::string& name)>
      delete_object;
  // The synthetic Node object. Thread-safe; may block on small files.
  std::function<k8s::io::api::core::v1::Node()> node;
  // ContainerRuntime::Audit and PodNetwork::Audit with the pods that are wanted or still ending.
  // The composition root supplies it, since only the pod table can keep a pod that is just being
  // made from counting as a leftover. Thread-safe; may block.
  std::function<Result<std::vector<Leftover>>(bool repair)> audit;
  // Sets the grace period of a pod whose manifest is about to be removed, or shortens that of one
  // that is ending; nullopt takes a wish back that came to nothing. Empty: Delete with a grace
  // period is kUnsupported. Thread-safe.
  std::function<void(const PodUid&, std::optional<std::chrono::seconds>)> set_deletion_grace;
  // Makes an edit of the manifest directory take effect now (ManifestDirectory::Reread); may be
  // empty, then the directory's own inotify finds it.
  std::function<void()> manifests_changed;
  std::string version;  // of the agent
};

struct ApiOptions {
  std::string socket_path;                // "" is Instance::ApiSocket()
  std::string audit_path;                 // "" is Instance::AuditLog()
  std::string group_file = "/etc/group";  // where api_group and its role groups are looked up
  uint64_t audit_max_bytes = 10ull << 20;
  uint32_t audit_max_files = 5;
  uint32_t connections_per_uid = 64;
  uint32_t connection_reserve = 8;  // per user, while all of those have calls at work
  uint32_t streams_per_connection = 128;
  std::chrono::seconds handshake_time{30};  // from connecting to the client's first words
  uint32_t pending_changes = 10'000;        // per watcher: objects changed and not yet read
  uint32_t exec_sessions = 64;
  uint32_t image_transfers = 4;
  std::chrono::milliseconds connection_idle = std::chrono::minutes(5);  // then it is closed
};

class ApiServer {
 public:
  // Listens when it returns. kConflict while another agent answers on the socket.
  static Result<std::unique_ptr<ApiServer>> Start(ApiDependencies dependencies,
                                                  ApiOptions options = {});
  // Cancels every call, ends every session and joins all threads. Removes the socket.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::agent
