// SPDX-License-Identifier: Apache-2.0
// Sandboxes that lie ready: who gets them, what distinguishes them from others (nothing), and what
// becomes of them when somebody dies.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "runtime/containers/parts.h"
#include "runtime/keeper/common/wire.h"
#include "runtime/plan/sandbox.h"
#include "tests/support/containers/runtime_test.h"
#include "tests/support/eventually.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

namespace fs = std::filesystem;
using test_support::Eventually;
using test_support::ReadText;

ino_t InodeOf(int fd) {
  struct stat st{};
  EXPECT_EQ(::fstat(fd, &st), 0);
  return st.st_ino;
}

class PoolTest : public test_support::RuntimeTest {
 protected:
  std::vector<std::string> Members() const {
    auto members = node_->Keeper().ListMembers();
    EXPECT_TRUE(members);
    return members ? *members : std::vector<std::string>();
  }

  // Its thread has nothing to do and waits on its condition.
  static bool PoolWaits() {
    for (const auto& task : fs::directory_iterator("/proc/self/task")) {
      if (ReadText(task.path() / "comm") != "sandbox-pool\n") continue;
      return ReadText(task.path() / "wchan").find("futex") != std::string::npos;
    }
    return false;
  }

  // The network namespaces of the members, once there are `count`.
  std::set<ino_t> Fill(size_t count) {
    runtime_->KeepReady(count);
    EXPECT_TRUE(Eventually([&] { return Members().size() == count; }));
    EXPECT_TRUE(Eventually(PoolWaits));  // so it has heard of the last
    std::set<ino_t> inodes;
    for (const std::string& id : Members()) {
      auto net = node_->Keeper().GetFds(StrCat("pool.", id, ".4.net"));
      EXPECT_TRUE(net);
      if (!net) continue;
      inodes.insert(InodeOf(net->front().get()));
      seen_.push_back(std::move(net->front()));
    }
    EXPECT_EQ(inodes.size(), count);
    return inodes;
  }

  ino_t NetworkOf(const model::SandboxSpec& spec) {
    const auto ensured = runtime_->EnsureSandbox(spec);
    EXPECT_TRUE(ensured) << (ensured ? "" : ensured.error().message());
    const auto net = runtime_->NetworkNamespace(spec.uid);
    EXPECT_TRUE(net) << (net ? "" : net.error().message());
    return net ? InodeOf(net->get()) : 0;
  }
  ino_t NetworkOf(const std::string& uid) { return NetworkOf(node_->Sandbox(uid)); }

  void RemoveAll(const std::vector<std::string>& uids) {
    runtime_->KeepReady(0);
    for (const std::string& uid : uids) EXPECT_TRUE(runtime_->RemoveSandbox(PodUid(uid)));
    EXPECT_TRUE(Eventually([this] { return node_->Leftovers().empty(); }));
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>());
  }
  std::vector<UniqueFd> seen_;  // open, or another one would get the number
};

// --- all that can be seen in a sandbox, as text by name ------------------------------------------

using Facts = std::map<std::string, std::string>;

std::string Content(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return StrCat("open: ", std::strerror(errno));
  std::string text(1 << 16, 0);
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return StrCat("read: ", std::strerror(errno));
  return text.substr(0, static_cast<size_t>(size));
}

std::string OutputOf(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const size_t size = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, size);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return text;
}

bool IsOfIpcOrUts(const std::string& name) {
  if (name == "hostname" || name == "domainname") return true;
  return name.starts_with("msg") || name.starts_with("sem") || name.starts_with("shm") ||
         name == "auto_msgmni";
}

// By the calling thread, which is in the namespaces.
Facts LookAround() {
  Facts facts;
  for (const char* tree : {"/proc/sys/net", "/proc/sys/fs/mqueue"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tree)) {
      if (entry.is_regular_file()) facts[entry.path()] = Content(entry.path());
    }
  }
  for (const auto& entry : fs::directory_iterator("/proc/sys/kernel")) {
    if (IsOfIpcOrUts(entry.path().filename())) facts[entry.path()] = Content(entry.path());
  }
  for (const char* file : {"dev", "if_inet6", "route", "ipv6_route", "igmp", "igmp6", "arp"}) {
    const std::string path = StrCat("/proc/thread-self/net/", file);
    facts[path] = Content(path);
  }
  for (const char* command : {"ip -d link", "ip address", "ip route show table all",
                              "ip -6 route show table all", "ip rule", "ip -6 rule", "ip neigh"}) {
    facts[command] = OutputOf(command);
  }
  return facts;
}

