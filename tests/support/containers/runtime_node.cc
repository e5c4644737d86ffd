// SPDX-License-Identifier: Apache-2.0
#include "tests/support/containers/runtime_node.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"
#include "runtime/cgroup/layout.h"
#include "tests/support/text_file.h"

namespace holdfast::test_support {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "runtime_node: %s\n", what.c_str());
  std::abort();
}

void EnterOwnNamespaces() {
  static const bool entered = [] {
    if (::unshare(CLONE_NEWNS | CLONE_NEWNET) != 0) Die("unshare: root is needed");
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) Die("make / private");
    return true;
  }();
  (void)entered;
}

std::string BinDir() { return fs::read_symlink("/proc/self/exe").parent_path(); }

void MakeLayer(const std::string& layer) {
  for (const char* dir : {"bin", "etc", "tmp", "proc", "sys", "dev", "root"}) {
    fs::create_directories(layer + "/" + dir);
  }
  fs::copy_file("/bin/busybox", layer + "/bin/busybox");
  for (const char* name :
       {"sh", "sleep", "cat", "echo", "true", "kill", "stty", "id", "ps", "seq"}) {
    fs::create_symlink("busybox", layer + "/bin/" + name);
  }
}

runtime::Cgroup Top() {
  auto layout = runtime::DetectCgroupLayout("/sys/fs/cgroup");
  if (!layout) Die(layout.error().message());
  runtime::Cgroup top;
  for (const auto& hierarchy : layout->hierarchies) {
    top.dirs.push_back(std::move(*sys::OpenDir(hierarchy.mount_point)));
  }
  return top;
}

template <class T>
std::vector<T> OrNone(Result<std::vector<T>> all) {
  return all ? std::move(*all) : std::vector<T>();
}

void KillAndWait(pid_t pid) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) return;
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  pollfd ended{pidfd.get(), POLLIN, 0};
  ::poll(&ended, 1, 10000);
}

}  // namespace

RuntimeNode::RuntimeNode() {
  EnterOwnNamespaces();
  char pattern[] = "/tmp/holdfast-node-XXXXXX";
  if (::mkdtemp(pattern) == nullptr) Die("mkdtemp");
  dir_ = pattern;
  cgroup_parent_ = StrCat("/hf-test-", dir_.substr(dir_.rfind('-') + 1));
  for (const char* name : {"root", "run", "logs", "pause"})
    fs::create_directories(dir_ + "/" + name);
  MakeLayer(dir_ + "/root/layer");
  if (auto made = MakeChild(Top(), cgroup_parent_.substr(1)); !made) Die(made.error().message());
}

RuntimeNode::RuntimeNode(const std::string& dir, const std::string& cgroup_parent)
    : owner_(false), dir_(dir), cgroup_parent_(cgroup_parent) {}

RuntimeNode::~RuntimeNode() {
  if (!owner_) return;
  auto layout = runtime::DetectCgroupLayout("/sys/fs/cgroup");
  const auto backend = runtime::MakeCgroupBackend(*layout);
  auto parent = runtime::OpenChild(Top(), cgroup_parent_.substr(1));
  if (parent) (void)backend->KillAll(*parent);
  KillKeeper();
  auto removed = runtime::RemoveChild(*backend, Top(), cgroup_parent_.substr(1));
  if (!removed) std::fprintf(stderr, "runtime_node: %s\n", removed.error().message().c_str());
  while (::umount2((dir_ + "/run").c_str(), MNT_DETACH) == 0) {
  }
  std::error_code ignored;
  fs::remove_all(dir_, ignored);
}

runtime::RuntimeOptions RuntimeNode::Options() const {
  runtime::RuntimeOptions options;
  options.instance.node_name = "test";
  options.instance.root_dir = dir_ + "/root";
  options.instance.run_dir = dir_ + "/run";
  options.instance.pod_log_dir = dir_ + "/logs";
  options.instance.cgroup_parent = cgroup_parent_;
  options.keeper_binary = BinDir() + "/holdfast-keeper";
  options.init_binary = BinDir() + "/holdfast-init";
  return options;
}

std::unique_ptr<ContainerRuntime> RuntimeNode::Open() const {
  auto runtime = runtime::MakeContainerRuntime(Options());
  if (!runtime) Die(runtime.error().message());
  return std::move(*runtime);
}

runtime::keeper::KeeperClient RuntimeNode::Keeper() const {
  return runtime::keeper::KeeperClient(dir_ + "/run");
}

