// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "agent/cli/describe.h"
#include "agent/cli/durations.h"
#include "agent/cli/rows.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/pod_status.h"
#include "agent/kube/quantity.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;
using kube::Amount;
using kube::ResourceList;

constexpr char kCpu[] = "cpu";
constexpr char kMemory[] = "memory";
constexpr char kStorage[] = "ephemeral-storage";
constexpr std::string_view kHugePages = "hugepages-";

std::vector<std::string> Taints(const core::Node& node) {
  std::vector<std::pair<std::string, std::string>> taints;  // sorted by effect, then key
  for (const core::Taint& taint : node.spec().taints()) {
    const std::string value = taint.value().empty() ? "" : StrCat("=", taint.value());
    taints.emplace_back(StrCat(taint.effect(), ",", taint.key()),
                        StrCat(taint.key(), value, ":", taint.effect()));
  }
  std::sort(taints.begin(), taints.end());
  std::vector<std::string> texts;
  for (auto& [key, text] : taints) texts.push_back(std::move(text));
  return texts;
}

void DescribeIdentity(const core::Node& node, DescribeWriter& out) {
  out.Line(0, "Name:", node.metadata().name());
  out.Line(0, "Roles:", NodeRoles(node));
  DescribeLabels(node.metadata(), out);
  out.Line(0,
           "CreationTimestamp:", LongTime(kube::ToWallTime(node.metadata().creationtimestamp())));
  out.List(0, "Taints:", Taints(node));
  out.Line(0, "Unschedulable:", node.spec().unschedulable() ? "true" : "false");
}

void DescribeConditions(const core::Node& node, DescribeWriter& out) {
  if (node.status().conditions().empty()) return;
  out.Text(0, "Conditions:");
  const std::vector<std::string> header = {
      "Type", "Status", "LastHeartbeatTime", "LastTransitionTime", "Reason", "Message"};
  out.Row(1, header);
  std::vector<std::string> rule;
  for (const std::string& word : header) rule.emplace_back(word.size(), '-');
  out.Row(1, rule);
  for (const core::NodeCondition& condition : node.status().conditions()) {
    out.Row(1, {condition.type() + " ", condition.status() + " ",
                LongTime(kube::ToWallTime(condition.lastheartbeattime())) + " ",
                LongTime(kube::ToWallTime(condition.lasttransitiontime())) + " ",
                condition.reason() + " ", condition.message()});
  }
}

void DescribeSystem(const core::Node& node, DescribeWriter& out) {
  const core::NodeSystemInfo& info = node.status().nodeinfo();
  out.Text(0, "System Info:");
  out.Line(1, "Machine ID:", info.machineid());
  out.Line(1, "System UUID:", info.systemuuid());
  out.Line(1, "Boot ID:", info.bootid());
  out.Line(1, "Kernel Version:", info.kernelversion());
  out.Line(1, "OS Image:", info.osimage());
  out.Line(1, "Operating System:", info.operatingsystem());
  out.Line(1, "Architecture:", info.architecture());
  out.Line(1, "Container Runtime Version:", info.containerruntimeversion());
  out.Line(1, "Kubelet Version:", info.kubeletversion());
  if (!info.kubeproxyversion().empty()) out.Line(1, "Kube-Proxy Version:", info.kubeproxyversion());
  if (!node.spec().podcidr().empty()) out.Line(0, "PodCIDR:", node.spec().podcidr());
  if (!node.spec().podcidrs().empty()) out.Line(0, "PodCIDRs:", Join(node.spec().podcidrs(), ","));
  if (!node.spec().providerid().empty()) out.Line(0, "ProviderID:", node.spec().providerid());
}

ResourceList Allocatable(const core::Node& node) {
  const auto& status = node.status();
  ResourceList list;
  for (const auto& [name, quantity] :
       status.allocatable().empty() ? status.capacity() : status.allocatable()) {
    if (const auto amount = Amount::Parse(quantity.string())) list[name] = *amount;
  }
  return list;
}

Amount Of(const ResourceList& list, std::string_view name) {
  const auto found = list.find(name);
  return found == list.end() ? Amount() : found->second;
}

