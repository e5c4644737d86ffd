// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/parameters.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/sysctl.h"

namespace holdfast::netproxy::ipvs {
namespace {

constexpr char kFile[] = "ipvs-parameters";
constexpr size_t kMaxBytes = 64 * 1024;
constexpr char kTimeouts[] = "timeouts";

struct Parameter {
  const char* name;
  const char* value;
};
// Connections are tracked, so that they can be masqueraded; those whose real server is gone end.
// conn_reuse_mode stays: since Linux 5.9 its default is right.
constexpr Parameter kAlways[] = {
    {"net/ipv4/vs/conntrack", "1"},
    {"net/ipv4/vs/expire_nodest_conn", "1"},
    {"net/ipv4/vs/expire_quiescent_template", "1"},
    {"net/ipv4/ip_forward", "1"},
};
constexpr Parameter kStrictArp[] = {
    {"net/ipv4/conf/all/arp_ignore", "1"},
    {"net/ipv4/conf/all/arp_announce", "2"},
};

std::string ToText(const Timeouts& timeouts) {
  return StrCat(timeouts.tcp, " ", timeouts.tcp_fin, " ", timeouts.udp);
}

Timeouts FromText(const std::string& text) {
  Timeouts out;
  const char* at = text.data();
  const char* end = at + text.size();
  for (uint32_t* value : {&out.tcp, &out.tcp_fin, &out.udp}) {
    while (at < end && *at == ' ') ++at;
    at = std::from_chars(at, end, *value).ptr;
  }
  return out;
}

uint32_t Seconds(std::chrono::seconds wanted, uint32_t otherwise) {
  return wanted.count() > 0 ? static_cast<uint32_t>(wanted.count()) : otherwise;
}

}  // namespace

Result<Parameters::Saved> Parameters::Load() const {
  Saved out;
  auto text = sys::ReadFileAt(AT_FDCWD, StrCat(directory_, "/", kFile), kMaxBytes);
  if (!text && text.error().code() == Code::kNotFound) return out;
  if (!text) return std::move(text.error());
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string line = text->substr(at, end - at);
    const size_t blank = line.find(' ');
    if (blank != std::string::npos) out.emplace_back(line.substr(0, blank), line.substr(blank + 1));
    at = end + 1;
  }
  return out;
}

Result<void> Parameters::Remember(const std::string& name, const std::string& value, Saved& saved) {
  if (directory_.empty()) return {};
  if (std::any_of(saved.begin(), saved.end(), [&](const auto& s) { return s.first == name; })) {
    return {};
  }
  saved.emplace_back(name, value);
  std::string text;
  for (const auto& [key, old] : saved) text += StrCat(key, " ", old, "\n");
  ASSIGN_OR_RETURN(const DirFd directory, sys::MakeDirs(AT_FDCWD, directory_, 0700));
  RETURN_IF_ERROR(sys::WriteFileAtomicAt(directory.get(), kFile, text, 0600, /*durable=*/false));
  HOLDFAST_PAUSE_POINT("ipvs.parameters.saved");
  return {};
}

Result<void> Parameters::SetSysctl(const std::string& name, const std::string& value,
                                   Saved& saved) {
  ASSIGN_OR_RETURN(const std::string old, sys::ReadSysctl(name));
  if (old == value) return {};
  RETURN_IF_ERROR(Remember(name, old, saved));
  return sys::WriteSysctl(name, value);
}

Result<void> Parameters::Set(const IpvsOptions& options, IpvsKernel& kernel) {
  Saved saved;
  if (!directory_.empty()) {
    ASSIGN_OR_RETURN(saved, Load());
  }
  for (const Parameter& p : kAlways) RETURN_IF_ERROR(SetSysctl(p.name, p.value, saved));
  if (options.strict_arp) {
    for (const Parameter& p : kStrictArp) RETURN_IF_ERROR(SetSysctl(p.name, p.value, saved));
  }
  ASSIGN_OR_RETURN(const Timeouts old, kernel.GetTimeouts());
  const Timeouts wanted = {Seconds(options.tcp_timeout, old.tcp),
                           Seconds(options.tcp_fin_timeout, old.tcp_fin),
                           Seconds(options.udp_timeout, old.udp)};
  if (wanted == old) return {};
  RETURN_IF_ERROR(Remember(kTimeouts, ToText(old), saved));
  return kernel.SetTimeouts(wanted);
}

Result<void> Parameters::Restore(IpvsKernel* kernel) {
  if (directory_.empty()) return {};
  ASSIGN_OR_RETURN(const Saved saved, Load());
  for (const auto& [name, value] : saved) {
    if (name == kTimeouts) {
      if (kernel != nullptr) RETURN_IF_ERROR(kernel->SetTimeouts(FromText(value)));
      continue;
    }
    auto written = sys::WriteSysctl(name, value);
    if (!written && written.error().code() != Code::kNotFound) return written;
  }
  if (saved.empty()) return {};
  return sys::RemoveFileAt(AT_FDCWD, StrCat(directory_, "/", kFile));
}

}  // namespace holdfast::netproxy::ipvs