model::SandboxSpec RuntimeNode::Sandbox(const std::string& uid) const {
  model::SandboxSpec spec;
  spec.uid = PodUid(uid);
  spec.pod_namespace = "default";
  spec.pod_name = uid;
  spec.hostname = uid;
  return spec;
}

ContainerId RuntimeNode::Id(const std::string& digits) {
  std::string id;
  while (id.size() < 64) id += digits;
  id.resize(64);
  return ContainerId(id);
}

model::ContainerSpec RuntimeNode::Container(const std::string& uid, const std::string& id,
                                            std::vector<std::string> argv) const {
  model::ContainerSpec spec;
  spec.id = Id(id);
  spec.pod_uid = PodUid(uid);
  spec.pod_namespace = "default";
  spec.pod_name = uid;
  spec.name = "c" + id;
  spec.root_fs.layers = {dir_ + "/root/layer"};
  spec.root_fs.scratch = StrCat(dir_, "/root/pods/", uid, "/containers/", spec.name, "/0/root");
  spec.argv = std::move(argv);
  spec.env = {"PATH=/bin"};
  const std::string log_dir = StrCat(dir_, "/logs/default_", uid, "_", uid, "/", spec.name);
  fs::create_directories(log_dir);
  spec.log.path = log_dir + "/0.log";
  return spec;
}

std::string RuntimeNode::AddVolume(model::ContainerSpec& spec) const {
  model::MountSpec volume;
  volume.source = dir_ + "/root/volume";
  volume.destination = "/volume";
  fs::create_directories(volume.source);
  spec.mounts.push_back(volume);
  return volume.source;
}

std::vector<std::string> RuntimeNode::Leftovers() const {
  std::vector<std::string> found;
  const auto add = [&](const char* what, const std::string& name) {
    found.push_back(StrCat(what, " ", name));
  };
  for (const auto& entry : fs::recursive_directory_iterator(dir_ + "/run/runtime")) {
    if (!entry.is_directory()) add("record", fs::relative(entry.path(), dir_));
  }
  // The directories above a scratch directory are the agent's.
  for (const auto& entry : fs::recursive_directory_iterator(dir_ + "/root/pods")) {
    if (entry.path().filename() == "root") add("scratch", entry.path());
  }
  const auto keeper = Keeper();
  for (const auto& start : OrNone(keeper.ListStarts())) add("start record", start.id);
  for (const auto& exit : OrNone(keeper.ListExits())) add("exit record", exit.id);
  for (const auto& log : OrNone(keeper.ListLogs())) add("log", log.value);
  for (const auto& uid : OrNone(keeper.ListSandboxes())) add("namespaces", uid.value);
  for (const auto& key : OrNone(keeper.ListKeys())) add("descriptor", key);
  auto root = runtime::OpenChild(Top(), cgroup_parent_.substr(1) + "/kubepods");
  if (root) {
    for (const char* qos : {"", "burstable", "besteffort"}) {
      const auto open = *qos == 0 ? std::move(root)
                                  : runtime::OpenChild(
                                        Top(), StrCat(cgroup_parent_.substr(1), "/kubepods/", qos));
      if (!open) continue;
      const auto names = OrNone(runtime::ListChildren(*open));
      for (const std::string& name : names) {
        if (name.starts_with("pod")) add("cgroup", name);
      }
    }
  }
  return found;
}

std::vector<pid_t> RuntimeNode::KeeperProcesses() const {
  std::vector<pid_t> pids;
  // The holder first: it would start the others again.
  std::vector<std::string> sockets = {dir_ + "/run/keeper.sock", dir_ + "/run/log.sock"};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dir_ + "/run", ignored)) {
    if (entry.path().filename().string().starts_with("launch.")) sockets.push_back(entry.path());
  }
  for (const std::string& path : sockets) {
    auto socket = sys::ConnectSeqpacket(path);
    if (!socket) continue;
    if (auto peer = sys::GetPeerCredentials(socket->get())) pids.push_back(peer->pid);
  }
  return pids;
}

pid_t RuntimeNode::Logger() const {
  for (const pid_t pid : KeeperProcesses()) {
    if (ReadText(StrCat("/proc/", pid, "/comm")) == "hf-log\n") return pid;
  }
  Die("no logger");
}

void RuntimeNode::KillKeeper() const {
  for (const pid_t pid : KeeperProcesses()) KillAndWait(pid);
}

}  // namespace holdfast::test_support