// "100m (5%)": of what is allocatable, rounded down.
std::string Share(const Amount& amount, const Amount& whole) {
  double percent = 0;
  if (!whole.IsZero()) {
    // Thousandths of large amounts do not fit into 64 bits.
    const bool large = whole.Units() > 1'000'000;
    percent = large ? static_cast<double>(amount.Units()) / static_cast<double>(whole.Units())
                    : static_cast<double>(amount.Milli()) / static_cast<double>(whole.Milli());
  }
  return StrCat(amount.ToString(), " (", static_cast<int64_t>(percent * 100), "%)");
}

struct Usage {
  ResourceList requests;
  ResourceList limits;
};

void Add(ResourceList& sum, const ResourceList& list) {
  for (const auto& [name, amount] : list) sum[name] += amount;
}

// The pods that run or will; returns what they ask for in all.
Usage DescribePods(const std::vector<core::Pod>& pods, const ResourceList& allocatable,
                   WallTime now, DescribeWriter& out) {
  std::vector<const core::Pod*> running;
  for (const core::Pod& pod : pods) {
    if (!kube::IsTerminalPhase(pod.status().phase())) running.push_back(&pod);
  }
  out.Line(0, "Non-terminated Pods:", StrCat("(", running.size(), " in total)"));
  out.Row(1, {"Namespace", "Name", "", "CPU Requests", "CPU Limits", "Memory Requests",
              "Memory Limits", "Age"});
  out.Row(1, {"---------", "----", "", "------------", "----------", "---------------",
              "-------------", "---"});
  const Amount cpu = Of(allocatable, kCpu);
  const Amount memory = Of(allocatable, kMemory);
  Usage sum;
  for (const core::Pod* pod : running) {
    const Usage one{kube::PodRequests(pod->spec()), kube::PodLimits(pod->spec())};
    out.Row(1, {pod->metadata().namespace_(), pod->metadata().name(), "",
                Share(Of(one.requests, kCpu), cpu), Share(Of(one.limits, kCpu), cpu),
                Share(Of(one.requests, kMemory), memory), Share(Of(one.limits, kMemory), memory),
                Age(kube::ToWallTime(pod->metadata().creationtimestamp()), now)});
    Add(sum.requests, one.requests);
    Add(sum.limits, one.limits);
  }
  return sum;
}

void DescribeAllocated(const Usage& sum, const ResourceList& allocatable, DescribeWriter& out) {
  out.Text(0, "Allocated resources:");
  out.Text(1, "(limits may add up to more than 100 percent)");
  out.Row(1, {"Resource", "Requests", "Limits"});
  out.Row(1, {"--------", "--------", "------"});
  const auto share = [&](const std::string& name) {
    const Amount whole = Of(allocatable, name);
    out.Row(1, {name, Share(Of(sum.requests, name), whole), Share(Of(sum.limits, name), whole)});
  };
  for (const char* name : {kCpu, kMemory, kStorage}) share(name);
  for (const auto& [name, amount] : allocatable) {
    if (name.starts_with(kHugePages)) share(name);
  }
  for (const auto& [name, amount] : allocatable) {
    if (name == kCpu || name == kMemory || name == kStorage || name == "pods") continue;
    if (name.starts_with(kHugePages)) continue;
    out.Row(1, {name, Of(sum.requests, name).ToString(), Of(sum.limits, name).ToString()});
  }
}

}  // namespace

std::string DescribeNode(const core::Node& node, const std::vector<core::Pod>& pods,
                         const Events& events, WallTime now) {
  DescribeWriter out;
  DescribeIdentity(node, out);
  DescribeConditions(node, out);
  out.Text(0, "Addresses:");
  for (const core::NodeAddress& address : node.status().addresses()) {
    out.Line(1, address.type() + ":", address.address());
  }
  DescribeQuantities(0, "Capacity:", node.status().capacity(), out);
  DescribeQuantities(0, "Allocatable:", node.status().allocatable(), out);
  DescribeSystem(node, out);
  const ResourceList allocatable = Allocatable(node);
  const Usage sum = DescribePods(pods, allocatable, now, out);
  DescribeAllocated(sum, allocatable, out);
  DescribeEvents(events, now, out);
  return out.Render();
}

}  // namespace holdfast::agent::cli