Facts FactsOf(const std::vector<keeper::KeptFd>& sandbox) {
  Facts facts;
  std::thread([&] {
    for (const keeper::KeptFd& part : sandbox) {
      const int flag = part.key == "net"   ? CLONE_NEWNET
                       : part.key == "ipc" ? CLONE_NEWIPC
                       : part.key == "uts" ? CLONE_NEWUTS
                                           : 0;
      if (flag == 0) continue;
      ASSERT_EQ(::setns(part.fd.get(), flag), 0) << part.key;
    }
    facts = LookAround();
  }).join();
  return facts;
}

// Lines of mountinfo from the mount point on: what comes before are numbers, and names of the
// container's own cgroups.
std::string MountsOf(pid_t pid) {
  std::istringstream in(ReadText(StrCat("/proc/", pid, "/mountinfo")));
  std::string out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string id, parent, device, root, rest;
    words >> id >> parent >> device >> root;
    std::getline(words, rest);
    if (!rest.starts_with(" / "))
      out += rest + "\n";  // the image and what was written are the container's
  }
  return out;
}

TEST_F(PoolTest, AMemberIsLikeAnyOtherSandbox) {
  const std::set<ino_t> members = Fill(1);
  const model::SandboxSpec pooled = node_->Sandbox("pooled");
  ASSERT_TRUE(members.contains(NetworkOf(pooled)));
  runtime_->KeepReady(0);
  model::SandboxSpec fresh = node_->Sandbox("fresh");
  fresh.hostname = pooled.hostname;
  ASSERT_FALSE(members.contains(NetworkOf(fresh)));

  const auto one = node_->Keeper().GetSandbox(pooled.uid);
  const auto other = node_->Keeper().GetSandbox(fresh.uid);
  ASSERT_TRUE(one && other);
  const auto keys = [](const std::vector<keeper::KeptFd>& sandbox) {
    std::vector<std::string> names;
    for (const auto& part : sandbox) names.push_back(part.key);
    return names;
  };
  EXPECT_EQ(keys(*one), keys(*other));
  const Facts expected = FactsOf(*other);
  EXPECT_GT(expected.size(), 300u) << "sysctls of net, ipc and uts, and what ip shows";
  EXPECT_EQ(expected.at("/proc/sys/kernel/hostname"), "pooled\n");
  const Facts found = FactsOf(*one);
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name), value) << name;
  }
  EXPECT_EQ(found.size(), expected.size());

  // And a container in it: limits, mounts (/dev/shm among them).
  const auto start = [&](const std::string& uid, const std::string& id) {
    const auto started = runtime_->Start(node_->Container(uid, id, {"/bin/sleep", "1000"}));
    EXPECT_TRUE(started) << (started ? "" : started.error().error.message());
    return started ? started->pid : 0;
  };
  const pid_t in_pooled = start("pooled", "a");
  const pid_t in_fresh = start("fresh", "b");
  EXPECT_EQ(ReadText(StrCat("/proc/", in_pooled, "/limits")),
            ReadText(StrCat("/proc/", in_fresh, "/limits")));
  EXPECT_EQ(MountsOf(in_pooled), MountsOf(in_fresh));
  EXPECT_NE(MountsOf(in_fresh).find(" /dev/shm "), std::string::npos);
  EXPECT_EQ(fs::space(StrCat("/proc/", in_pooled, "/root/dev/shm")).capacity,
            fs::space(StrCat("/proc/", in_fresh, "/root/dev/shm")).capacity);
  RemoveAll({"pooled", "fresh"});
}

// Or all that it starts later would be in a pod's namespace.
TEST_F(PoolTest, TheLauncherGivesTheHostNameAndStaysWhereItWas) {
  const auto uts_of_keepers = [this] {
    std::vector<std::string> found;
    for (const pid_t pid : node_->KeeperProcesses()) {
      found.push_back(fs::read_symlink(StrCat("/proc/", pid, "/ns/uts")));
    }
    return found;
  };
  const std::vector<std::string> before = uts_of_keepers();
  const std::set<ino_t> members = Fill(1);
  ASSERT_TRUE(members.contains(NetworkOf("named")));
  EXPECT_EQ(uts_of_keepers(), before);
  const auto sandbox = node_->Keeper().GetSandbox(PodUid("named"));
  ASSERT_TRUE(sandbox);
  EXPECT_EQ(FactsOf(*sandbox).at("/proc/sys/kernel/hostname"), "named\n");
  RemoveAll({"named"});
}

