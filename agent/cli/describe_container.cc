// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/describe_container.h"

#include <map>
#include <string>
#include <vector>

#include "agent/cli/describe.h"
#include "agent/cli/durations.h"
#include "agent/cli/image_pull.h"
#include "agent/cli/rows.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

namespace core = ::k8s::io::api::core::v1;

void DescribePorts(const auto& container, DescribeWriter& out) {
  std::string ports;
  std::string host_ports;
  for (const core::ContainerPort& port : container.ports()) {
    const std::string protocol = port.protocol().empty() ? "TCP" : port.protocol();
    const std::string_view gap = ports.empty() ? "" : ", ";
    ports += StrCat(gap, port.containerport(), "/", protocol);
    if (!port.name().empty()) ports += " (" + port.name() + ")";
    host_ports += StrCat(gap, port.hostport(), "/", protocol);
  }
  const bool many = container.ports_size() > 1;
  out.Line(2, many ? "Ports:" : "Port:", ports.empty() ? "<none>" : ports);
  out.Line(2, many ? "Host Ports:" : "Host Port:", host_ports.empty() ? "<none>" : host_ports);
}

void DescribeState(const char* title, const core::ContainerState& state, DescribeWriter& out) {
  if (state.has_running()) {
    out.Line(2, title, "Running");
    out.Line(3, "Started:", LongTime(kube::ToWallTime(state.running().startedat())));
  } else if (state.has_terminated()) {
    const core::ContainerStateTerminated& ended = state.terminated();
    out.Line(2, title, "Terminated");
    if (!ended.reason().empty()) out.Line(3, "Reason:", ended.reason());
    if (!ended.message().empty()) out.Line(3, "Message:", ended.message());
    out.Line(3, "Exit Code:", StrCat(ended.exitcode()));
    if (ended.signal() > 0) out.Line(3, "Signal:", StrCat(ended.signal()));
    out.Line(3, "Started:", LongTime(kube::ToWallTime(ended.startedat())));
    out.Line(3, "Finished:", LongTime(kube::ToWallTime(ended.finishedat())));
  } else {
    out.Line(2, title, "Waiting");
    const core::ContainerStateWaiting& waiting = state.waiting();
    if (!waiting.reason().empty()) out.Line(3, "Reason:", waiting.reason());
    if (!waiting.message().empty()) out.Line(3, "Message:", waiting.message());
  }
}

// "nginx: 4.12MB of 9.70MB, 1 of 3 layers unpacked, for 12s", and a line for each layer that is under way.
void DescribePull(const v1::ListPullsResponse::Pull& pull, WallTime now, DescribeWriter& out) {
  const std::vector<LayerLine> layers = PullLines(pull.progress());
  uint64_t size = 0, bytes = 0, done = 0;
  for (const LayerLine& layer : layers) {
    size += layer.size;
    bytes += layer.bytes;
    done += layer.state == "done" ? 1 : 0;
  }
  std::string how = StrCat(HumanBytes(bytes), " of ", HumanBytes(size), ", ", done, " of ",
                           layers.size(), " layers unpacked");
  if (layers.empty()) how = "asks the registry";
  if (pull.progress().waiting()) how = "waits for other pulls";
  const WallTime begun{std::chrono::nanoseconds(pull.begun_unix_nanos())};
  out.Line(3, "Pulling:", StrCat(pull.image(), ": ", how, ", for ", Age(begun, now)));
  for (const LayerLine& layer : layers) {
    if (layer.state == "waiting" || layer.state == "done") continue;
    out.Line(4, ShortDigest(layer.digest) + ":",
             StrCat(layer.state, ", ", HumanBytes(layer.bytes), " of ", HumanBytes(layer.size)));
  }
}

void DescribeStatus(const core::ContainerStatus* status, const Pulls& pulls, WallTime now,
                    DescribeWriter& out) {
  if (status == nullptr) return;
  DescribeState("State:", status->state(), out);
  for (const auto& pull : pulls) {
    if (pull.container() == status->name()) DescribePull(pull, now, out);
  }
  if (status->laststate().has_terminated()) DescribeState("Last State:", status->laststate(), out);
  out.Line(2, "Ready:", status->ready() ? "True" : "False");
  out.Line(2, "Restart Count:", StrCat(status->restartcount()));
}

std::string PortText(const auto& port) {
  return port.type() == 1 ? port.strval() : StrCat(port.intval());
}

std::string ProbeText(const core::Probe& probe) {
  std::string action = "unknown";
  const core::ProbeHandler& handler = probe.handler();
  if (handler.has_exec()) {
    action = "exec [";
    for (const auto& word : handler.exec().command()) {
      action += (action.back() == '[' ? "" : " ") + word;
    }
    action += "]";
  } else if (handler.has_httpget()) {
    const core::HTTPGetAction& get = handler.httpget();
    const std::string scheme = get.scheme() == "HTTPS" ? "https" : "http";
    action = StrCat("http-get ", scheme, "://", get.host(), ":", PortText(get.port()), get.path());
  } else if (handler.has_tcpsocket()) {
    action = StrCat("tcp-socket ", handler.tcpsocket().host(), ":",
                    PortText(handler.tcpsocket().port()));
  } else if (handler.has_grpc()) {
    action = StrCat("grpc <pod>:", handler.grpc().port(), " ", handler.grpc().service());
  }
  return StrCat(action, " delay=", probe.initialdelayseconds(),
                "s timeout=", probe.timeoutseconds(), "s period=", probe.periodseconds(),
                "s #success=", probe.successthreshold(), " #failure=", probe.failurethreshold());
}

