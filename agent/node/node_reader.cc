// SPDX-License-Identifier: Apache-2.0
#include "agent/node/node_reader.h"

#include <fcntl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <sstream>
#include <utility>

#include "agent/kube/quantity.h"
#include "agent/kube/times.h"
#include "agent/node/app_armor.h"
#include "agent/node/memory_policy.h"
#include "agent/node/node_addresses.h"
#include "agent/node/node_builder.h"
#include "agent/node/node_limits.h"
#include "holdfast/base/keyed_number.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/cgroup/bounds.h"
#include "runtime/cgroup/layout.h"
#include "runtime/gather/selinux.h"

namespace holdfast::agent {
namespace {

constexpr size_t kMachineFileLimit = 10ull << 20;
constexpr char kHugePages[] = "/sys/kernel/mm/hugepages";

std::string ReadOrEmpty(const std::string& path) {
  auto text = sys::ReadFileAt(AT_FDCWD, path, kMachineFileLimit);
  return text ? std::move(*text) : std::string();
}

std::string FirstLine(const std::string& path) {
  const std::string text = ReadOrEmpty(path);
  return text.substr(0, text.find('\n'));
}

// `name`: "MemTotal:"
int64_t MemoryBytes(std::string_view name) {
  return static_cast<int64_t>(KeyedNumber(ReadOrEmpty("/proc/meminfo"), name) * 1024);
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

// The first of these files that says something. (A string of the device tree ends with a zero.)
std::string FirstOf(std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    std::string line = FirstLine(path);
    line.resize(std::min(line.size(), line.find('\0')));
    if (!line.empty()) return line;
  }
  return "";
}

NodeMachine ReadMachine() {
  utsname uts{};
  ::uname(&uts);
  NodeMachine machine;
  machine.machine_id = FirstOf({"/etc/machine-id", "/var/lib/dbus/machine-id"});
  machine.system_uuid =
      FirstOf({"/sys/class/dmi/id/product_uuid", "/proc/device-tree/system-id",
               "/proc/device-tree/vm,uuid", "/etc/machine-id", "/var/lib/dbus/machine-id"});
  machine.boot_id = FirstLine("/proc/sys/kernel/random/boot_id");
  machine.kernel_version = uts.release;
  machine.os_image = OsImage();
  machine.architecture = Architecture(uts.machine);
  return machine;
}

int64_t NumberIn(const std::string& path) {
  const std::string text = FirstLine(path);
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

kube::ResourceList ReadHugePages() {
  kube::ResourceList list;
  const auto names = sys::ListDirAt(AT_FDCWD, kHugePages);
  if (!names) return list;                  // a kernel without them
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
  return list;
}

std::shared_ptr<const StandingFacts> ReadStandingFacts(const model::Instance& instance) {
  return std::make_shared<const StandingFacts>(
      StandingFacts{.cgroups = runtime::DetectCgroupLayout(instance.cgroup_root),
                    .machine = ReadMachine(),
                    .huge_pages = ReadHugePages()});
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

kube::ResourceList ResourcesOf(const NodeAmounts& amounts, const kube::ResourceList& huge_pages,
                               const AgentConfig& config) {
  kube::ResourceList list = huge_pages;
  SetAmounts(amounts, list);
  list["ephemeral-storage"] = WholeKib(StorageBytes(config.instance.root_dir));
  list["pods"] = kube::Amount::FromUnits(config.node.max_pods);
  return list;
}

// No more of `capacity` than the cgroups above the pods allow.
NodeAmounts Bounded(const NodeAmounts& capacity, const Result<runtime::CgroupLayout>& cgroups,
                    const model::Instance& instance) {
  const auto bounds = cgroups ? runtime::BoundsAbove(*cgroups, instance.cgroup_parent)
                              : Result<runtime::CgroupBounds>(cgroups.error());
  // Where cgroups cannot be read no pod runs either; that is told by who runs them.
  return Within(capacity, bounds.value_or(runtime::CgroupBounds{}));
}

// What several parts of one reading are made of.
struct Basis {
  const std::shared_ptr<const StandingFacts> standing;
  const NodeAmounts capacity;
  const NodeAmounts for_pods;
  const MemoryPolicy memory;
};

Basis ReadBasis(const AgentConfig& config, std::shared_ptr<const StandingFacts> standing) {
  const NodeAmounts capacity = NodeCapacity();
  const NodeAmounts bounded = Bounded(capacity, standing->cgroups, config.instance);
  const MemoryPolicy memory = MemoryPolicyOf(config.node, HasUnifiedCgroups(standing->cgroups));
  return {.standing = std::move(standing),
          .capacity = capacity,
          // Checked at start; with less of it since, the node offers all that it has.
          .for_pods = NodeAllocatable(config.node, bounded).value_or(bounded),
          .memory = memory};
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

std::vector<std::string> AddressesOf(const AgentConfig& config) {
  return config.node.ips.empty() ? NodeAddresses(config.instance.interface_prefix)
                                 : config.node.ips;
}

std::shared_ptr<NodeDescription> DescriptionOf(const AgentConfig& config, const Basis& basis,
                                               std::string_view version) {
  auto facts = std::make_shared<NodeDescription>();
  facts->name = config.instance.node_name;
  facts->version = version;
  facts->labels = LabelsOf(config);
  for (const auto& [key, value] : config.node.labels) facts->own_labels.push_back(key);
  facts->host_ips = AddressesOf(config);
  facts->given_ips = config.node.ips;
  facts->runtime_handlers = config.node.runtime_handlers;
  facts->pressure =
      PressureOf(ReadRooms(config.instance, CgroupNamingOf(config), basis.standing->cgroups),
                 ThresholdsOf(config.node.eviction));
  facts->capacity = ResourcesOf(basis.capacity, basis.standing->huge_pages, config);
  facts->allocatable = facts->capacity;
  SetAmounts(basis.for_pods, facts->allocatable);
  facts->machine = basis.standing->machine;
  facts->machine.swap_bytes = MemoryBytes("SwapTotal:");
  return facts;
}

std::shared_ptr<const NodeEnvironment> EnvironmentOf(const AgentConfig& config, const Basis& basis,
                                                     const NodeDescription& description,
                                                     AppArmorOffer app_armor) {
  const model::Instance& instance = config.instance;
  auto node = std::make_shared<NodeEnvironment>();
  node->node_name = instance.node_name;
  node->host_ips = description.host_ips;
  node->cpu_milli_capacity = basis.capacity.cpu_milli;
  node->memory_capacity_bytes = basis.capacity.memory_bytes;
  node->memory_allocatable_bytes = basis.for_pods.memory_bytes;
  node->swap_capacity_bytes = description.machine.swap_bytes;
  node->memory = basis.memory;
  node->memory.page_bytes = ::sysconf(_SC_PAGESIZE);
  node->cluster_domain = instance.cluster_domain;
  node->cluster_dns = instance.cluster_dns;
  node->resolv_conf = ReadOrEmpty(instance.resolv_conf);
  node->hosts = ReadOrEmpty("/etc/hosts");
  node->seccomp_dir = config.seccomp_dir;
  node->app_armor = std::move(app_armor);
  node->selinux = runtime::ReadSelinuxContexts();
  node->runtime_handlers = config.node.runtime_handlers;
  node->log_max_size_bytes = config.container_log.max_size_bytes;
  node->log_max_files = config.container_log.max_files;
  return node;
}

std::shared_ptr<const NodeOffer> OfferOf(const AgentConfig& config, const Basis& basis,
                                         const NodeDescription& description) {
  auto offer = std::make_shared<NodeOffer>();
  offer->name = config.instance.node_name;
  offer->labels = description.labels;
  offer->allocatable = description.allocatable;
  offer->allowed_unsafe_sysctls = config.node.allowed_unsafe_sysctls;
  offer->limited_swap = basis.memory.limited_swap;
  offer->pressure = description.pressure;
  if (!HasAppArmor()) offer->no_app_armor = "AppArmor is not enabled on the host";
  return offer;
}

}  // namespace

NodeAmounts NodeCapacity() {
  const int64_t most_pids = NumberIn("/proc/sys/kernel/pid_max");
  return {static_cast<int64_t>(::get_nprocs()) * 1000, MemoryBytes("MemTotal:"),
          std::min(most_pids, NumberIn("/proc/sys/kernel/threads-max"))};
}

NodeAmounts CapacityForPods(const model::Instance& instance) {
  return Bounded(NodeCapacity(), runtime::DetectCgroupLayout(instance.cgroup_root), instance);
}

NodeReader::NodeReader(AgentConfig config, std::string version,
                       std::unique_ptr<DefaultAppArmor> app_armor)
    : config_(std::move(config)),
      version_(std::move(version)),
      app_armor_(std::move(app_armor)),
      pressure_(config_.node.eviction.pressure_transition) {}

std::shared_ptr<const NodeReading> NodeReader::Read(BootTime now) {
  const Basis basis = ReadBasis(config_, Standing(now));
  const auto description = DescriptionOf(config_, basis, version_);
  description->pressure = pressure_.Show(description->pressure, now);
  auto reading = std::make_shared<NodeReading>();
  reading->standing = basis.standing;
  reading->description = description;
  reading->offer = OfferOf(config_, basis, *description);
  reading->environment = EnvironmentOf(config_, basis, *description,
                                       app_armor_ ? app_armor_->Keep() : AppArmorOffer());
  return reading;
}

// Cgroups that could not be seen are looked for each time.
std::shared_ptr<const StandingFacts> NodeReader::Standing(BootTime now) {
  if (!standing_ || !standing_->cgroups || now - standing_since_ >= kStanding) {
    standing_ = ReadStandingFacts(config_.instance);
    standing_since_ = now;
  }
  return standing_;
}

corev1::Node MakeNode(const AgentConfig& config, std::string_view version, const ReadyState& ready,
                      WallTime started, WallTime now) {
  const Basis basis = ReadBasis(config, ReadStandingFacts(config.instance));
  const auto facts = DescriptionOf(config, basis, version);
  corev1::Node node = BuildNode(*facts, {}, {}, started);
  *node.mutable_status() = BuildNodeStatus(*facts, ready, node.status(), now);
  node.mutable_metadata()->clear_annotations();  // they are for who reads a cluster's Nodes
  kube::SetTime(started, node.mutable_metadata()->mutable_creationtimestamp());
  for (const std::string& cidr : config.instance.pod_cidrs) node.mutable_spec()->add_podcidrs(cidr);
  if (!config.instance.pod_cidrs.empty()) {
    node.mutable_spec()->set_podcidr(config.instance.pod_cidrs.front());
  }
  return node;
}

}  // namespace holdfast::agent