TEST_F(PoolTest, WhatTheNetworkMakesReadyIsMadeInEachMember) {
  runtime_.reset();
  RuntimeOptions options = node_->Options();
  std::mutex mutex;
  std::set<ino_t> seen;
  std::vector<std::string> warnings;
  bool refuses = false;
  options.make_network_ready = [&](int netns) -> Result<void> {
    const std::lock_guard lock(mutex);
    seen.insert(InodeOf(netns));
    if (refuses) return Conflict("there is an eth0");
    return {};
  };
  options.warn = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    warnings.push_back(text);
  };
  auto runtime = MakeContainerRuntime(options);
  ASSERT_TRUE(runtime) << runtime.error().message();
  runtime_ = std::move(*runtime);
  EXPECT_EQ(Fill(2), seen);
  RemoveAll({});
  {
    const std::lock_guard lock(mutex);
    refuses = true;
  }
  runtime_->KeepReady(1);
  EXPECT_TRUE(Eventually([&] {
    const std::lock_guard lock(mutex);
    return warnings ==
           std::vector<std::string>{"no sandbox lies ready for pods: there is an eth0, ignoring"};
  }));
  EXPECT_TRUE(Eventually([this] { return Members().empty(); })) << "the one without is dropped";
  RemoveAll({});
  runtime_.reset();  // before what it calls
}

TEST_F(PoolTest, EachMemberIsTakenOnceAndReplaced) {
  const std::set<ino_t> members = Fill(2);
  const std::set<ino_t> taken{NetworkOf("a"), NetworkOf("b")};
  EXPECT_EQ(taken, members);
  EXPECT_FALSE(members.contains(NetworkOf("c"))) << "there was none left";
  EXPECT_EQ(NetworkOf("a"), NetworkOf("a")) << "what is there stays";
  const std::set<ino_t> next = Fill(2);
  for (const ino_t one : next) EXPECT_FALSE(taken.contains(one));
  RemoveAll({"a", "b", "c"});
}

TEST_F(PoolTest, WhoAsksForSomethingElseDoesNotGetOne) {
  const std::set<ino_t> members = Fill(1);
  model::SandboxSpec spec = node_->Sandbox("sysctl");
  spec.sysctls = {{"net.ipv4.ip_local_port_range", "2000 3000"}};
  EXPECT_FALSE(members.contains(NetworkOf(spec)));
  spec = node_->Sandbox("shm");
  spec.shm_size_bytes = 1 << 20;
  EXPECT_FALSE(members.contains(NetworkOf(spec)));
  spec = node_->Sandbox("shared");
  spec.share_process_namespace = true;
  EXPECT_FALSE(members.contains(NetworkOf(spec)));
  EXPECT_TRUE(members.contains(NetworkOf("plain")));
  RemoveAll({"sysctl", "shm", "shared", "plain"});
}

TEST_F(PoolTest, WhenNoneIsWantedAllGo) {
  Fill(3);
  runtime_->KeepReady(0);
  EXPECT_TRUE(Eventually([this] { return Members().empty(); }));
  RemoveAll({});
}

TEST_F(PoolTest, TheEndOfTheAgentTakesThemAway) {
  Fill(2);
  runtime_.reset();
  EXPECT_EQ(Members(), std::vector<std::string>());
  EXPECT_EQ(node_->Leftovers(), std::vector<std::string>());
}

// Nobody knows what it was made from.
TEST_F(PoolTest, AMemberOfAFormerAgentIsDropped) {
  const auto plan = SealPlan(*CompileSandbox(model::SandboxSpec{}));
  ASSERT_TRUE(plan);
  ASSERT_TRUE(node_->Keeper().MakeMember("former", plan->get()));
  runtime_.reset();
  runtime_ = node_->Open();
  EXPECT_TRUE(Eventually([this] { return Members().empty(); }));
  Fill(1);
  ASSERT_TRUE(node_->Keeper().MakeMember("late", plan->get()));  // it had been under way
  EXPECT_TRUE(runtime_->Audit({}, false)->empty());
  EXPECT_TRUE(Eventually([this] { return Members().size() == 1; }));
  EXPECT_NE(Members(), std::vector<std::string>{"late"});
  RemoveAll({});
}

