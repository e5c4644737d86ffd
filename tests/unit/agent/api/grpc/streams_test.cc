// SPDX-License-Identifier: Apache-2.0
// Attach and PortForward: data both ways, half-close, back-pressure, clients that vanish; and that no
// session has a thread.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>
#include <set>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;
using AttachCall = grpc::ClientReaderWriter<v1::AttachRequest, v1::AttachResponse>;
using ForwardCall = grpc::ClientReaderWriter<v1::PortForwardRequest, v1::PortForwardResponse>;

std::pair<UniqueFd, UniqueFd> Pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

size_t CountIn(const char* directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

// ---- Attach ------------------------------------------------------------------------------------

class AttachTest : public ServerFixture {
 protected:
  void SetUp() override {
    ServerFixture::SetUp();
    pods_.SetPod(RunningPod("web", "uid-web"));
    std::tie(from_container_, out_) = Pipe();
    std::tie(in_, to_container_) = Pipe();
    runtime_.attach = [this](const AttachSpec& spec) -> Result<AttachedStreams> {
      AttachedStreams streams;
      streams.output = std::move(from_container_);
      if (spec.input) streams.input = std::move(to_container_);
      return streams;
    };
  }

  std::unique_ptr<AttachCall> Attach(grpc::ClientContext& context, bool with_stdin) {
    auto call = stub_->Attach(&context);
    v1::AttachRequest request;
    request.mutable_start()->set_namespace_("default");
    request.mutable_start()->set_pod("web");
    request.mutable_start()->set_stdin(with_stdin);
    call->Write(request);
    return call;
  }

  UniqueFd out_;  // the container writes
  UniqueFd in_;   // the container reads
  UniqueFd from_container_;
  UniqueFd to_container_;
};

TEST_F(AttachTest, PassesWhatTheContainerWritesAndReadsUntilItsStreamsEnd) {
  grpc::ClientContext context;
  const auto call = Attach(context, true);
  ASSERT_EQ(::write(out_.get(), "prompt> ", 8), 8);
  v1::AttachResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.stdout(), "prompt> ");
  v1::AttachRequest request;
  request.set_stdin("ls\n");
  call->Write(request);
  char bytes[8] = {};
  ASSERT_EQ(::read(in_.get(), bytes, sizeof bytes), 3);
  request.set_stdin_closed(true);
  call->Write(request);
  EXPECT_EQ(::read(in_.get(), bytes, sizeof bytes), 0);
  out_.Reset();
  EXPECT_FALSE(call->Read(&response));
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_TRUE(Eventually([&] {
    const std::string audit = AuditText();
    const size_t begin = audit.find("\"method\":\"Attach\",\"target\":\"default/web/app\"");
    return begin != std::string::npos &&
           audit.find("\"outcome\":\"OK\"", begin) != std::string::npos;
  }));
}

TEST_F(AttachTest, ACallerThatGoesAwayLeavesNothing) {
  grpc::ClientContext context;
  const auto call = Attach(context, true);
  ASSERT_EQ(::write(out_.get(), "x", 1), 1);
  v1::AttachResponse response;
  ASSERT_TRUE(call->Read(&response));
  context.TryCancel();
  pollfd gone{out_.get(), 0, 0};  // POLLERR: no reader
  EXPECT_EQ(::poll(&gone, 1, 1000), 1);
  char byte = 0;
  EXPECT_EQ(::read(in_.get(), &byte, 1), 0);
}

TEST_F(AttachTest, StdinOfAContainerWithoutOneIsRefused) {
  runtime_.attach = [this](const AttachSpec&) -> Result<AttachedStreams> {
    AttachedStreams streams;
    streams.output = std::move(from_container_);
    return streams;
  };
  grpc::ClientContext context;
  const auto call = Attach(context, true);
  v1::AttachResponse response;
  EXPECT_FALSE(call->Read(&response));
  const grpc::Status status = call->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "container \"app\" in pod \"web\" was started without stdin");
}

