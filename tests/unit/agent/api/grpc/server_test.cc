// SPDX-License-Identifier: Apache-2.0
// The whole server over its real socket, as its own user: every method, streams and their bounds.
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>

#include "tests/support/api_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

class ServerTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    options_.pending_changes = 500;
    StartServer();
    stub_ = NewStub();
  }
  void TearDown() override {
    stub_.reset();
    ApiFixture::TearDown();
  }

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

  struct ExecResult {
    std::string out;
    std::string err;
    std::optional<int> code;
    grpc::Status status;
  };
  // Runs `argv`, sends `input` at once and closes stdin.
  ExecResult Exec(const std::vector<std::string>& argv, const std::string& input = "",
                  bool tty = false) {
    grpc::ClientContext context;
    const auto stream = stub_->Exec(&context);
    v1::ExecRequest request;
    auto& start = *request.mutable_start();
    start.set_namespace_("default");
    start.set_pod("web");
    start.mutable_argv()->Assign(argv.begin(), argv.end());
    start.set_stdin(!input.empty());
    start.set_tty(tty);
    start.set_rows(33);
    start.set_columns(99);
    stream->Write(request);
    if (!input.empty()) {
      for (size_t at = 0; at < input.size(); at += 32768) {
        request.set_stdin(input.substr(at, 32768));
        if (!stream->Write(request)) break;
      }
      request.set_stdin_closed(true);
      stream->Write(request);
    }
    return Collect(*stream);
  }
  template <class Stream>
  static ExecResult Collect(Stream& stream) {
    ExecResult result;
    v1::ExecResponse response;
    while (stream.Read(&response)) {
      if (response.has_stdout()) result.out += response.stdout();
      if (response.has_stderr()) result.err += response.stderr();
      if (response.has_exit()) result.code = response.exit().code();
    }
    result.status = stream.Finish();
    return result;
  }

  std::unique_ptr<v1::NodeAgent::Stub> stub_;
};

TEST_F(ServerTest, ListsAndGetsPods) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  pods_.SetPod(RunningPod("db", "uid-db"));
  grpc::ClientContext list;
  v1::ListPodsRequest request;
  request.set_label_selector("app!=db");
  v1::ListPodsResponse response;
  ASSERT_TRUE(stub_->ListPods(&list, request, &response).ok());
  ASSERT_EQ(response.pods_size(), 1);
  EXPECT_EQ(response.pods(0).metadata().name(), "web");
  EXPECT_EQ(response.pods(0).spec().containers(0).env(0).value(), "secret");

  grpc::ClientContext get;
  v1::GetPodRequest one;
  one.set_namespace_("default");
  one.set_name("gone");
  k8s::io::api::core::v1::Pod pod;
  const grpc::Status status = stub_->GetPod(&get, one, &pod);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "pods \"gone\" not found");

  grpc::ClientContext bad;
  request.set_label_selector("=");
  EXPECT_EQ(stub_->ListPods(&bad, request, &response).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, WatchBeginsWithWhatIsThereAndABookmark) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto reader = stub_->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::ADDED);
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::BOOKMARK);
  pods_.SetPod(RunningPod("web", "uid-web"));
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::MODIFIED);
  pods_.RemovePod("uid-web");
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::DELETED);
  EXPECT_EQ(change.pod().metadata().name(), "web");
  context.TryCancel();
  EXPECT_FALSE(reader->Read(&change));
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(ServerTest, SlowWatcherGetsTheLastStateAndDelaysNobody) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto reader = stub_->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(reader->Read(&change));
  // Nobody reads; far more than any flow-control window.
  auto pod = RunningPod("web", "uid-web");
  (*pod.mutable_metadata()->mutable_annotations())["big"] = std::string(16 * 1024, 'x');
  constexpr int kChanges = 3000;
  for (int i = 1; i <= kChanges; ++i) {
    pod.mutable_metadata()->set_generation(i);
    pods_.SetPod(pod);
  }
  int messages = 0;
  while (change.pod().metadata().generation() != kChanges) {
    ASSERT_TRUE(reader->Read(&change));
    ++messages;
  }
  EXPECT_LT(messages, kChanges / 2);
  context.TryCancel();
}

