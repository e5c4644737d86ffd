// SPDX-License-Identifier: Apache-2.0
// ApiFixture: a real ApiServer on a real socket in a temporary directory, over fakes.
#pragma once

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/access/audit.h"
#include "agent/api/grpc/server.h"
#include "holdfast/v1/node_agent.grpc.pb.h"
#include "tests/fakes/fake_exec_runtime.h"
#include "tests/fakes/fake_image_store.h"
#include "tests/fakes/fake_node_operations.h"
#include "tests/fakes/fake_pod_view.h"
#include "tests/fakes/fake_service_view.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::agent {

using test_support::Eventually;
using test_support::ReadText;

inline k8s::io::api::core::v1::Pod RunningPod(const std::string& name, const std::string& uid,
                                              const std::string& container_id = "c0ffee") {
  k8s::io::api::core::v1::Pod pod;
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->mutable_creationtimestamp()->set_seconds(1'700'000'000);
  (*pod.mutable_metadata()->mutable_labels())["app"] = name;
  pod.mutable_spec()->set_nodename("node1");
  pod.mutable_spec()->set_restartpolicy("Always");
  auto* container = pod.mutable_spec()->add_containers();
  container->set_name("app");
  container->set_image("nginx");
  auto* env = container->add_env();
  env->set_name("PASSWORD");
  env->set_value("secret");
  pod.mutable_status()->set_phase("Running");
  pod.mutable_status()->set_podip("10.88.0.5");
  auto* ready = pod.mutable_status()->add_conditions();
  ready->set_type("Ready");
  ready->set_status("True");
  auto* status = pod.mutable_status()->add_containerstatuses();
  status->set_name("app");
  status->set_ready(true);
  status->set_containerid("holdfast://" + container_id);
  status->mutable_state()->mutable_running()->mutable_startedat()->set_seconds(1'700'000'001);
  return pod;
}

class ApiFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "holdfast-api-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    ASSERT_EQ(::chmod(root_.c_str(), 0711), 0);
    options_.socket_path = root_ + "/run/holdfastd.sock";
    audit_path_ = root_ + "/audit/audit.log";
    audit_ = std::make_unique<access::AuditLog>(audit_path_, access::kAuditFileBytes,
                                                access::kAuditFiles, clock_);
    options_.group_file = root_ + "/group";
    std::ofstream(options_.group_file)
        << "root:x:0:\nholdfast:x:4242:\nholdfast-exec:x:4243:\nholdfast-viewer:x:4244:\n";
    node_.apply = [this](const std::string& manifest, const std::string& origin, bool,
                         const std::string& ns) -> Result<std::vector<EditedObject>> {
      const std::lock_guard lock(mutex_);
      applied_.push_back(manifest);
      if (manifest.starts_with("bad")) return InvalidArgument(origin + ":1:1: not a manifest");
      return std::vector<EditedObject>{{"Pod", ns.empty() ? "default" : ns, "web",
                                        "pod-default-web.yaml", EditOutcome::kCreated}};
    };
    node_.delete_object = [this](const std::string& kind, const std::string& object_namespace,
                                 const std::string& name) -> Result<EditedObject> {
      if (kind == "Service") {
        return EditedObject{kind, object_namespace, name, "s.yaml", EditOutcome::kDeleted};
      }
      if (name != "web") return NotFound("pods \"" + name + "\" not found");
      pods_.RemovePod("uid-web");
      return EditedObject{"Pod", object_namespace, name, "web.yaml", EditOutcome::kDeleted};
    };
  }

  void TearDown() override {
    server_.reset();
    std::filesystem::remove_all(root_);
  }

  // The node's operations are those of node_, as they are by then.
  Result<std::unique_ptr<ApiServer>> TryStart() {
    model::Instance instance;
    instance.node_name = "node1";
    instance.pod_log_dir = root_ + "/pods";
    return ApiServer::Start(node_, instance, clock_, *audit_, options_);
  }

  void StartServer() {
    auto started = TryStart();
    ASSERT_TRUE(started.has_value()) << started.error().message();
    server_ = std::move(*started);
  }

  // A connection of its own each time.
  std::unique_ptr<v1::NodeAgent::Stub> NewStub() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::NodeAgent::NewStub(grpc::CreateCustomChannel(
        "unix:" + options_.socket_path, grpc::InsecureChannelCredentials(), arguments));
  }

  std::string AuditText() const { return ReadText(audit_path_); }

  // The log file of container "app" of `pod`, run 0.
  std::string LogPath(const std::string& name, const std::string& uid) const {
    const std::string directory = root_ + "/pods/default_" + name + "_" + uid + "/app";
    std::filesystem::create_directories(directory);
    return directory + "/0.log";
  }

  std::string root_;
  std::string audit_path_;
  ApiOptions options_;
  SystemClock clock_;
  std::unique_ptr<access::AuditLog> audit_;
  FakePodView pods_;
  FakeServiceView services_;
  FakeExecRuntime runtime_;
  FakeImageStore images_;
  FakeNodeOperations node_{pods_, services_, runtime_, images_};
  std::mutex mutex_;
  std::vector<std::string> applied_;
  std::unique_ptr<ApiServer> server_;
};

}  // namespace holdfast::agent
