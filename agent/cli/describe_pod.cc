// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/describe.h"

#include <algorithm>
#include <map>
#include <utility>

#include "agent/cli/describe_container.h"
#include "agent/cli/describe_writer.h"
#include "agent/cli/durations.h"
#include "agent/cli/pod_summary.h"
#include "agent/cli/rows.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

void DescribeIdentity(const core::Pod& pod, DescribeWriter& out) {
  const auto& meta = pod.metadata();
  out.Line(0, "Name:", meta.name());
  out.Line(0, "Namespace:", meta.namespace_());
  out.Line(0, "Priority:", StrCat(pod.spec().priority()));
  if (!pod.spec().priorityclassname().empty()) {
    out.Line(0, "Priority Class Name:", pod.spec().priorityclassname());
  }
  if (!pod.spec().serviceaccountname().empty()) {
    out.Line(0, "Service Account:", pod.spec().serviceaccountname());
  }
  const std::string& node = pod.spec().nodename();
  const std::string& host_ip = pod.status().hostip();
  out.Line(0, "Node:", node.empty() ? "<none>" : host_ip.empty() ? node : node + "/" + host_ip);
  if (pod.status().has_starttime()) {
    out.Line(0, "Start Time:", LongTime(kube::ToWallTime(pod.status().starttime())));
  }
  DescribeLabels(meta, out);
}

void DescribeStanding(const core::Pod& pod, WallTime now, DescribeWriter& out) {
  const auto& meta = pod.metadata();
  const core::PodStatus& status = pod.status();
  if (meta.has_deletiontimestamp()) {
    out.Line(
        0, "Status:",
        StrCat("Terminating (lasts ", Age(kube::ToWallTime(meta.deletiontimestamp()), now), ")"));
    out.Line(0, "Termination Grace Period:", StrCat(meta.deletiongraceperiodseconds(), "s"));
  } else {
    out.Line(0, "Status:", status.phase());
  }
  if (!status.reason().empty()) out.Line(0, "Reason:", status.reason());
  if (!status.message().empty()) out.Line(0, "Message:", status.message());
  out.Line(0, "IP:", status.podip());
  if (status.podips_size() == 0) {
    out.Line(0, "IPs:", "<none>");
  } else {
    out.Text(0, "IPs:");
    for (const auto& address : status.podips()) out.Line(1, "IP:", address.ip());
  }
}

void DescribeConditions(const core::Pod& pod, DescribeWriter& out) {
  if (pod.status().conditions_size() == 0) return;
  out.Text(0, "Conditions:");
  out.Row(1, {"Type", "Status"});
  for (const auto& condition : pod.status().conditions()) {
    out.Row(1, {condition.type() + " ", condition.status()});
  }
}

void DescribeVolumeSource(const core::VolumeSource& source, DescribeWriter& out) {
  if (source.has_emptydir()) {
    out.Line(2, "Type:", "EmptyDir (a temporary directory that shares a pod's lifetime)");
    out.Line(2, "Medium:", source.emptydir().medium());
    const std::string& limit = source.emptydir().sizelimit().string();
    out.Line(2, "SizeLimit:", limit.empty() ? "<unset>" : limit);
  } else if (source.has_hostpath()) {
    out.Line(2, "Type:", "HostPath (bare host directory volume)");
    out.Line(2, "Path:", source.hostpath().path());
    out.Line(2, "HostPathType:", source.hostpath().type());
  } else if (source.has_configmap()) {
    out.Line(2, "Type:", "ConfigMap (a volume populated by a ConfigMap)");
    out.Line(2, "Name:", source.configmap().localobjectreference().name());
    out.Line(2, "Optional:", source.configmap().optional() ? "true" : "false");
  } else if (source.has_secret()) {
    out.Line(2, "Type:", "Secret (a volume populated by a Secret)");
    out.Line(2, "SecretName:", source.secret().secretname());
    out.Line(2, "Optional:", source.secret().optional() ? "true" : "false");
  } else if (source.has_projected()) {
    out.Line(2, "Type:", "Projected (a volume that contains injected data from multiple sources)");
  } else if (source.has_downwardapi()) {
    out.Line(2, "Type:", "DownwardAPI (a volume populated by information about the pod)");
  } else {
    out.Line(2, "Type:", "other (see -o yaml)");
  }
}

void DescribeVolumes(const core::Pod& pod, DescribeWriter& out) {
  if (pod.spec().volumes_size() == 0) return out.Line(0, "Volumes:", "<none>");
  out.Text(0, "Volumes:");
  for (const auto& volume : pod.spec().volumes()) {
    out.Text(1, volume.name() + ":");
    DescribeVolumeSource(volume.volumesource(), out);
  }
}

std::vector<std::string> Tolerations(const core::Pod& pod) {
  std::vector<std::pair<std::string, std::string>> by_key;
  for (const auto& toleration : pod.spec().tolerations()) {
    std::string text = toleration.key();
    if (!toleration.value().empty()) text += "=" + toleration.value();
    if (!toleration.effect().empty()) text += ":" + toleration.effect();
    if (toleration.operator_() == "Exists" && toleration.value().empty()) {
      text += text.empty() ? "op=Exists" : " op=Exists";
    }
    if (toleration.has_tolerationseconds()) {
      text += StrCat(" for ", toleration.tolerationseconds(), "s");
    }
    by_key.emplace_back(toleration.key(), std::move(text));
  }
  std::stable_sort(by_key.begin(), by_key.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> texts;
  for (auto& [key, text] : by_key) texts.push_back(std::move(text));
  return texts;
}

}  // namespace

std::string DescribePod(const core::Pod& pod, const Events& events, const Pulls& pulls,
                        WallTime now) {
  DescribeWriter out;
  DescribeIdentity(pod, out);
  DescribeStanding(pod, now, out);
  DescribeContainers(pod, pulls, now, out);
  DescribeConditions(pod, out);
  DescribeVolumes(pod, out);
  out.Line(0, "QoS Class:", pod.status().qosclass());
  out.List(0, "Node-Selectors:", Pairs(pod.spec().nodeselector(), "="));
  out.List(0, "Tolerations:", Tolerations(pod));
  DescribeEvents(events, now, out);
  return out.Render();
}

}  // namespace holdfast::agent::cli
