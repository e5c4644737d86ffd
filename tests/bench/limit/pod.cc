// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/limit/pod.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/process.h"
#include "runtime/launch/launch.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/seccomp.h"
#include "tests/bench/limit/must.h"
#include "tests/bench/limit/root.h"
#include "tests/bench/measure.h"

namespace holdfast::bench {
namespace {

constexpr int kPipeBytes = 256 * 1024;  // runtime/keeper/client/client_logs.cc
constexpr int kLastCapability = 40;

std::pair<UniqueFd, UniqueFd> NewPipe() {
  int ends[2];
  Must(::pipe2(ends, O_CLOEXEC), "pipe");
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::pair<UniqueFd, UniqueFd> NewLogPipe() {
  auto pipe = NewPipe();
  Must(::fcntl(pipe.second.get(), F_SETPIPE_SZ, kPipeBytes), "F_SETPIPE_SZ");
  return pipe;
}

UniqueFd OpenFile(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0640));
  Must(fd.get(), path.c_str());
  return fd;
}

void RaiseLoopback() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::memcpy(request.ifr_name, "lo", 3);
  request.ifr_flags = IFF_UP;
  Must(::ioctl(socket.get(), SIOCSIFFLAGS, &request), "lo up");
}

// runtime/plan/sandbox.cc
void WriteSysctls() {
  constexpr std::pair<const char*, const char*> kSysctls[] = {
      {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
      {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"}};
  for (const auto& [path, value] : kSysctls) {
    const UniqueFd file = OpenFile(path, O_WRONLY);
    Must(::write(file.get(), value, std::strlen(value)), path);
  }
}

void SetUpSandbox() {
  RaiseLoopback();
  WriteSysctls();
}

// Of 0 to 2: nothing to read, and the log.
void ArrangeStreams(int out, int err) {
  const UniqueFd null(::open("/dev/null", O_RDONLY));
  Must(::dup2(null.get(), STDIN_FILENO), "stdin");
  Must(::dup2(out, STDOUT_FILENO), "stdout");
  Must(::dup2(err, STDERR_FILENO), "stderr");
}

void TakeIdentity() {
  const uint64_t keep = runtime::DefaultCapabilities();
  for (int capability = 0; capability <= kLastCapability; ++capability) {
    if ((keep >> capability & 1) == 0) ::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  Must(::syscall(SYS_setgroups, 0, nullptr), "setgroups");
  Must(::syscall(SYS_setresgid, 0, 0, 0), "setresgid");
  Must(::syscall(SYS_setresuid, 0, 0, 0), "setresuid");
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  data[0].effective = data[0].permitted = static_cast<uint32_t>(keep);
  data[1].effective = data[1].permitted = static_cast<uint32_t>(keep >> 32);
  Must(::syscall(SYS_capset, &header, data), "capset");
}

void LimitFiles() {
  const rlimit files{1024, 524288};
  (void)::setrlimit(RLIMIT_NOFILE, &files);  // a machine may have a lower hard limit
}

void LoadFilter(const std::vector<sock_filter>& filter) {
  Must(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs");
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  Must(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), "seccomp");
}

UniqueFd OwnNamespace(const char* name) {
  return OpenFile(StrCat("/proc/self/ns/", name), O_RDONLY);
}

void Join(const UniqueFd& space, int kind) { Must(::setns(space.get(), kind), "setns"); }

}  // namespace

BarePods::BarePods(std::string dir, const std::string& cgroup_parent, PodKind kind)
    : dir_(std::move(dir)),
      kind_(kind),
      cgroups_(cgroup_parent),
      own_network_(OwnNamespace("net")),
      own_ipc_(OwnNamespace("ipc")),
      own_uts_(OwnNamespace("uts")),
      throttle_paths_(ThrottlePaths()) {
  if (kind.network) node_ = std::make_unique<BareNode>();
  for (const model::BpfInstruction& one :
       runtime::DefaultSeccompProgram(runtime::DefaultCapabilities())) {
    filter_.push_back({one.code, one.jt, one.jf, one.k});
  }
  std::filesystem::create_directories(dir_ + "/root/layer/sys/fs/cgroup");
  const std::vector<std::string> visible = {dir_ + "/root"};
  OrDie(runtime::EnterLauncherMountNamespace(visible));  // as cheap to copy as the launcher's
  sys::PreferShortSlices();
}

BarePods::~BarePods() = default;

void BarePods::Prepare(int number) {
  if (!kind_.pooled) return;
  Must(::unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS), "unshare");
  SetUpSandbox();
  ready_ = {OwnNamespace("net"), OwnNamespace("ipc"), OwnNamespace("uts")};
  Join(own_network_, CLONE_NEWNET);
  Join(own_ipc_, CLONE_NEWIPC);
  Join(own_uts_, CLONE_NEWUTS);
  if (node_) MakeReadyPod(*node_, procfs_, number, ready_.network.get());
}

void BarePods::WireNode(int number, pid_t pid) {
  if (kind_.pooled) {
    node_->TakeLink(number);
  } else {
    node_->SetUp(number, OpenFile(StrCat("/proc/", pid, "/ns/net"), O_RDONLY).get());
  }
}

void BarePods::EnterSandbox(int number) const {
  if (kind_.pooled) {
    Join(ready_.network, CLONE_NEWNET);
    Join(ready_.ipc, CLONE_NEWIPC);
    Join(ready_.uts, CLONE_NEWUTS);
  } else {
    SetUpSandbox();
  }
  Must(::sethostname("limit", 5), "hostname");
  if (node_ && !kind_.pooled) TunePodEnd(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (node_) WirePodEnd(number);
}

void BarePods::BecomeProgram(int number, const std::string& scratch,
                             const BareCgroups::Pod& cgroups, const Descriptors& fds,
                             const std::vector<const char*>& program) const {
  BareCgroups::Enter(cgroups);
  sys::RunAhead();
  char byte = 0;
  Must(::read(fds.go.get(), &byte, 1), "go");
  ::setsid();
  Must(::unshare(CLONE_NEWCGROUP), "cgroup namespace");
  EnterSandbox(number);
  MountContainerRoot(dir_ + "/root/layer", scratch, cgroups_.visible());
  HideNode(throttle_paths_);
  EnterContainerRoot();
  ArrangeStreams(fds.out.get(), fds.err.get());
  ::close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
  LimitFiles();
  (void)sys::ResetScheduling();
  TakeIdentity();
  LoadFilter(filter_);
  char* env[] = {nullptr};
  ::execve(program[0], const_cast<char**>(program.data()), env);
  Must(-1, "exec");
  ::_exit(1);
}

BarePods::Pod BarePods::Start(int number, const std::vector<const char*>& program) {
  Pod pod;
  pod.name = StrCat("limit-", ::getpid(), "-", number);
  const std::string scratch = StrCat(dir_, "/root/", pod.name);
  Must(::mkdir(scratch.c_str(), 0700), "scratch");
  Must(::mkdir((scratch + "/upper").c_str(), 0755), "upper");
  Must(::mkdir((scratch + "/work").c_str(), 0755), "work");
  pod.log = OpenFile(scratch + "/0.log", O_WRONLY | O_CREAT);
  const BareCgroups::Pod cgroups = cgroups_.Make(pod.name);
  auto [go, start] = NewPipe();
  auto [executed, running] = NewPipe();
  auto [out, out_end] = NewLogPipe();
  auto [err, err_end] = NewLogPipe();
  const Descriptors fds{std::move(go), std::move(out_end), std::move(err_end)};
  clone_args arguments{};
  arguments.flags = CLONE_NEWNS | CLONE_NEWPID;
  if (!kind_.pooled) arguments.flags |= CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  if (cgroups.unified) {
    arguments.flags |= CLONE_INTO_CGROUP;
    arguments.cgroup = static_cast<uint64_t>(cgroups.unified.get());
  }
  arguments.exit_signal = SIGCHLD;
  pod.pid = static_cast<pid_t>(Must(::syscall(SYS_clone3, &arguments, sizeof arguments), "clone3"));
  if (pod.pid == 0) BecomeProgram(number, scratch, cgroups, fds, program);
  if (node_) WireNode(number, pod.pid);
  Must(::write(start.get(), "g", 1), "go");
  pod.out = std::move(out);
  pod.err = std::move(err);
  pod.executed = std::move(executed);
  return pod;
}

void BarePods::Remove(Pod pod) {
  ::kill(pod.pid, SIGKILL);
  Must(::waitpid(pod.pid, nullptr, 0), "waitpid");
  ready_ = {};
  cgroups_.Remove(pod.name);
  std::filesystem::remove_all(StrCat(dir_, "/root/", pod.name));
}

}  // namespace holdfast::bench
