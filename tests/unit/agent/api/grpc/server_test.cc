// SPDX-License-Identifier: Apache-2.0
// The server itself: changes by manifest, its socket, its end.
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

using ServerTest = ServerFixture;

TEST_F(ServerTest, AppliesDeletesAndChecks) {
  pods_.SetPod(RunningPod("web-node1", "uid-web"));
  grpc::ClientContext applying;
  v1::ApplyRequest apply;
  apply.set_manifest("kind: Pod");
  apply.set_origin("web.yaml");
  v1::ApplyResponse applied;
  ASSERT_TRUE(stub_->Apply(&applying, apply, &applied).ok());
  EXPECT_EQ(applied.objects(0).outcome(), v1::EditedObject::CREATED);

  grpc::ClientContext bad;
  apply.set_manifest("bad");
  const grpc::Status refused = stub_->Apply(&bad, apply, &applied);
  EXPECT_EQ(refused.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.error_message(), "web.yaml:1:1: not a manifest");

  grpc::ClientContext deleting;
  v1::DeleteRequest remove;
  remove.set_namespace_("default");
  remove.set_name("web");
  v1::DeleteResponse removed;
  ASSERT_TRUE(stub_->Delete(&deleting, remove, &removed).ok());
  EXPECT_NE(AuditText().find("\"target\":\"default/web\",\"targetUID\":\"uid-web\""),
            std::string::npos);

  grpc::ClientContext grace;
  remove.set_grace_period_seconds(0);
  EXPECT_EQ(stub_->Delete(&grace, remove, &removed).error_code(), StatusCode::UNIMPLEMENTED);

  grpc::ClientContext checking;
  v1::CheckResponse found;
  ASSERT_TRUE(stub_->Check(&checking, v1::CheckRequest(), &found).ok());
  EXPECT_EQ(found.leftovers(0).kind(), "cgroup");
  ASSERT_EQ(found.missing_rights_size(), 1);
  EXPECT_EQ(found.missing_rights(0).verb() + " " + found.missing_rights(0).resource() + ": " +
                found.missing_rights(0).without(),
            "list nodes: there are no routes");
  EXPECT_EQ(found.rights_manifest(), "kind: Binding");
  EXPECT_EQ(found.rights_unknown(), "no answer");
}

TEST_F(ServerTest, ASecondServerIsRefusedAndADeadSocketReplaced) {
  auto second = TryStart();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), Code::kConflict);
  stub_.reset();
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.socket_path));
  // What a killed agent leaves: a socket file without a listener.
  {
    const UniqueFd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    options_.socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  StartServer();
  struct stat info{};
  ASSERT_EQ(::stat(options_.socket_path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0660u);
  server_.reset();
  // Not a socket: somebody else's, never removed.
  std::ofstream(options_.socket_path) << "precious";
  second = TryStart();
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(ReadText(options_.socket_path), "precious");
}

TEST_F(ServerTest, StopsWithStreamsOpen) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto reader = stub_->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(reader->Read(&change));
  server_.reset();
  while (reader->Read(&change)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_EQ(pods_.watchers(), 0u);
}

}  // namespace
}  // namespace holdfast::agent
