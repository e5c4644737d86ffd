// SPDX-License-Identifier: Apache-2.0
#include "agent/probe/resolve.h"

#include <strings.h>

#include <map>
#include <utility>

#include "agent/kube/expansion.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent {
namespace {

using IntOrString = k8s::io::apimachinery::pkg::util::intstr::IntOrString;

constexpr char kProbeAgent[] = "kube-probe/1.36";
constexpr char kHookAgent[] = "kube-lifecycle/1.36";

bool SameName(const std::string& a, const char* b) { return ::strcasecmp(a.c_str(), b) == 0; }

Result<int> PortNumber(const IntOrString& port, const corev1::Container& container) {
  if (port.type() == 0) return port.intval();
  for (const corev1::ContainerPort& known : container.ports()) {
    if (known.name() == port.strval()) return known.containerport();
  }
  if (const auto number = WholeNumber<int>(port.strval())) return *number;
  return InvalidArgument(StrCat("port ", port.strval(), " not found"));
}

Result<uint16_t> ResolvePort(const IntOrString& port, const corev1::Container& container) {
  ASSIGN_OR_RETURN(const int number, PortNumber(port, container));
  if (number > 0 && number < 65536) return static_cast<uint16_t>(number);
  return InvalidArgument(StrCat("invalid port number: ", number));
}

// Only what the spec itself gives a value: a kubelet does the same.
Check Exec(const corev1::ExecAction& action, const corev1::Container& container,
           const ContainerId& id) {
  std::map<std::string, std::string> variables;
  for (const corev1::EnvVar& variable : container.env()) {
    if (!variable.has_valuefrom()) variables[variable.name()] = variable.value();
  }
  ExecCheck check{id, {}};
  for (const std::string& word : action.command())
    check.argv.push_back(kube::Expand(word, variables));
  return check;
}

// Bytes that would end the request line, or are none of a URL's.
bool NeedsEscape(unsigned char c) {
  return c <= ' ' || c >= 0x7f ||
         std::string_view("\"<>\\^`{|}#").find(static_cast<char>(c)) != std::string_view::npos;
}

std::string EscapedPath(const std::string& path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out = path.starts_with('/') ? "" : "/";
  // What follows a '#' is never sent.
  for (const char c : path.substr(0, path.find('#'))) {
    const auto byte = static_cast<unsigned char>(c);
    if (!NeedsEscape(byte)) {
      out += c;
      continue;
    }
    out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

// A header that the spec gives replaces ours; one that it gives without a value takes it away.
void AddDefault(HttpCheck& check, const char* name, const char* value) {
  for (auto it = check.headers.begin(); it != check.headers.end(); ++it) {
    if (!SameName(it->first, name)) continue;
    if (it->second.empty()) check.headers.erase(it);
    return;
  }
  check.headers.emplace_back(name, value);
}

Result<Check> Http(const corev1::HTTPGetAction& action, const corev1::Container& container,
                   const std::string& pod_ip, const char* user_agent) {
  HttpCheck check;
  check.tls = SameName(action.scheme(), "https");
  check.host = action.host().empty() ? pod_ip : action.host();
  ASSIGN_OR_RETURN(check.port, ResolvePort(action.port(), container));
  check.path = EscapedPath(action.path());
  for (const corev1::HTTPHeader& header : action.httpheaders()) {
    if (SameName(header.name(), "host")) {
      if (check.authority.empty()) check.authority = header.value();
    } else {
      check.headers.emplace_back(header.name(), header.value());
    }
  }
  AddDefault(check, "User-Agent", user_agent);
  AddDefault(check, "Accept", "*/*");
  return check;
}

}  // namespace

const corev1::Probe* ProbeOf(const corev1::Container& container, ProbeKind kind) {
  switch (kind) {
    case ProbeKind::kStartup:
      return container.has_startupprobe() ? &container.startupprobe() : nullptr;
    case ProbeKind::kReadiness:
      return container.has_readinessprobe() ? &container.readinessprobe() : nullptr;
    case ProbeKind::kLiveness:
      return container.has_livenessprobe() ? &container.livenessprobe() : nullptr;
  }
  return nullptr;
}

Result<Check> ResolveProbe(const corev1::ProbeHandler& handler, const corev1::Container& container,
                           const ContainerId& id, const std::string& pod_ip) {
  if (handler.has_exec()) return Exec(handler.exec(), container, id);
  if (handler.has_httpget()) return Http(handler.httpget(), container, pod_ip, kProbeAgent);
  if (handler.has_tcpsocket()) {
    const auto& action = handler.tcpsocket();
    ASSIGN_OR_RETURN(const uint16_t port, ResolvePort(action.port(), container));
    return TcpCheck{action.host().empty() ? pod_ip : action.host(), port};
  }
  if (handler.has_grpc()) {
    const auto& action = handler.grpc();
    return GrpcCheck{pod_ip, static_cast<uint16_t>(action.port()), action.service()};
  }
  return InvalidArgument(StrCat("missing probe handler for ", container.name()));
}

Result<Check> ResolveHook(const corev1::LifecycleHandler& handler,
                          const corev1::Container& container, const ContainerId& id,
                          const std::string& pod_ip) {
  if (handler.has_exec()) return Exec(handler.exec(), container, id);
  if (handler.has_httpget()) {
    if (handler.httpget().host().empty() && pod_ip.empty()) {
      return InvalidArgument("failed to find networking container");
    }
    ASSIGN_OR_RETURN(Check check, Http(handler.httpget(), container, pod_ip, kHookAgent));
    std::get<HttpCheck>(check).any_status = true;
    return check;
  }
  if (handler.has_sleep()) return SleepCheck{std::chrono::seconds(handler.sleep().seconds())};
  return InvalidArgument("invalid handler");
}

}  // namespace holdfast::agent
