// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/rows.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "agent/cli/durations.h"
#include "agent/cli/pod_summary.h"
#include "agent/kube/times.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

void Append(Cells& cells, Cells more) {
  cells.insert(cells.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

WallTime FirstEventTime(const core::Event& event) {
  const WallTime first = kube::ToWallTime(event.firsttimestamp());
  return first.IsZero() ? kube::ToWallTime(event.eventtime()) : first;
}

int32_t EventCount(const core::Event& event) {
  if (event.has_series()) return event.series().count();
  return std::max(event.count(), 1);
}

std::string EventSource(const core::Event& event) {
  const std::string& component =
      event.source().component().empty() ? event.reportingcomponent() : event.source().component();
  const std::string& host =
      event.source().host().empty() ? event.reportinginstance() : event.source().host();
  return host.empty() ? component : component + ", " + host;
}

std::string NodeStatus(const core::Node& node) {
  std::string status = "Unknown";
  for (const auto& condition : node.status().conditions()) {
    if (condition.type() == "Ready") status = condition.status() == "True" ? "Ready" : "NotReady";
  }
  if (node.spec().unschedulable()) status += ",SchedulingDisabled";
  for (const auto& condition : node.status().conditions()) {
    const bool certificate = condition.type().ends_with("Certificate");
    if (certificate && condition.status() == "False") {
      status += StrCat(",", condition.type(), condition.reason());
    }
  }
  return status;
}

std::string NodeAddress(const core::Node& node, std::string_view type) {
  for (const auto& address : node.status().addresses()) {
    if (address.type() == type) return address.address();
  }
  return "<none>";
}

}  // namespace

Cells WithNamespace(const RowStyle& style, std::string first, Cells rest) {
  if (style.with_namespace) rest.insert(rest.begin(), std::move(first));
  return rest;
}

Cells PodHeader(const RowStyle& style) {
  Cells header = {"NAME", "READY", "STATUS", "RESTARTS", "AGE"};
  if (style.wide) Append(header, {"IP", "NODE", "NOMINATED NODE", "READINESS GATES"});
  return WithNamespace(style, "NAMESPACE", std::move(header));
}

Cells PodRow(const core::Pod& pod, const RowStyle& style) {
  PodSummary s = Summarize(pod, style.now);
  Cells row = {pod.metadata().name(), s.ready, s.status, s.restarts, s.age};
  if (style.wide) Append(row, {s.ip, s.node, s.nominated_node, s.readiness_gates});
  return WithNamespace(style, pod.metadata().namespace_(), std::move(row));
}

WallTime EventTime(const core::Event& event) {
  if (event.has_series()) return kube::ToWallTime(event.series().lastobservedtime());
  const WallTime last = kube::ToWallTime(event.lasttimestamp());
  return last.IsZero() ? kube::ToWallTime(event.eventtime()) : last;
}

std::string LastSeen(const core::Event& event, WallTime now) {
  const std::string last = Age(EventTime(event), now);
  const int32_t count = EventCount(event);
  if (count <= 1) return last;
  return StrCat(last, " (x", count, " over ", Age(FirstEventTime(event), now), ")");
}

Cells EventHeader(const RowStyle& style) {
  Cells header = style.wide ? Cells{"LAST SEEN", "TYPE",    "REASON",     "OBJECT", "SUBOBJECT",
                                    "SOURCE",    "MESSAGE", "FIRST SEEN", "COUNT",  "NAME"}
                            : Cells{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"};
  return WithNamespace(style, "NAMESPACE", std::move(header));
}

Cells EventRow(const core::Event& event, const RowStyle& style) {
  const auto& object = event.involvedobject();
  const std::string target = ToLower(object.kind()) + "/" + object.name();
  Cells row;
  if (style.wide) {
    row = {LastSeen(event, style.now),
           event.type(),
           event.reason(),
           target,
           object.fieldpath(),
           EventSource(event),
           event.message(),
           Age(FirstEventTime(event), style.now),
           StrCat(EventCount(event)),
           event.metadata().name()};
  } else {
    row = {LastSeen(event, style.now), event.type(), event.reason(), target, event.message()};
  }
  return WithNamespace(style, event.metadata().namespace_(), std::move(row));
}

std::string NodeRoles(const core::Node& node) {
  constexpr std::string_view kPrefix = "node-role.kubernetes.io/";
  std::vector<std::string> roles;
  for (const auto& [label, value] : node.metadata().labels()) {
    if (!label.starts_with(kPrefix) || label.size() == kPrefix.size()) continue;
    roles.push_back(label.substr(kPrefix.size()));
  }
  std::sort(roles.begin(), roles.end());
  return roles.empty() ? "<none>" : Join(roles, ",");
}

Cells NodeHeader(const RowStyle& style) {
  Cells header = {"NAME", "STATUS", "ROLES", "AGE", "VERSION"};
  if (style.wide) {
    Append(header,
           {"INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"});
  }
  return header;
}

Cells NodeRow(const core::Node& node, const RowStyle& style) {
  const auto& info = node.status().nodeinfo();
  Cells row = {node.metadata().name(), NodeStatus(node), NodeRoles(node),
               Age(kube::ToWallTime(node.metadata().creationtimestamp()), style.now),
               info.kubeletversion()};
  if (style.wide) {
    Append(row, {NodeAddress(node, "InternalIP"), NodeAddress(node, "ExternalIP"), info.osimage(),
                 info.kernelversion(), info.containerruntimeversion()});
  }
  return row;
}

Cells ImageHeader(const RowStyle& style) {
  Cells header = {"IMAGE", "TAG", "IMAGE ID", "SIZE"};
  if (style.wide) Append(header, {"CREATED", "PLATFORM", "LAYERS"});
  return header;
}

std::string ShortId(const std::string& id) { return id.substr(id.find(':') + 1, 12); }

std::vector<Cells> ImageRows(const v1::Image& image, const RowStyle& style) {
  const std::string& id = image.id();
  Cells tail = {style.wide ? id.substr(id.find(':') + 1) : ShortId(id),
                HumanBytes(image.size_bytes())};
  if (style.wide) {
    const WallTime created{std::chrono::nanoseconds(image.created_unix_nanos())};
    const std::string platform =
        image.artifact_type().empty() ? image.os() + "/" + image.architecture() : "artifact";
    Append(tail, {Age(created, style.now), platform, StrCat(image.layers())});
  }
  std::vector<Cells> rows;
  for (const std::string& name : image.repo_tags()) {
    const size_t tag = name.rfind(':');  // a tag is always there; a port stands before a slash
    Cells row = {name.substr(0, tag), tag == std::string::npos ? "<none>" : name.substr(tag + 1)};
    Append(row, tail);
    rows.push_back(std::move(row));
  }
  if (rows.empty()) {
    const std::string repo = image.repo_digests_size() == 0
                                 ? "<none>"
                                 : image.repo_digests(0).substr(0, image.repo_digests(0).find('@'));
    Cells row = {repo, "<none>"};
    Append(row, tail);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  std::array<char, 32> text{};
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text.data(), text.size(), "%.*f%s", digits, value, kUnits[unit]);
  return text.data();
}

}  // namespace holdfast::agent::cli
