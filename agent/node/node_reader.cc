// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_reader.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include "agent/kube/quantity.h"
#include "agent/kube/times.h"
#include "agent/node/node_addresses.h"
#include "agent/node/node_limits.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kFileLimit = 10ull << 20;
constexpr int64_t kMaxPods = 110;

std::string ReadOrEmpty(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kFileLimit);
  return text ? std::move(*text) : std::string();
}

std::string FirstLine(const std::string& path) {
  const std::string text = ReadOrEmpty(path);
  return text.substr(0, text.find('\n'));
}

int64_t MemoryBytes() {
  std::istringstream lines(ReadOrEmpty("/proc/meminfo"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MemTotal:")) return std::stoll(line.substr(9)) * 1024;
  }
  return 0;
}

// PRETTY_NAME of os-release(5), without its quotes.
std::string OsImage() {
  std::istringstream lines(ReadOrEmpty("/etc/os-release"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string value = line.substr(12);
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    return value;
  }
  return "Linux";
}

std::string Architecture(const std::string& machine) {
  if (machine == "x86_64") return "amd64";
  if (machine == "aarch64") return "arm64";
  return machine;
}

void AddCondition(corev1::NodeStatus& status, const char* type, bool is_true, const char* reason,
                  const char* message, WallTime since, WallTime now) {
  corev1::NodeCondition* condition = status.add_conditions();
  condition->set_type(type);
  condition->set_status(is_true ? "True" : "False");
  condition->set_reason(reason);
  condition->set_message(message);
  kube::SetTime(now, condition->mutable_lastheartbeattime());
  kube::SetTime(since, condition->mutable_lasttransitiontime());
}

void FillInfo(corev1::NodeSystemInfo* info, const utsname& uts, std::string_view version) {
  info->set_machineid(FirstLine("/etc/machine-id"));
  info->set_systemuuid(FirstLine("/sys/class/dmi/id/product_uuid"));
  info->set_bootid(FirstLine("/proc/sys/kernel/random/boot_id"));
  info->set_kernelversion(uts.release);
  info->set_osimage(OsImage());
  info->set_containerruntimeversion(StrCat("holdfast://", version));
  info->set_kubeletversion(StrCat("v", version));
  info->set_operatingsystem("linux");
  info->set_architecture(Architecture(uts.machine));
}

int64_t NumberIn(const std::string& path) {
  const std::string text = FirstLine(path);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void SetAmounts(const NodeAmounts& from, auto& to) {
  const kube::Amount cpu = kube::Amount::FromMilli(from.cpu_milli);
  to["cpu"].set_string(cpu.ToString());
  to["memory"].set_string(StrCat(from.memory_bytes / 1024, "Ki"));
  to["pods"].set_string(std::to_string(kMaxPods));
}

}  // namespace

NodeAmounts NodeCapacity() {
  const int64_t most_pids = NumberIn("/proc/sys/kernel/pid_max");
  return {static_cast<int64_t>(::get_nprocs()) * 1000, MemoryBytes(),
          std::min(most_pids, NumberIn("/proc/sys/kernel/threads-max"))};
}

NodeAmounts CapacityForPods(const model::Instance& instance) {
  const auto layout = runtime::DetectCgroupLayout(instance.cgroup_root);
  const auto bounds = layout ? runtime::BoundsAbove(*layout, instance.cgroup_parent)
                             : Result<runtime::CgroupBounds>(layout.error());
  // Where cgroups cannot be read no pod runs either; that is told by who runs them.
  return Within(NodeCapacity(), bounds.value_or(runtime::CgroupBounds{}));
}

std::shared_ptr<const NodeEnvironment> ReadNodeEnvironment(const AgentConfig& config) {
  const model::Instance& instance = config.instance;
  auto node = std::make_shared<NodeEnvironment>();
  node->node_name = instance.node_name;
  node->host_ips = NodeAddresses(instance.interface_prefix);
  const NodeAmounts capacity = NodeCapacity();
  node->cpu_milli_capacity = capacity.cpu_milli;
  node->memory_capacity_bytes = capacity.memory_bytes;
  node->cluster_domain = instance.cluster_domain;
  node->cluster_dns = instance.cluster_dns;
  node->resolv_conf = ReadOrEmpty(instance.resolv_conf);
  node->hosts = ReadOrEmpty("/etc/hosts");
  node->seccomp_dir = config.seccomp_dir;
  node->log_max_size_bytes = config.log_max_size_bytes;
  node->log_max_files = config.log_max_files;
  return node;
}

std::shared_ptr<const NodeEnvironment> NodeEnvironmentCache::Get() {
  const std::lock_guard lock(mutex_);
  const BootTime now = clock_.Boot();
  if (node_ == nullptr || now - read_at_ > std::chrono::seconds(10)) {
    node_ = ReadNodeEnvironment(config_);
    read_at_ = now;
  }
  return node_;
}

corev1::Node MakeNode(const AgentConfig& config, std::string_view version, WallTime started,
                      WallTime now) {
  const auto environment = ReadNodeEnvironment(config);
  utsname uts{};
  ::uname(&uts);
  corev1::Node node;
  node.mutable_metadata()->set_name(environment->node_name);
  kube::SetTime(started, node.mutable_metadata()->mutable_creationtimestamp());
  auto& labels = *node.mutable_metadata()->mutable_labels();
  labels["kubernetes.io/hostname"] = environment->node_name;
  labels["kubernetes.io/os"] = "linux";
  labels["kubernetes.io/arch"] = Architecture(uts.machine);
  for (const std::string& cidr : config.instance.pod_cidrs) node.mutable_spec()->add_podcidrs(cidr);
  if (!config.instance.pod_cidrs.empty()) {
    node.mutable_spec()->set_podcidr(config.instance.pod_cidrs.front());
  }
  corev1::NodeStatus& status = *node.mutable_status();
  const NodeAmounts capacity = NodeCapacity();
  SetAmounts(capacity, *status.mutable_capacity());
  // Checked at start; with less of it since, the node shows all that it has.
  const NodeAmounts for_pods = CapacityForPods(config.instance);
  SetAmounts(NodeAllocatable(config, for_pods).value_or(for_pods), *status.mutable_allocatable());
  AddCondition(status, "Ready", true, "KubeletReady", "the agent is posting ready status", started,
               now);
  for (const std::string& ip : environment->host_ips) {
    corev1::NodeAddress* address = status.add_addresses();
    address->set_type("InternalIP");
    address->set_address(ip);
  }
  corev1::NodeAddress* hostname = status.add_addresses();
  hostname->set_type("Hostname");
  hostname->set_address(environment->node_name);
  FillInfo(status.mutable_nodeinfo(), uts, version);
  return node;
}

}  // namespace holdfast::agent
