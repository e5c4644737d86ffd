// SPDX-License-Identifier: Apache-2.0
// What the keeper does when something is lacking: descriptors for an upgrade, room in systemd's
// queue, the record of a log.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/keeper/common/paths.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/plan/wire.h"
#include "tests/system/runtime/keeper/harness.h"

namespace holdfast::runtime::keeper {
namespace {

size_t OpenFiles(pid_t pid) {
  const std::filesystem::directory_iterator fds(StrCat("/proc/", pid, "/fd"));
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

void LimitFiles(pid_t pid, size_t files) {
  rlimit limit{};
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(files, limit.rlim_max);
  ASSERT_EQ(::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0);
}

// Descriptors that could not be duplicated were once handed over as none: pipes, pidfds and
// namespaces were lost without a word.
TEST_F(KeeperTest, AnUpgradeThatLacksDescriptorsIsRefusedAndNothingIsLost) {
  StartHolder();
  WaitForKeeper();
  Subject writer = Make("writer", {"/bin/chatter", "lines", "50", "8"}, 8);
  ASSERT_TRUE(Start(writer));
  auto binary = sys::OpenAt(AT_FDCWD, KEEPER_BINARY, O_RDONLY);
  ASSERT_TRUE(binary);
  ASSERT_TRUE(Eventually([&] { return Processes("launch").size() == 1; }));
  for (const char* command : {"hold", "launch", "log"}) {
    const pid_t pid = Processes(command).front();
    LimitFiles(pid, OpenFiles(pid) + 4);  // the request, the copy of the binary, and too few
    const auto refused = client().Upgrade(binary->get());
    ASSERT_FALSE(refused) << command;
    EXPECT_NE(refused.error().message().find("duplicate a descriptor"), std::string::npos)
        << refused.error().message();
    LimitFiles(pid, 65536);
    EXPECT_EQ(Processes(command).front(), pid);
  }
  ASSERT_TRUE(client().Upgrade(binary->get()));
  EXPECT_EQ(Stop(writer).exit_code, 8);
  ASSERT_TRUE(client().WaitLogDrained(ContainerId(writer.id), kPatience));
  EXPECT_GT(ExpectComplete(writer), 0u);
  Clean(writer);
  ExpectNothingLeft();
}

// In the place of systemd: what its descriptor store would hold, by name. systemd leaves out what
// it has under another name; `by_name_only`: not here, where one file stands for many.
class FakeManager {
 public:
  explicit FakeManager(const std::string& path, bool by_name_only)
      : by_name_only_(by_name_only), socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }
  // Reads until nothing has come for `quiet`.
  std::set<std::string> Stored(std::chrono::milliseconds quiet) {
    pollfd readable{socket_.get(), POLLIN, 0};
    while (::poll(&readable, 1, static_cast<int>(quiet.count())) == 1) Take();
    std::set<std::string> names;
    for (const auto& [name, inode] : stored_) names.insert(name);
    return names;
  }

 private:
  void Take() {
    std::array<char, 4096> text{};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * 64)> control{};
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    ASSERT_GT(count, 0);
    struct stat st{};
    if (const cmsghdr* c = CMSG_FIRSTHDR(&message)) {
      const size_t fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < fds; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
        EXPECT_EQ(::fstat(fd, &st), 0);
        ::close(fd);
      }
    }
    const std::string said(text.data(), static_cast<size_t>(count));
    const size_t at = said.find("FDNAME=");
    if (at == std::string::npos) return;
    const std::string name = said.substr(at + 7, said.find('\n', at) - at - 7);
    if (said.starts_with("FDSTOREREMOVE=1")) {
      stored_.erase(name);
    } else if (st.st_ino != 0 && (by_name_only_ || !Holds(st.st_ino))) {
      stored_[name] = st.st_ino;
    }
  }

  bool Holds(ino_t inode) const {
    return std::ranges::any_of(stored_, [&](const auto& kept) { return kept.second == inode; });
  }

