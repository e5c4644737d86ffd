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

template <class Map>
std::vector<std::string> Pairs(const Map& map, std::string_view between) {
  std::vector<std::string> pairs;
  for (const auto& [key, value] : map) pairs.push_back(key + std::string(between) + value);
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

void DescribeIdentity(const core::Pod& pod, DescribeWriter& out) {
  const auto& meta = pod.metadata();
  out.Line(0, "Name:", meta.name());
  out.Line(0, "Namespace:", meta.namespace_());
  out.Line(0, "Priority:", StrCat(pod.spec().priority()));
  if (!pod.spec().priorityclassname().empty()) {
    out.Line(0, "Priority Class Name:", pod.spec().priorityclassname());
  }
  out.Line(0, "Service Account:",
           pod.spec().serviceaccountname().empty() ? "default" : pod.spec().serviceaccountname());
  const std::string& node = pod.spec().nodename();
  const std::string& host_ip = pod.status().hostip();
  out.Line(0, "Node:", node.empty() ? "<none>" : host_ip.empty() ? node : node + "/" + host_ip);
  if (pod.status().has_starttime()) {
    out.Line(0, "Start Time:", LongTime(kube::ToWallTime(pod.status().starttime())));
  }
  out.List(0, "Labels:", Pairs(meta.labels(), "="));
  out.List(0, "Annotations:", Pairs(meta.annotations(), ": "));
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
    out.Line(0, "IPs:", "");
    for (const auto& address : status.podips()) out.Line(1, "IP:", address.ip());
  }
}

void DescribeConditions(const core::Pod& pod, DescribeWriter& out) {
  if (pod.status().conditions_size() == 0) return;
  size_t width = 4;
  for (const auto& condition : pod.status().conditions()) {
    width = std::max(width, condition.type().size());
  }
  const auto line = [width](const std::string& type, const std::string& status) {
    return type + std::string(width + 2 - type.size(), ' ') + status;
  };
  out.Line(0, "Conditions:", "");
  out.Text(1, line("Type", "Status"));
  for (const auto& condition : pod.status().conditions()) {
    out.Text(1, line(condition.type(), condition.status()));
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
  out.Line(0, "Volumes:", "");
  for (const auto& volume : pod.spec().volumes()) {
    out.Line(1, volume.name() + ":", "");
    DescribeVolumeSource(volume.volumesource(), out);
  }
}

std::vector<std::string> Tolerations(const core::Pod& pod) {
  std::vector<std::string> texts;
  for (const auto& toleration : pod.spec().tolerations()) {
    std::string text = toleration.key();
    if (!toleration.value().empty()) text += "=" + toleration.value();
    if (!toleration.effect().empty()) text += ":" + toleration.effect();
    if (toleration.operator_() == "Exists" && toleration.value().empty()) {
      text += text.empty() ? "op=Exists" : " op=Exists";
    }
    if (toleration.has_tolerationseconds()) {
      text += StrCat(" for ", HumanDuration(std::chrono::seconds(toleration.tolerationseconds())));
    }
    texts.push_back(std::move(text));
  }
  return texts;
}

std::string EventAge(const core::Event& event, WallTime now) {
  const std::string last = Age(EventTime(event), now);
  const int32_t count = event.has_series() ? event.series().count() : event.count();
  if (count <= 1) return last;
  return StrCat(last, " (x", count, " over ", Age(FirstEventTime(event), now), ")");
}

}  // namespace

std::string DescribeEvents(const std::vector<core::Event>& events, WallTime now) {
  if (events.empty()) return "Events:  <none>\n";
  std::vector<std::vector<std::string>> rows = {{"Type", "Reason", "Age", "From", "Message"},
                                                {"----", "------", "----", "----", "-------"}};
  for (const core::Event& event : events) {
    const std::string& from = event.source().component().empty() ? event.reportingcomponent()
                                                                 : event.source().component();
    rows.push_back({event.type(), event.reason(), EventAge(event, now), from, event.message()});
  }
  Table table(rows.front(), 2, 0);
  for (size_t i = 1; i < rows.size(); ++i) table.AddRow(rows[i]);
  std::string out = "Events:\n";
  std::string body = table.Render(true);
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    out += "  " + body.substr(at, end - at + 1);
    at = end + 1;
  }
  return out;
}

std::string DescribePod(const core::Pod& pod, const std::vector<core::Event>& events,
                        WallTime now) {
  DescribeWriter out;
  DescribeIdentity(pod, out);
  DescribeStanding(pod, now, out);
  DescribeContainers(pod, out);
  DescribeConditions(pod, out);
  DescribeVolumes(pod, out);
  out.Line(0, "QoS Class:", pod.status().qosclass());
  out.List(0, "Node-Selectors:", Pairs(pod.spec().nodeselector(), "="));
  out.List(0, "Tolerations:", Tolerations(pod));
  return out.Render() + DescribeEvents(events, now);
}

}  // namespace holdfast::agent::cli