// Holder and launcher have it both.
TEST_F(PoolTest, TheDeathOfOneKeeperProcessLosesNone) {
  const std::set<ino_t> members = Fill(2);
  const std::vector<pid_t> keepers = node_->KeeperProcesses();  // holder, logger, launcher
  ASSERT_EQ(keepers.size(), 3u);
  ASSERT_EQ(::kill(keepers.back(), SIGKILL), 0);
  EXPECT_TRUE(members.contains(NetworkOf("a")));
  ASSERT_EQ(::kill(keepers.front(), SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] {
    const auto pids = node_->KeeperProcesses();
    return pids.size() >= 3 && pids.front() != keepers.front();
  }));
  EXPECT_TRUE(members.contains(NetworkOf("b")));
  RemoveAll({"a", "b"});
}

// In the place of a launcher that does not know members: hands everything else on to the real one.
class OlderLauncher {
 public:
  explicit OlderLauncher(const std::string& run_dir) : place_(run_dir + "/launch.1000.sock") {
    for (const auto& entry : fs::directory_iterator(run_dir)) {
      if (entry.path().filename().string().starts_with("launch.")) real_ = entry.path();
    }
    auto listener = sys::ListenSeqpacket(place_, 0600);
    EXPECT_TRUE(listener);
    listener_ = std::move(*listener);
    thread_ = std::thread([this] { Run(); });
  }
  ~OlderLauncher() {
    ending_ = true;
    thread_.join();
    fs::remove(place_);
  }

 private:
  void Run() {
    while (!ending_) {
      pollfd readable{listener_.get(), POLLIN, 0};
      if (::poll(&readable, 1, 20) != 1) continue;
      const UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) Serve(client.get());
    }
  }
  void Serve(int client) const {
    const auto message = keeper::ReceiveMessage(client);
    if (!message) return;
    if (message->type == keeper::MessageType::kMakeMember) {
      const auto unknown = keeper::EncodeError(Unsupported("launcher: unknown message"));
      EXPECT_TRUE(keeper::SendMessage(client, keeper::MessageType::kError, unknown));
      return;
    }
    std::vector<int> fds;
    for (const UniqueFd& fd : message->fds) fds.push_back(fd.get());
    const auto real = sys::ConnectSeqpacket(real_);
    if (!real || !keeper::SendMessage(real->get(), message->type, message->payload, fds)) return;
    const auto answer = keeper::ReceiveMessage(real->get());
    if (!answer) return;
    fds.clear();
    for (const UniqueFd& fd : answer->fds) fds.push_back(fd.get());
    (void)keeper::SendMessage(client, answer->type, answer->payload, fds);  // it may have gone
  }

  const std::string place_;
  std::string real_;
  UniqueFd listener_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

TEST_F(PoolTest, WithAnOlderKeeperThereIsNoneAndPodsStart) {
  runtime_.reset();
  RuntimeOptions options = node_->Options();
  std::mutex mutex;
  std::vector<std::string> warnings;
  options.warn = [&](const std::string& text) {
    const std::lock_guard lock(mutex);
    warnings.push_back(text);
  };
  const auto told = [&] {
    const std::lock_guard lock(mutex);
    return static_cast<size_t>(std::ranges::count_if(warnings, [](const std::string& text) {
      return text.starts_with("no sandbox lies ready");
    }));
  };
  {
    const OlderLauncher older(node_->dir() + "/run");
    auto runtime = MakeContainerRuntime(options);
    ASSERT_TRUE(runtime) << runtime.error().message();
    runtime_ = std::move(*runtime);
    runtime_->KeepReady(4);
    EXPECT_TRUE(Eventually([&] { return told() == 1; }));
    EXPECT_NE(NetworkOf("a"), 0u);
    EXPECT_EQ(Members(), std::vector<std::string>());
    RemoveAll({"a"});
  }
  EXPECT_EQ(told(), 1u);
  runtime_.reset();  // before what it warns
}

TEST_F(PoolTest, WithoutAKeeperToRememberThemPodsGetNewOnes) {
  const std::set<ino_t> members = Fill(2);
  node_->KillKeeper();
  EXPECT_FALSE(members.contains(NetworkOf("a")));
  for (const ino_t one : Fill(2)) EXPECT_FALSE(members.contains(one));
  RemoveAll({"a"});
}

}  // namespace
}  // namespace holdfast::runtime