std::string EnvText(const core::EnvVar& env) {
  if (!env.has_valuefrom()) return env.value();
  const core::EnvVarSource& from = env.valuefrom();
  if (from.has_fieldref()) {
    return StrCat(" (", from.fieldref().apiversion(), ":", from.fieldref().fieldpath(), ")");
  }
  if (from.has_resourcefieldref()) {
    return StrCat(" (", from.resourcefieldref().resource(), ")");
  }
  if (from.has_secretkeyref()) {
    return StrCat("<set to the key '", from.secretkeyref().key(), "' in secret '",
                  from.secretkeyref().localobjectreference().name(), "'>");
  }
  if (from.has_configmapkeyref()) {
    return StrCat("<set to the key '", from.configmapkeyref().key(), "' of config map '",
                  from.configmapkeyref().localobjectreference().name(), "'>");
  }
  return "";
}

void DescribeEnvironment(const auto& container, DescribeWriter& out) {
  if (container.env_size() == 0) return out.Line(2, "Environment:", "<none>");
  out.Text(2, "Environment:");
  for (const core::EnvVar& env : container.env()) out.Line(3, env.name() + ":", EnvText(env));
}

void DescribeMounts(const auto& container, DescribeWriter& out) {
  if (container.volumemounts_size() == 0) return out.Line(2, "Mounts:", "<none>");
  std::map<std::string, std::string> sorted;
  for (const core::VolumeMount& mount : container.volumemounts()) {
    std::string how = mount.readonly() ? "ro" : "rw";
    if (!mount.subpath().empty()) how += ",path=\"" + mount.subpath() + "\"";
    sorted[mount.mountpath()] = StrCat(mount.mountpath(), " from ", mount.name(), " (", how, ")");
  }
  out.Text(2, "Mounts:");
  for (const auto& [path, text] : sorted) out.Text(3, text);
}

const core::ContainerStatus* FindStatus(const auto& statuses, const std::string& name) {
  for (const core::ContainerStatus& status : statuses) {
    if (status.name() == name) return &status;
  }
  return nullptr;
}

// Container or EphemeralContainerCommon: the same fields.
void DescribeContainer(const auto& container, const core::ContainerStatus* status,
                       const Pulls& pulls, WallTime now, DescribeWriter& out) {
  out.Text(1, container.name() + ":");
  if (status != nullptr) out.Line(2, "Container ID:", status->containerid());
  out.Line(2, "Image:", container.image());
  if (status != nullptr) out.Line(2, "Image ID:", status->imageid());
  DescribePorts(container, out);
  if (container.command_size() > 0) {
    out.Text(2, "Command:");
    for (const auto& word : container.command()) out.Text(3, word);
  }
  if (container.args_size() > 0) {
    out.Text(2, "Args:");
    for (const auto& word : container.args()) out.Text(3, word);
  }
  DescribeStatus(status, pulls, now, out);
  DescribeQuantities(2, "Limits:", container.resources().limits(), out);
  DescribeQuantities(2, "Requests:", container.resources().requests(), out);
  if (container.has_livenessprobe()) out.Line(2, "Liveness:", ProbeText(container.livenessprobe()));
  if (container.has_readinessprobe()) {
    out.Line(2, "Readiness:", ProbeText(container.readinessprobe()));
  }
  if (container.has_startupprobe()) out.Line(2, "Startup:", ProbeText(container.startupprobe()));
  DescribeEnvironment(container, out);
  DescribeMounts(container, out);
}

}  // namespace

void DescribeContainers(const core::Pod& pod, const Pulls& pulls, WallTime now,
                        DescribeWriter& out) {
  const core::PodSpec& spec = pod.spec();
  const core::PodStatus& status = pod.status();
  if (spec.initcontainers_size() > 0) out.Text(0, "Init Containers:");
  for (const auto& container : spec.initcontainers()) {
    DescribeContainer(container, FindStatus(status.initcontainerstatuses(), container.name()),
                      pulls, now, out);
  }
  out.Text(0, "Containers:");
  for (const auto& container : spec.containers()) {
    DescribeContainer(container, FindStatus(status.containerstatuses(), container.name()), pulls,
                      now, out);
  }
  if (spec.ephemeralcontainers_size() > 0) out.Text(0, "Ephemeral Containers:");
  for (const auto& container : spec.ephemeralcontainers()) {
    const auto& common = container.ephemeralcontainercommon();
    DescribeContainer(common, FindStatus(status.ephemeralcontainerstatuses(), common.name()), pulls,
                      now, out);
  }
}

}  // namespace holdfast::agent::cli
