// SPDX-License-Identifier: Apache-2.0
// The servers of a registry, read from files.
#include "runtime/image/pull/registry_host.h"

#include <fcntl.h>

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxHostsToml = 1 << 20;
constexpr size_t kMaxPem = 1 << 20;

// Folders for "host:port", as containerd looks: the port may be written host_port_, since not every
// file system takes a colon.
std::vector<std::string> FoldersOf(const std::string& registry) {
  std::vector<std::string> folders;
  const size_t colon = registry.rfind(':');
  if (colon != std::string::npos && registry.find(']', colon) == std::string::npos) {
    folders.push_back(StrCat(registry.substr(0, colon), "_", registry.substr(colon + 1), "_"));
  }
  folders.push_back(registry);
  folders.emplace_back("_default");
  return folders;
}

Result<std::string> ReadPem(int folder, const std::string& name) {
  return sys::ReadFileAt(folder, name, kMaxPem);
}

// Relative names are meant from the folder of hosts.toml.
Result<RegistryHost> WithFiles(HostEntry entry, int folder) {
  fetch::Trust& trust = entry.host.trust;
  for (const std::string& file : entry.authorities) {
    ASSIGN_OR_RETURN(const std::string text, ReadPem(folder, file));
    trust.authorities += text + "\n";
  }
  if (entry.identities.empty()) return std::move(entry.host);
  const auto& [certificate, key] = entry.identities.front();
  ASSIGN_OR_RETURN(trust.certificate, ReadPem(folder, certificate));
  if (!key.empty()) {
    ASSIGN_OR_RETURN(trust.key, ReadPem(folder, key));
  }
  return std::move(entry.host);
}

// docker's certs.d.
Result<std::vector<HostEntry>> EntriesOfCertificates(int folder, const std::string& registry) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, sys::ListDirAt(folder, "."));
  std::ranges::sort(names);
  HostEntry entry{DefaultHost(registry), {}, {}};
  for (const std::string& name : names) {
    if (name.ends_with(".crt")) entry.authorities.push_back(name);
    if (!name.ends_with(".cert")) continue;
    entry.identities.emplace_back(name, name.substr(0, name.size() - 4) + "key");
  }
  // Who gives certificates for it speaks TLS to it.
  if (!entry.authorities.empty() || !entry.identities.empty()) {
    const size_t scheme = entry.host.base.find("://");
    entry.host.base = "https" + entry.host.base.substr(scheme);
  }
  return std::vector{std::move(entry)};
}

Result<std::vector<HostEntry>> ReadFolder(int folder, const std::string& registry) {
  auto text = sys::ReadFileAt(folder, "hosts.toml", kMaxHostsToml);
  if (text) return ParseHostsToml(*text, registry);
  if (text.error().code() != Code::kNotFound) return std::move(text.error());
  return EntriesOfCertificates(folder, registry);
}

}  // namespace

RegistryHost DefaultHost(const std::string& registry) {
  RegistryHost host;
  host.is_server = true;
  host.authority = registry == "docker.io" ? "registry-1.docker.io" : registry;
  const auto address = fetch::ParseAddress("https://" + host.authority);
  const bool plain = address && address->IsLoopback() && address->port != 443;
  host.base = StrCat(plain ? "http://" : "https://", host.authority, "/v2");
  return host;
}

Result<std::vector<RegistryHost>> ReadRegistryHosts(const std::string& directory,
                                                    const std::string& registry) {
  for (const std::string& name : FoldersOf(registry)) {
    if (directory.empty()) break;
    const std::string path = StrCat(directory, "/", name);
    auto folder = sys::OpenDirAt(AT_FDCWD, path);
    if (!folder && folder.error().code() == Code::kNotFound) continue;
    if (!folder) return std::move(folder.error());
    auto entries = ReadFolder(folder->get(), registry);
    if (!entries) return std::move(entries.error()).Wrap(path + "/hosts.toml");
    std::vector<RegistryHost> hosts;
    for (HostEntry& entry : *entries) {
      auto host = WithFiles(std::move(entry), folder->get());
      if (!host) return std::move(host.error()).Wrap(path);
      hosts.push_back(std::move(*host));
    }
    return hosts;
  }
  return std::vector{DefaultHost(registry)};
}

}  // namespace holdfast::runtime
