// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_reader.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

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
constexpr char kHugePages[] = "/sys/kernel/mm/hugepages";

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

// "hugepages-2Mi" and the others of this machine, with what is set aside for them.
void AddHugePages(kube::ResourceList& list) {
  const auto names = sys::ListDirAt(AT_FDCWD, kHugePages);
  if (!names) return;                       // a kernel without them
  for (const std::string& name : *names) {  // "hugepages-2048kB"
    int64_t kib = 0;
    const size_t dash = name.find('-') + 1;
    std::from_chars(name.data() + dash, name.data() + name.size(), kib);
    if (kib == 0) continue;
    const auto amount = [](int64_t bytes) {
      return kube::Amount::FromUnits(bytes, kube::Amount::Format::kBinarySi);
    };
    const int64_t count = NumberIn(StrCat(kHugePages, "/", name, "/nr_hugepages"));
    list[StrCat("hugepages-", amount(kib * 1024).ToString())] = amount(count * kib * 1024);
  }
}

// Of the file system that pods' writable layers, volumes and logs lie on.
int64_t StorageBytes(const std::string& root_dir) {
  struct statfs st{};
  if (::statfs(root_dir.c_str(), &st) != 0) return 0;
  return static_cast<int64_t>(st.f_blocks) * st.f_frsize;
}

kube::Amount WholeKib(int64_t bytes) {
  return kube::Amount::FromUnits(bytes / 1024 * 1024, kube::Amount::Format::kBinarySi);
}

void SetAmounts(const NodeAmounts& amounts, kube::ResourceList& list) {
  list["cpu"] = kube::Amount::FromMilli(amounts.cpu_milli);
  list["memory"] = WholeKib(amounts.memory_bytes);
}

kube::ResourceList ResourcesOf(const NodeAmounts& amounts, const AgentConfig& config) {
  kube::ResourceList list;
  SetAmounts(amounts, list);
  list["ephemeral-storage"] = WholeKib(StorageBytes(config.instance.root_dir));
  list["pods"] = kube::Amount::FromUnits(config.node.max_pods);
  AddHugePages(list);
  return list;
}

// As a kubelet writes bytes: always in Ki.
void Show(const kube::ResourceList& from, auto& to) {
  for (const auto& [name, amount] : from) {
    const bool kib = name == "memory" || name == "ephemeral-storage";
    to[name].set_string(kib ? StrCat(amount.Units() / 1024, "Ki") : amount.ToString());
  }
}

// Checked at start; with less of it since, the node offers all that it has.
NodeAmounts AmountsForPods(const AgentConfig& config) {
  const NodeAmounts for_pods = CapacityForPods(config.instance);
  return NodeAllocatable(config.node, for_pods).value_or(for_pods);
}

std::map<std::string, std::string> LabelsOf(const AgentConfig& config) {
  utsname uts{};
  ::uname(&uts);
  const std::string architecture = Architecture(uts.machine);
  std::map<std::string, std::string> labels = {
      {"kubernetes.io/hostname", config.instance.node_name},
      {"kubernetes.io/os", "linux"},
      {"kubernetes.io/arch", architecture},
      // Old names, that old manifests select by.
      {"beta.kubernetes.io/os", "linux"},
      {"beta.kubernetes.io/arch", architecture},
  };
  for (const auto& [key, value] : config.node.labels) labels[key] = value;
  return labels;
}

std::string WhyNoAppArmor() {
  if (!FirstLine("/sys/module/apparmor/parameters/enabled").starts_with('Y')) {
    return "AppArmor is not enabled on the host";
  }
  return "AppArmor profiles are not set by this version";
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
  node->memory_allocatable_bytes = AmountsForPods(config).memory_bytes;
  node->cluster_domain = instance.cluster_domain;
  node->cluster_dns = instance.cluster_dns;
  node->resolv_conf = ReadOrEmpty(instance.resolv_conf);
  node->hosts = ReadOrEmpty("/etc/hosts");
  node->seccomp_dir = config.seccomp_dir;
  node->log_max_size_bytes = config.container_log.max_size_bytes;
  node->log_max_files = config.container_log.max_files;
  return node;
}

std::shared_ptr<const NodeEnvironment> NodeEnvironmentCache::Get() {
  const std::lock_guard lock(mutex_);
  const BootTime now = clock_.Boot();
  if (value_ == nullptr || now - read_at_ > std::chrono::seconds(10)) {
    value_ = ReadNodeEnvironment(config_);
    read_at_ = now;
  }
  return value_;
}

std::shared_ptr<const NodeOffer> ReadNodeOffer(const AgentConfig& config) {
  auto offer = std::make_shared<NodeOffer>();
  offer->name = config.instance.node_name;
  offer->labels = LabelsOf(config);
  offer->allocatable = ResourcesOf(AmountsForPods(config), config);
  offer->allowed_unsafe_sysctls = config.node.allowed_unsafe_sysctls;
  offer->no_app_armor = WhyNoAppArmor();
  return offer;
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
  for (const auto& [key, value] : LabelsOf(config)) labels[key] = value;
  for (const std::string& cidr : config.instance.pod_cidrs) node.mutable_spec()->add_podcidrs(cidr);
  if (!config.instance.pod_cidrs.empty()) {
    node.mutable_spec()->set_podcidr(config.instance.pod_cidrs.front());
  }
  corev1::NodeStatus& status = *node.mutable_status();
  kube::ResourceList resources = ResourcesOf(NodeCapacity(), config);
  Show(resources, *status.mutable_capacity());
  SetAmounts(AmountsForPods(config), resources);
  Show(resources, *status.mutable_allocatable());
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
