// SPDX-License-Identifier: Apache-2.0
// Log streams: following, refusals, limits.
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <vector>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

class LogStreamsTest : public ServerFixture {
 protected:
  // What a finished log stream printed: "1 2 3".
  std::string Logs(v1::LogsRequest request, grpc::Status* status = nullptr) {
    request.set_namespace_("default");
    grpc::ClientContext context;
    const auto reader = stub_->Logs(&context, request);
    v1::LogsResponse response;
    std::string text;
    while (reader->Read(&response)) {
      for (const auto& line : response.lines()) text += (text.empty() ? "" : " ") + line.text();
    }
    const grpc::Status end = reader->Finish();
    if (status != nullptr) *status = end;
    return text;
  }
};

TEST_F(LogStreamsTest, LogsFollowOverRotationRestartAndEnd) {
  const std::string path = LogPath("web", "uid-web");
  const auto line = [](int number) {
    return "2026-11-21T07:19:3" + std::to_string(number) + "Z stdout F " + std::to_string(number) +
           "\n";
  };
  std::ofstream(path) << line(1) << line(2);
  auto pod = RunningPod("web", "uid-web");
  pods_.SetPod(pod);
  v1::LogsRequest request;
  request.set_pod("web");
  EXPECT_EQ(Logs(request), "1 2");
  request.set_tail_lines(1);
  EXPECT_EQ(Logs(request), "2");

  grpc::ClientContext context;
  request.set_namespace_("default");
  request.set_follow(true);
  const auto reader = stub_->Logs(&context, request);
  v1::LogsResponse response;
  const auto next = [&] { return reader->Read(&response) ? response.lines(0).text() : "(end)"; };
  EXPECT_EQ(next(), "2");
  std::ofstream(path, std::ios::app) << line(3);
  EXPECT_EQ(next(), "3");
  std::filesystem::rename(path, path + ".20260101-000000");
  std::ofstream(path) << line(4);
  EXPECT_EQ(next(), "4");
  // Restarted: run 1 logs to its own file.
  pod.mutable_status()->mutable_containerstatuses(0)->set_restartcount(1);
  std::ofstream(path.substr(0, path.size() - 5) + "1.log") << line(5);
  pods_.SetPod(pod);
  EXPECT_EQ(next(), "5");
  pods_.RemovePod("uid-web");
  EXPECT_EQ(next(), "(end)");
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(LogStreamsTest, LogsSayWhyThereAreNone) {
  auto pod = RunningPod("web", "uid-web");
  auto* state = pod.mutable_status()->mutable_containerstatuses(0)->mutable_state();
  state->mutable_waiting()->set_reason("ContainerCreating");
  state->clear_running();
  pods_.SetPod(pod);
  v1::LogsRequest request;
  request.set_pod("web");
  grpc::Status status;
  Logs(request, &status);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(),
            "container \"app\" in pod \"web\" is waiting to start: ContainerCreating");
  request.set_previous(true);
  Logs(request, &status);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  request.set_container("nope");
  Logs(request, &status);
  EXPECT_EQ(status.error_message(),
            "container nope is not valid for pod web, choose one of: [app]");
}

TEST_F(LogStreamsTest, LogLimitsBytesAndStreams) {
  std::ofstream(LogPath("web", "uid-web"))
      << "2026-11-21T07:19:31Z stdout F abcdef\n2026-11-21T07:19:32Z stderr F ghi\n";
  pods_.SetPod(RunningPod("web", "uid-web"));
  v1::LogsRequest request;
  request.set_pod("web");
  request.set_limit_bytes(9);
  EXPECT_EQ(Logs(request), "abcdef gh");
  request.clear_limit_bytes();
  request.set_stream(v1::LOG_STREAM_STDERR);
  EXPECT_EQ(Logs(request), "ghi");
}

// As a container does that has the pod log directory mounted.
TEST_F(LogStreamsTest, LogsShowNothingThroughLinks) {
  const std::string path = LogPath("web", "uid-web");
  const std::string line = "2026-11-21T07:19:31Z stdout F HOSTLOGSECRET\n";
  std::filesystem::create_directories(root_ + "/canary");
  std::ofstream(root_ + "/canary/0.log") << line;
  pods_.SetPod(RunningPod("web", "uid-web"));
  v1::LogsRequest request;
  request.set_pod("web");
  grpc::Status status;

  std::filesystem::create_hard_link(root_ + "/canary/0.log", path);
  EXPECT_EQ(Logs(request, &status), "");
  EXPECT_FALSE(status.ok());
  std::filesystem::remove(path);
  std::filesystem::create_symlink(root_ + "/canary/0.log", path);
  EXPECT_EQ(Logs(request, &status), "");
  EXPECT_FALSE(status.ok());
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo((path + ".20260101-000000").c_str(), 0600), 0);
  std::ofstream(path) << "2026-11-21T07:19:32Z stdout F own\n";
  EXPECT_EQ(Logs(request, &status), "own");

  const std::string directory = std::filesystem::path(path).parent_path();
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory_symlink(root_ + "/canary", directory);
  EXPECT_EQ(Logs(request, &status), "");
  EXPECT_NE(status.error_message().find("symlinks"), std::string::npos) << status.error_message();
  const std::string pod = std::filesystem::path(directory).parent_path();
  std::filesystem::remove_all(pod);
  std::filesystem::create_directories(root_ + "/canary/app");
  std::ofstream(root_ + "/canary/app/0.log") << line;
  std::filesystem::create_directory_symlink(root_ + "/canary", pod);
  EXPECT_EQ(Logs(request, &status), "");
  EXPECT_FALSE(status.ok());
}

// Nothing is queued for a client that does not read, and nobody waits for it.
TEST_F(LogStreamsTest, FollowersThatNeverReadCostNoMemoryAndHoldNobodyUp) {
  constexpr int kLines = 200'000;
  const std::string text(180, 'x');
  {
    std::ofstream out(LogPath("web", "uid-web"));
    for (int i = 0; i < kLines; ++i) out << "2026-11-21T07:19:31Z stdout F " << text << '\n';
  }
  pods_.SetPod(RunningPod("web", "uid-web"));
  v1::LogsRequest request;
  request.set_namespace_("default");
  request.set_pod("web");
  const size_t before = ResidentBytes();
  constexpr int kFollowers = 40;  // 40 MB each
  std::vector<std::unique_ptr<v1::NodeAgent::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::LogsResponse>>> followers;
  request.set_follow(true);
  for (int i = 0; i < kFollowers; ++i) {
    stubs.push_back(NewStub());
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    followers.push_back(stubs.back()->Logs(contexts.back().get(), request));
    followers.back()->WaitForInitialMetadata();
  }
  request.set_follow(false);
  grpc::ClientContext context;
  const auto reader = stub_->Logs(&context, request);
  v1::LogsResponse response;
  int lines = 0;
  while (reader->Read(&response)) lines += response.lines_size();
  EXPECT_EQ(lines, kLines);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_LT(ResidentBytes(), before + 400'000'000);
  for (const auto& follower : contexts) follower->TryCancel();
  for (const auto& follower : followers) EXPECT_FALSE(follower->Finish().ok());
}

}  // namespace
}  // namespace holdfast::agent
