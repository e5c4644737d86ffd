// SPDX-License-Identifier: Apache-2.0
// Who may do what, through the real server: children with other users, groups and namespaces
// connect, and the test speaks over their connections, since credentials are those of connect(2).
// Needs root to become others.
#include <grp.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/api/grpc/methods.h"
#include "holdfast/base/strings.h"
#include "tests/support/api_fixture.h"

namespace holdfast::agent {
namespace {

constexpr uid_t kSomebody = 54321;
constexpr gid_t kPlain = 4242;
constexpr gid_t kViewer = 4244;
constexpr gid_t kLogs = 4245;
constexpr gid_t kOperator = 4246;
constexpr gid_t kExec = 4243;
constexpr gid_t kAdmin = 4247;

// How a child differs from the test.
struct Who {
  uid_t uid = kSomebody;
  std::vector<gid_t> groups = {};
  int unshare = 0;  // CLONE_NEW…
};

// A connection made by a child with other credentials, which lives as long as this does.
class Connected {
 public:
  Connected(const std::string& socket_path, const Who& who) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const UniqueFd ours(ends[0]);
    UniqueFd theirs(ends[1]);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    child_ = ::fork();
    if (child_ == 0) Child(theirs.get(), address, who);
    theirs.Reset();
    socket_ = Receive(ours.get());
  }
  ~Connected() {
    if (child_ <= 0) return;
    // The child of a new pid namespace is its init, and goes with its parent's group.
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Connected(const Connected&) = delete;
  Connected& operator=(const Connected&) = delete;

  UniqueFd Take() { return std::move(socket_); }

 private:
  [[noreturn]] static void Child(int parent, const sockaddr_un& address, const Who& who) {
    (void)::setpgid(0, 0);
    // A new pid namespace is that of the next child.
    const bool fails = (who.unshare != 0 && ::unshare(who.unshare) != 0);
    if (fails) ::_exit(1);
    if ((who.unshare & CLONE_NEWPID) != 0 && ::fork() != 0) {
      ::pause();
      ::_exit(0);
    }
    if ((who.unshare & CLONE_NEWUSER) == 0 &&
        (::setgroups(who.groups.size(), who.groups.data()) != 0 ||
         ::setresgid(kSomebody, kSomebody, kSomebody) != 0 ||
         ::setresuid(who.uid, who.uid, who.uid) != 0)) {
      ::_exit(1);
    }
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      ::_exit(1);
    }
    Send(parent, socket);
    while (true) ::pause();
  }
  static void Send(int to, int fd) {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = fd;
    (void)::sendmsg(to, &message, 0);
  }
  static UniqueFd Receive(int from) {
    char byte = 0;
    iovec part{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (::recvmsg(from, &message, MSG_CMSG_CLOEXEC) <= 0) return {};
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    return header == nullptr ? UniqueFd()
                             : UniqueFd(*reinterpret_cast<const int*>(CMSG_DATA(header)));
  }

  pid_t child_ = -1;
  UniqueFd socket_;
};

class PeersTest : public ApiFixture {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ApiFixture::SetUp();
    std::ofstream(options_.group_file)
        << "root:x:0:\nholdfast:x:4242:\nholdfast-exec:x:4243:\nholdfast-viewer:x:4244:\n"
           "holdfast-logs:x:4245:\nholdfast-operator:x:4246:\nholdfast-admin:x:4247:\n";
    StartServer();
    ASSERT_EQ(::chmod((root_ + "/run").c_str(), 0711), 0);
    // The server alone decides here.
    ASSERT_EQ(::chmod(options_.socket_path.c_str(), 0666), 0);
  }
  void TearDown() override {
    if (!root_.empty()) ApiFixture::TearDown();
  }

  // The first frame that the server sends: SETTINGS, or a GOAWAY, whose text this is.
  static std::string Refusal(int socket) {
    char buffer[1024];
    const ssize_t count = ::recv(socket, buffer, sizeof(buffer), MSG_PEEK);
    if (count <= 17 || buffer[3] != 7) return "";
    return std::string(buffer + 17, static_cast<size_t>(count) - 17);
  }
  std::string RefusalOf(const Who& who) {
    Connected connected(options_.socket_path, who);
    const UniqueFd socket = connected.Take();
    EXPECT_TRUE(socket.valid());
    return Refusal(socket.get());
  }

  static std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket) {
    (void)::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    return grpc::CreateInsecureChannelFromFd("agent", socket.Release());
  }
  // One message, whatever kind of call it is; what has not ended soon was allowed.
  static grpc::StatusCode Call(const std::shared_ptr<grpc::Channel>& channel,
                               const std::string& path, const std::string& message) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    grpc::CompletionQueue queue;
    const grpc::Slice slice(message);
    const grpc::ByteBuffer bytes(&slice, 1);
    const auto call = stub.PrepareUnaryCall(&context, path, bytes, &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, &queue);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status.error_code();
  }
};

struct MethodCase {
  std::string_view method;
  std::string_view allowed;  // v(iewer) l(ogs) o(perator) e(xec) a(dmin)
};