  const bool by_name_only_;
  const UniqueFd socket_;
  std::map<std::string, ino_t> stored_;
};

// A burst longer than the manager's queue once lost descriptors from its store, or brought removed
// ones back.
TEST_F(KeeperTest, SystemdHearsOfEveryDescriptorAlsoWhenItIsBehind) {
  std::ifstream limit("/proc/sys/net/unix/max_dgram_qlen");
  size_t queue = 0;
  limit >> queue;
  ASSERT_GT(queue, 0u);
  FakeManager manager(Path("notify"), true);
  StartHolder({{"NOTIFY_SOCKET", Path("notify")}});
  WaitForKeeper();
  auto fd = sys::OpenAt(AT_FDCWD, "/dev/null", O_RDONLY);
  ASSERT_TRUE(fd);
  const std::string holder = Path("run/") + kHolderSocket;
  std::set<std::string> wanted;
  const auto call = [&](MessageType type, const std::string& key) {
    const std::array<int, 1> fds{fd->get()};
    const auto given =
        type == MessageType::kPut ? std::span<const int>(fds) : std::span<const int>();
    const auto done =
        Call(holder, type, Encoder().Text(key).Take(), given, std::chrono::seconds(10));
    ASSERT_TRUE(done) << done.error().message();
  };
  for (size_t i = 0; i < queue + 200; ++i) {
    wanted.insert(StrCat("test.", i));
    call(MessageType::kPut, StrCat("test.", i));
  }
  for (size_t i = 0; i < 100; ++i) {
    wanted.erase(StrCat("test.", i));
    call(MessageType::kDrop, StrCat("test.", i));
  }
  std::set<std::string> stored = manager.Stored(std::chrono::seconds(1));
  std::erase_if(stored, [](const std::string& key) { return !key.starts_with("test."); });
  EXPECT_EQ(stored, wanted);
  for (const std::string& key : wanted) call(MessageType::kDrop, key);
}

TEST_F(KeeperTest, SystemdHasATakenMemberByThePodsName) {
  FakeManager manager(Path("notify"), false);
  StartHolder({{"NOTIFY_SOCKET", Path("notify")}});
  WaitForKeeper();
  auto plan = sys::SealedMemfd("plan", SerializePlan(model::Plan(model::SandboxPlan())));
  ASSERT_TRUE(plan);
  ASSERT_TRUE(client().MakeMember("m", plan->get()));
  using Names = std::set<std::string>;
  EXPECT_EQ(manager.Stored(std::chrono::milliseconds(200)),
            (Names{"pool.m.3.ipc", "pool.m.3.net", "pool.m.3.uts"}));
  const PodUid pod("pod");
  ASSERT_TRUE(client().BeginSandbox(pod, plan->get(), {}, "m").Await());
  EXPECT_EQ(manager.Stored(std::chrono::milliseconds(200)),
            (Names{"ns.pod.3.ipc", "ns.pod.3.net", "ns.pod.3.uts"}));
  ASSERT_TRUE(client().DropSandbox(pod));
  EXPECT_EQ(manager.Stored(std::chrono::milliseconds(200)), Names());
}

// Its container once stood still as soon as its pipe was full.
TEST_F(KeeperTest, AContainerWhoseLogRecordCannotBeReadGoesOn) {
  StartHolder();
  WaitForKeeper();
  Subject writer = Make("writer", {"/bin/chatter", "lines", "100", "7", "20000"}, 7);
  ASSERT_TRUE(Start(writer));
  const std::string record = Path("run/") + kLogsDir + "/" + writer.id + "/spec";
  ASSERT_TRUE(std::filesystem::exists(record));
  std::ofstream(record) << "of another version";
  KillAll("log");
  EXPECT_EQ(WaitExit(writer).exit_code, 7);
  EXPECT_TRUE(client().Forget(writer.id));
  EXPECT_TRUE(client().UnregisterLog(ContainerId(writer.id)));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace holdfast::runtime::keeper
