// SPDX-License-Identifier: Apache-2.0
// Exec: data, terminal, signals, and callers that go away.
#include <csignal>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

class ExecTest : public ServerFixture {
 protected:
  static v1::ExecRequest Start(const std::vector<std::string>& argv) {
    v1::ExecRequest request;
    auto& start = *request.mutable_start();
    start.set_namespace_("default");
    start.set_pod("web");
    start.mutable_argv()->Assign(argv.begin(), argv.end());
    return request;
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
    v1::ExecRequest request = Start(argv);
    auto& start = *request.mutable_start();
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
};

TEST_F(ExecTest, ExecGivesOutputAndExitCode) {
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

TEST_F(ExecTest, ExecPassesMuchDataBothWays) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  std::string input;
  for (int i = 0; input.size() < 4'000'000; ++i) input += std::to_string(i) + "\n";
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request = Start({"cat"});
  request.mutable_start()->set_stdin(true);
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

TEST_F(ExecTest, ExecHasATerminalOfTheSizeAskedFor) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  const ExecResult result =
      Exec({"sh", "-c", "stty size; test -t 0 && test -t 1 && echo tty"}, "", true);
  EXPECT_EQ(result.out, "33 99\r\ntty\r\n");
  EXPECT_EQ(result.code, 0);
}

TEST_F(ExecTest, ExecSendsSignals) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request = Start({"sh", "-c", "echo ready; exec sleep 1000"});
  stream->Write(request);
  v1::ExecResponse response;
  ASSERT_TRUE(stream->Read(&response));
  request.set_signal(SIGTERM);
  stream->Write(request);
  EXPECT_EQ(Collect(*stream).code, 128 + SIGTERM);
}

TEST_F(ExecTest, ACallerThatGoesAwayTakesTheProgramAlong) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request = Start({"sh", "-c", "echo $$; exec sleep 1000"});
  stream->Write(request);
  v1::ExecResponse response;
  ASSERT_TRUE(stream->Read(&response));
  const pid_t pid = std::stoi(response.stdout());
  EXPECT_EQ(::kill(pid, 0), 0);
  context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return ::kill(pid, 0) != 0; }));
}

TEST_F(ExecTest, DetachLeavesTheProgramRunningUntilTheServerStops) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request = Start({"sh", "-c", "echo $$; exec sleep 1000"});
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

TEST_F(ExecTest, AFloodOfExecOutputDoesNotGrowTheServer) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto stream = stub_->Exec(&context);
  v1::ExecRequest request = Start({"yes"});
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

TEST_F(ExecTest, SixtyFourSessionsAtOnceAndNoMore) {
  constexpr size_t kSessions = 64;
  pods_.SetPod(RunningPod("web", "uid-web"));
  using Stream = std::unique_ptr<grpc::ClientReaderWriter<v1::ExecRequest, v1::ExecResponse>>;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<Stream> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    sessions.push_back(stub_->Exec(contexts.back().get()));
    sessions.back()->Write(Start({"sh", "-c", "echo ready; exec sleep 1000"}));
    v1::ExecResponse response;
    do {
      ASSERT_TRUE(sessions.back()->Read(&response)) << sessions.back()->Finish().error_message();
    } while (!response.has_stdout());
  }
  const ExecResult refused = Exec({"true"});
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.status.error_message(), "too many sessions: 64 are open; try again");
  // One that ends makes room.
  contexts.back()->TryCancel();
  sessions.back()->Finish();
  EXPECT_TRUE(Eventually([&] { return Exec({"true"}).status.ok(); }));
  for (const auto& context : contexts) context->TryCancel();
  sessions.pop_back();
  for (const Stream& session : sessions) session->Finish();
}

TEST_F(ExecTest, ExecRefusesWhatIsNotThere) {
  EXPECT_EQ(Exec({"true"}).status.error_code(), StatusCode::NOT_FOUND);
  auto pod = RunningPod("web", "uid-web");
  pod.mutable_status()->mutable_containerstatuses(0)->mutable_state()->clear_running();
  pods_.SetPod(pod);
  EXPECT_EQ(Exec({"true"}).status.error_code(), StatusCode::UNAVAILABLE);
  pods_.SetPod(RunningPod("web", "uid-web"));
  EXPECT_EQ(Exec({}).status.error_code(), StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace holdfast::agent