// By hand, from docs/api.md: the server's own table must not be its judge.
constexpr MethodCase kCases[] = {
    {"ListPods", "vloea"},
    {"GetPod", "vloea"},
    {"WatchPods", "vloea"},
    {"ListEvents", "vloea"},
    {"WatchEvents", "vloea"},
    {"GetNode", "vloea"},
    {"ListServices", "vloea"},
    {"ListEndpointSlices", "vloea"},
    {"ExplainService", "vloea"},
    {"DumpProxy", "vloea"},
    {"ListImages", "vloea"},
    {"GetImage", "vloea"},
    {"ImportImage", "oa"},
    {"PullImage", "oa"},
    {"ExportImage", "loea"},
    {"RemoveImage", "oa"},
    {"Logs", "loea"},
    {"Exec", "ea"},
    {"Apply", "oa"},
    {"Delete", "oa"},
    {"Check", "vloea"},
    {"Check repair", "a"},
    {"Version", "vloea"},
    {"GetStats", "vloea"},
    {"Attach", "ea"},
    {"PortForward", "ea"},
    {"AddEphemeralContainer", "oa"},
    {"TagImage", "oa"},
    {"PushImage", "oa"},
    {"PruneImages", "oa"},
    {"ImageUsage", "vloea"},
    {"ListPulls", "vloea"},
    {"ListConfigMaps", "loea"},
    {"ListSecrets", "loea"},
};
static_assert(std::size(kCases) == api::kMethods.size());

TEST_F(PeersTest, EachRoleMayCallItsMethodsAndNoOther) {
  const std::pair<char, std::vector<gid_t>> roles[] = {
      {'v', {kPlain, kViewer}}, {'l', {kPlain, kLogs}},  {'o', {kPlain, kOperator}},
      {'e', {kPlain, kExec}},   {'a', {kPlain, kAdmin}}, {'o', {kPlain}},
  };
  v1::CheckRequest repair;
  repair.set_repair(true);
  for (const auto& [role, groups] : roles) {
    Connected connected(options_.socket_path, {.uid = kSomebody, .groups = groups});
    const auto channel = ChannelOver(connected.Take());
    for (const MethodCase& c : kCases) {
      const bool is_repair = c.method == "Check repair";
      const std::string name(is_repair ? "Check" : c.method);
      const auto code = Call(channel, "/holdfast.v1.NodeAgent/" + name,
                             is_repair ? repair.SerializeAsString() : "");
      EXPECT_EQ(code != grpc::StatusCode::PERMISSION_DENIED,
                c.allowed.find(role) != std::string_view::npos)
          << role << " " << c.method << ": " << code;
      EXPECT_NE(code, grpc::StatusCode::UNIMPLEMENTED) << role << " " << c.method;
    }
    // All of it was answered over one connection, which is as it was.
    EXPECT_EQ(Call(channel, "/holdfast.v1.NodeAgent/Version", ""), grpc::StatusCode::OK) << role;
  }
}

// CVE-2026-33186: a path that only resembles a method is none, for whoever calls it.
TEST_F(PeersTest, OtherSpellingsOfAMethodAreNoMethod) {
  v1::ApplyRequest request;
  request.set_manifest("kind: Pod");
  for (const gid_t group : {kViewer, kAdmin}) {
    for (const char* path : {"holdfast.v1.NodeAgent/Apply", "//holdfast.v1.NodeAgent/Apply",
                             "/holdfast.v1.NodeAgent/Apply/", "/holdfast.v1.NodeAgent/apply",
                             "/holdfast.v1.NodeAgent/%41pply", "/holdfast.v1.NodeAgent/Apply?a=b",
                             "/holdfast.v1.nodeagent/Apply", "/holdfast.v1.NodeAgent/./Apply"}) {
      Connected connected(options_.socket_path, {.uid = kSomebody, .groups = {group}});
      const auto code = Call(ChannelOver(connected.Take()), path, request.SerializeAsString());
      EXPECT_NE(code, grpc::StatusCode::OK) << path;
    }
  }
  EXPECT_TRUE(applied_.empty());
}

TEST_F(PeersTest, AGroupCountsWhereverItStandsInALongList) {
  std::vector<gid_t> groups;
  for (gid_t gid = 10'000; groups.size() < 1000; ++gid) groups.push_back(gid);
  groups.push_back(kViewer);
  // The kernel sorts them.
  groups.front() = 1'000'000;
  Connected connected(options_.socket_path, {.uid = kSomebody, .groups = groups});
  const auto channel = ChannelOver(connected.Take());
  EXPECT_EQ(Call(channel, "/holdfast.v1.NodeAgent/ListPods", ""), grpc::StatusCode::OK);
  EXPECT_EQ(Call(channel, "/holdfast.v1.NodeAgent/Apply", ""), grpc::StatusCode::PERMISSION_DENIED);
}

TEST_F(PeersTest, WhoIsInNoGroupIsToldSo) {
  EXPECT_EQ(RefusalOf({.uid = kSomebody, .groups = {}}),
            StrCat("no role: uid ", kSomebody, " is neither root nor in a group of the agent"));
  EXPECT_NE(RefusalOf({.uid = kSomebody, .groups = {0, 4248}}).find("no role"), std::string::npos);
}

TEST_F(PeersTest, RootOfAnotherUserOrPidNamespaceIsRefused) {
  EXPECT_NE(RefusalOf({.uid = 0, .groups = {}, .unshare = CLONE_NEWUSER})
                .find("is in another user namespace"),
            std::string::npos);
  EXPECT_NE(RefusalOf({.uid = 0, .groups = {}, .unshare = CLONE_NEWPID})
                .find("is in another pid namespace"),
            std::string::npos);
  // The same child without a namespace of its own is served.
  EXPECT_EQ(RefusalOf({.uid = 0, .groups = {}}), "");
}

}  // namespace
}  // namespace holdfast::agent