TEST_F(ServerTest, ManyWatchersAllSeeAChange) {
  constexpr int kConnections = 10;
  constexpr int kPerConnection = 100;
  struct Watcher {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::PodChange>> reader;
  };
  std::vector<std::unique_ptr<v1::NodeAgent::Stub>> stubs;
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < kConnections; ++i) {
    stubs.push_back(NewStub());
    for (int j = 0; j < kPerConnection; ++j) {
      watchers.push_back(std::make_unique<Watcher>());
      watchers.back()->reader = stubs.back()->WatchPods(&watchers.back()->context, {});
    }
  }
  for (const auto& watcher : watchers) {
    v1::PodChange change;
    ASSERT_TRUE(watcher->reader->Read(&change));
    ASSERT_EQ(change.type(), v1::BOOKMARK);
  }
  pods_.SetPod(RunningPod("web", "uid-web"));
  for (const auto& watcher : watchers) {
    v1::PodChange change;
    ASSERT_TRUE(watcher->reader->Read(&change));
    EXPECT_EQ(change.type(), v1::ADDED);
  }
  for (const auto& watcher : watchers) watcher->context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(ServerTest, WatcherWithTooManyUnreadObjectsIsEnded) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub_->WatchEvents(&context, v1::WatchEventsRequest());
  v1::EventChange change;
  ASSERT_TRUE(reader->Read(&change));  // the bookmark
  k8s::io::api::core::v1::Event event;
  event.set_message(std::string(2000, 'm'));
  for (int i = 0; i < 12'000; ++i) {
    event.mutable_metadata()->set_name("e" + std::to_string(i));
    pods_.AddEvent(event);
  }
  int messages = 0;
  while (reader->Read(&change)) ++messages;
  EXPECT_LT(messages, 12'000);
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(ServerTest, ListsEventsOfAnObject) {
  for (const char* name : {"web", "db"}) {
    k8s::io::api::core::v1::Event event;
    event.mutable_metadata()->set_name(name);
    event.mutable_metadata()->set_namespace_("default");
    event.mutable_involvedobject()->set_name(name);
    pods_.AddEvent(event);
  }
  grpc::ClientContext context;
  v1::ListEventsRequest request;
  request.set_involved_name("db");
  v1::ListEventsResponse response;
  ASSERT_TRUE(stub_->ListEvents(&context, request, &response).ok());
  ASSERT_EQ(response.events_size(), 1);
  EXPECT_EQ(response.events(0).metadata().name(), "db");
}

TEST_F(ServerTest, ImportsExportsAndRemovesImages) {
  const std::string archive = std::string(3'000'000, 'a') + "end";
  grpc::ClientContext context;
  v1::ImportImageResponse imported;
  const auto writer = stub_->ImportImage(&context, &imported);
  v1::ImportImageRequest request;
  request.mutable_options()->set_reference("app:1");
  request.mutable_options()->mutable_config()->add_cmd("run");
  ASSERT_TRUE(writer->Write(request));
  for (size_t at = 0; at < archive.size(); at += 500'000) {
    request.set_data(archive.substr(at, 500'000));
    ASSERT_TRUE(writer->Write(request));
  }
  request.set_end(true);
  ASSERT_TRUE(writer->Write(request));
  writer->WritesDone();
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_EQ(imported.images_size(), 1);
  EXPECT_EQ(imported.images(0).config().cmd(0), "run");
  EXPECT_EQ(*images_.Content("app:1"), archive);

  grpc::ClientContext exporting;
  v1::ExportImageRequest wanted;
  wanted.set_reference("app:1");
  const auto reader = stub_->ExportImage(&exporting, wanted);
  std::string exported;
  v1::ExportImageResponse chunk;
  while (reader->Read(&chunk)) exported += chunk.data();
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(exported, archive);

  grpc::ClientContext removing;
  v1::RemoveImageRequest remove;
  remove.set_reference("app:1");
  v1::RemoveImageResponse removed;
  EXPECT_TRUE(stub_->RemoveImage(&removing, remove, &removed).ok());
  const std::string audit = AuditText();
  EXPECT_NE(audit.find("\"method\":\"RemoveImage\",\"target\":\"app:1\""), std::string::npos)
      << audit;
  EXPECT_NE(audit.find("\"method\":\"ImportImage\""), std::string::npos);
}

TEST_F(ServerTest, ImportThatIsCutOffChangesNothing) {
  for (const bool cancel : {true, false}) {
    grpc::ClientContext context;
    v1::ImportImageResponse imported;
    const auto writer = stub_->ImportImage(&context, &imported);
    v1::ImportImageRequest request;
    request.mutable_options()->set_reference("cut:1");
    writer->Write(request);
    request.set_data("half an archive");
    writer->Write(request);
    if (cancel) {
      context.TryCancel();
    } else {
      writer->WritesDone();  // without `end`
    }
    EXPECT_FALSE(writer->Finish().ok());
  }
  // A caller that went away before its first message was read began nothing.
  const auto count = [this](const std::string& stage) {
    const std::string audit = AuditText();
    size_t found = 0;
    for (size_t at = audit.find(stage); at != std::string::npos; at = audit.find(stage, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_GE(count("\"stage\":\"begin\""), 1u);
  EXPECT_TRUE(
      Eventually([&] { return count("\"stage\":\"begin\"") == count("\"stage\":\"end\""); }));
  EXPECT_FALSE(images_.Content("cut:1").has_value());
}

TEST_F(ServerTest, ABadArchiveEndsTheImportWhileItIsStillBeingSent) {
  grpc::ClientContext context;
  v1::ImportImageResponse imported;
  const auto writer = stub_->ImportImage(&context, &imported);
  v1::ImportImageRequest request;
  request.mutable_options()->set_reference("x");
  writer->Write(request);
  request.set_data("bad archive");
  writer->Write(request);
  request.set_end(true);
  writer->Write(request);
  writer->WritesDone();
  EXPECT_EQ(writer->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
}

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
}

TEST_F(ServerTest, LogsFollowOverRotationRestartAndEnd) {
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

TEST_F(ServerTest, LogsSayWhyThereAreNone) {
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

TEST_F(ServerTest, LogLimitsBytesAndStreams) {
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

TEST_F(ServerTest, ExecGivesOutputAndExitCode) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  const ExecResult result = Exec({"sh", "-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.code, 7);
  const std::string audit = AuditText();
  EXPECT_NE(
      audit.find("\"method\":\"Exec\",\"target\":\"default/web/app\",\"targetUID\":\"uid-web\","
                 "\"detail\":\"sh\",\"decision\":\"allow\"}"),
      std::string::npos)
      << audit;
  const std::string who =
      "\"uid\":" + std::to_string(::getuid()) + ",\"pid\":" + std::to_string(::getpid()) + ",";
  EXPECT_NE(audit.find(who), std::string::npos) << audit;
}

TEST_F(ServerTest, ExecPassesMuchDataBothWays) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  std::string input;
  for (int i = 0; input.size() < 4'000'000; ++i) input += std::to_string(i) + "\n";
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  auto& start = *request.mutable_start();
  start.set_namespace_("default");
  start.set_pod("web");
  start.add_argv("cat");
  start.set_stdin(true);
  stream->Write(request);
  std::thread writer([&] {
    for (size_t at = 0; at < input.size(); at += 65536) {
      request.set_stdin(input.substr(at, 65536));
      stream->Write(request);
    }
    request.set_stdin_closed(true);
    stream->Write(request);
  });
  const ExecResult result = Collect(*stream);
  writer.join();
  EXPECT_EQ(result.out.size(), input.size());
  EXPECT_TRUE(result.out == input);
  EXPECT_EQ(result.code, 0);
}

TEST_F(ServerTest, ExecHasATerminalOfTheSizeAskedFor) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  const ExecResult result =
      Exec({"sh", "-c", "stty size; test -t 0 && test -t 1 && echo tty"}, "", true);
  EXPECT_EQ(result.out, "33 99\r\ntty\r\n");
  EXPECT_EQ(result.code, 0);
}

TEST_F(ServerTest, ExecSendsSignals) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  auto& start = *request.mutable_start();
  start.set_namespace_("default");
  start.set_pod("web");
  start.mutable_argv()->Add("sh");
  start.mutable_argv()->Add("-c");
  start.mutable_argv()->Add("echo ready; exec sleep 1000");
  stream->Write(request);
  v1::ExecResponse response;
  ASSERT_TRUE(stream->Read(&response));
  request.set_signal(SIGTERM);
  stream->Write(request);
  EXPECT_EQ(Collect(*stream).code, 128 + SIGTERM);
}

TEST_F(ServerTest, ACallerThatGoesAwayTakesTheProgramAlong) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  auto& start = *request.mutable_start();
  start.set_namespace_("default");
  start.set_pod("web");
  start.mutable_argv()->Add("sh");
  start.mutable_argv()->Add("-c");
  start.mutable_argv()->Add("echo $$; exec sleep 1000");
  stream->Write(request);
  v1::ExecResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const pid_t pid = std::stoi(response.stdout());
  EXPECT_EQ(::kill(pid, 0), 0);
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return ::kill(pid, 0) != 0; }));
}

TEST_F(ServerTest, DetachLeavesTheProgramRunningUntilTheServerStops) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  auto& start = *request.mutable_start();
  start.set_namespace_("default");
  start.set_pod("web");
  start.mutable_argv()->Add("sh");
  start.mutable_argv()->Add("-c");
  start.mutable_argv()->Add("echo $$; exec sleep 1000");
  stream->Write(request);
  v1::ExecResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const pid_t pid = std::stoi(response.stdout());
  request.set_detach(true);
  stream->Write(request);
  EXPECT_TRUE(Collect(*stream).status.ok());
  EXPECT_EQ(::kill(pid, 0), 0);
  server_.reset();
  EXPECT_TRUE(Eventually([&] { return ::kill(pid, 0) != 0; }));
}

TEST_F(ServerTest, AFloodOfExecOutputDoesNotGrowTheServer) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request;
  auto& start = *request.mutable_start();
  start.set_namespace_("default");
  start.set_pod("web");
  start.add_argv("yes");
  stream->Write(request);
  v1::ExecResponse response;
  size_t total = 0;
  while (total < (20u << 20) && stream->Read(&response)) {
    EXPECT_LE(response.stdout().size(), 32u * 1024);
    total += response.stdout().size();
  }
  EXPECT_GE(total, 20u << 20);
  context.TryCancel();
  stream->Finish();
}

TEST_F(ServerTest, ExecRefusesWhatIsNotThere) {
  EXPECT_EQ(Exec({"true"}).status.error_code(), StatusCode::NOT_FOUND);
  auto pod = RunningPod("web", "uid-web");
  pod.mutable_status()->mutable_containerstatuses(0)->mutable_state()->clear_running();
  pods_.SetPod(pod);
  EXPECT_EQ(Exec({"true"}).status.error_code(), StatusCode::UNAVAILABLE);
  pods_.SetPod(RunningPod("web", "uid-web"));
  EXPECT_EQ(Exec({}).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(ServerTest, ASecondServerIsRefusedAndADeadSocketReplaced) {
  auto second = ApiServer::Start(Dependencies(), options_);
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
  second = ApiServer::Start(Dependencies(), options_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(ReadTextFile(options_.socket_path), "precious");
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

TEST_F(ServerTest, ConnectionsPerUserAreBounded) {
  std::vector<UniqueFd> held;
  size_t closed = 0;
  for (uint32_t i = 0; i < options_.connections_per_uid + 20; ++i) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    options_.socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    held.push_back(std::move(socket));
  }
  // A served connection gets HTTP/2 settings, a refused one end-of-file.
  for (const UniqueFd& socket : held) {
    char byte = 0;
    if (::recv(socket.get(), &byte, 1, 0) <= 0) ++closed;
  }
  EXPECT_GE(closed, 20u);
  held.clear();
  EXPECT_TRUE(Eventually([&] {
    const auto fresh = NewStub();
    grpc::ClientContext context;
    v1::VersionResponse version;
    return fresh->Version(&context, v1::VersionRequest(), &version).ok();
  }));
}

}  // namespace
}  // namespace holdfast::agent