TEST_F(AttachTest, WhoDoesNotReadMakesTheContainerWait) {
  grpc::ClientContext context;
  const auto call = Attach(context, false);
  ASSERT_EQ(::fcntl(out_.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string piece(64 * 1024, 'x');
  size_t written = 0;
  // Full for a while: it stays full.
  for (int quiet = 0; quiet < 20 && written < (64u << 20);) {
    const ssize_t count = ::write(out_.get(), piece.data(), piece.size());
    if (count > 0) written += static_cast<size_t>(count);
    if (count > 0) quiet = 0;
    if (count < 0) ++quiet, std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_LT(written, 16u << 20);
  v1::AttachResponse response;
  size_t read = 0;
  out_.Reset();
  while (call->Read(&response)) read += response.stdout().size();
  EXPECT_EQ(read, written);
}

// ---- PortForward -------------------------------------------------------------------------------

class PortForwardTest : public ServerFixture {
 protected:
  void SetUp() override {
    ServerFixture::SetUp();
    auto pod = RunningPod("web", "uid-web");
    pod.mutable_spec()->set_hostnetwork(true);  // its ports are this test's own
    pods_.SetPod(pod);
    listener_.Reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {}};
    auto* any = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(::bind(listener_.get(), any, sizeof address), 0);
    ASSERT_EQ(::listen(listener_.get(), 128), 0);
    socklen_t size = sizeof address;
    ASSERT_EQ(::getsockname(listener_.get(), any, &size), 0);
    port_ = ntohs(address.sin_port);
  }

  std::unique_ptr<ForwardCall> Forward(grpc::ClientContext& context, uint32_t port) {
    auto call = stub_->PortForward(&context);
    v1::PortForwardRequest request;
    request.mutable_start()->set_namespace_("default");
    request.mutable_start()->set_pod("web");
    request.mutable_start()->set_port(port);
    call->Write(request);
    return call;
  }
  UniqueFd Accept() {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const timeval patience{20, 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    return socket;
  }
  static std::string ReadAll(int socket) {
    std::string all;
    std::array<char, 65536> bytes;
    for (ssize_t count = 0; (count = ::recv(socket, bytes.data(), bytes.size(), 0)) > 0;) {
      all.append(bytes.data(), static_cast<size_t>(count));
    }
    return all;
  }

  UniqueFd listener_;
  uint16_t port_ = 0;
};

TEST_F(PortForwardTest, PassesMuchDataBothWaysAndTheEndOfEach) {
  std::string much;
  for (int i = 0; much.size() < 4'000'000; ++i) much += std::to_string(i) + "\n";
  grpc::ClientContext context;
  const auto call = Forward(context, port_);
  v1::PortForwardResponse response;
  ASSERT_TRUE(call->Read(&response));
  EXPECT_EQ(response.data(), "");  // it stands
  const UniqueFd socket = Accept();
  std::thread writer([&] {
    v1::PortForwardRequest request;
    for (size_t at = 0; at < much.size(); at += 65536) {
      request.set_data(much.substr(at, 65536));
      call->Write(request);
    }
    call->WritesDone();
  });
  EXPECT_TRUE(ReadAll(socket.get()) == much);  // to the end that the caller made
  writer.join();
  std::thread answerer([&] {
    for (size_t at = 0; at < much.size();) {
      const ssize_t sent = ::send(socket.get(), &much[at], much.size() - at, MSG_NOSIGNAL);
      ASSERT_GT(sent, 0);
      at += static_cast<size_t>(sent);
    }
    ::shutdown(socket.get(), SHUT_WR);
  });
  std::string back;
  while (call->Read(&response)) back += response.data();
  answerer.join();
  EXPECT_TRUE(back == much);
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_NE(AuditText().find("\"method\":\"PortForward\",\"target\":\"default/web\","
                             "\"targetUID\":\"uid-web\",\"detail\":\"" +
                             std::to_string(port_) + "\""),
            std::string::npos);
}

TEST_F(PortForwardTest, TellsThatNobodyListens) {
  listener_.Reset();
  grpc::ClientContext context;
  const auto call = Forward(context, port_);
  v1::PortForwardResponse response;
  EXPECT_FALSE(call->Read(&response));
  const grpc::Status status = call->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  const std::string port = std::to_string(port_);
  EXPECT_EQ(status.error_message(), "error forwarding port " + port +
                                        " to pod web_default, uid uid-web: dial tcp 127.0.0.1:" +
                                        port + ": connect: connection refused");
}

TEST_F(PortForwardTest, RefusesWhatIsNoPortAndNoPod) {
  grpc::ClientContext context;
  EXPECT_EQ(Forward(context, 65536)->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  pods_.RemovePod("uid-web");
  grpc::ClientContext other;
  EXPECT_EQ(Forward(other, 80)->Finish().error_code(), StatusCode::NOT_FOUND);
}

TEST_F(PortForwardTest, ACallerThatGoesAwayTakesTheConnectionAlong) {
  for (const bool much_waits : {false, true}) {
    grpc::ClientContext context;
    const auto call = Forward(context, port_);
    const UniqueFd socket = Accept();
    if (much_waits) {
      ASSERT_EQ(::fcntl(socket.get(), F_SETFL, O_NONBLOCK), 0);
      const std::string piece(1 << 20, 'x');
      // Until everything between us is full; once more after a while, for what was on its way.
      for (int round = 0; round < 2; ++round) {
        while (::send(socket.get(), piece.data(), piece.size(), MSG_NOSIGNAL) > 0) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      }
    }
    context.TryCancel();
    pollfd gone{socket.get(), POLLRDHUP, 0};
    EXPECT_EQ(::poll(&gone, 1, 1000), 1) << much_waits;
  }
}

TEST_F(PortForwardTest, ManyAtOnceWithoutAThreadOrADescriptorThatStays) {
  constexpr size_t kConnections = 100;
  {
    grpc::ClientContext context;  // what the first one makes stays
    const auto first = Forward(context, port_);
    Accept().Reset();
    v1::PortForwardResponse response;
    while (first->Read(&response)) {
    }
    EXPECT_TRUE(first->Finish().ok());
  }
  const size_t descriptors = CountIn("/proc/self/fd");
  const size_t threads = CountIn("/proc/self/task");
  {
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<ForwardCall>> calls;
    std::vector<UniqueFd> sockets;
    for (size_t i = 0; i < kConnections; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      calls.push_back(Forward(*contexts.back(), port_));
      sockets.push_back(Accept());
    }
    // gRPC may start a few, and those that dial end when they are idle.
    EXPECT_LT(CountIn("/proc/self/task"), threads + 40);
    for (size_t i = 0; i < kConnections; ++i) {
      v1::PortForwardRequest request;
      request.set_data(std::to_string(i));
      calls[i]->Write(request);
      calls[i]->WritesDone();
    }
    std::set<std::string> seen;
    for (const UniqueFd& socket : sockets) seen.insert(ReadAll(socket.get()));
    EXPECT_EQ(seen.size(), kConnections);
    sockets.clear();
    v1::PortForwardResponse response;
    for (const auto& call : calls) {
      while (call->Read(&response)) {
      }
      EXPECT_TRUE(call->Finish().ok());
    }
  }
  EXPECT_TRUE(Eventually([&] { return CountIn("/proc/self/fd") <= descriptors; }));
}

TEST_F(PortForwardTest, EndsWhenTheServerStops) {
  grpc::ClientContext context;
  const auto call = Forward(context, port_);
  const UniqueFd socket = Accept();
  v1::PortForwardResponse response;
  ASSERT_TRUE(call->Read(&response));
  std::thread stop([this] { server_.reset(); });
  EXPECT_FALSE(call->Read(&response));
  EXPECT_EQ(call->Finish().error_code(), StatusCode::UNAVAILABLE);
  stop.join();
}

}  // namespace
}  // namespace holdfast::agent
