// SPDX-License-Identifier: Apache-2.0
// RegistryHost: one server that is asked for the images of a registry, and the servers of a
// registry as containerd's directory of hosts.toml files names them. Read for every pull.
// Source: containerd, docs/hosts.md.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/image/wire/wire.h"

namespace holdfast::runtime {

struct RegistryHost {
  std::string base;       // "https://mirror.example:5000/v2", without a slash at its end
  std::string authority;  // "mirror.example:5000": what logins are looked up by
  bool pull = true;
  bool resolve = true;
  bool push = true;
  bool is_server = false;            // the registry itself, not a mirror of it
  std::vector<std::string> headers;  // "Name: value"
  fetch::Trust trust;
  std::chrono::milliseconds dial_timeout{30'000};
};

// A host as the file has it: files of certificates by name, read by ReadRegistryHosts.
struct HostEntry {
  RegistryHost host;
  std::vector<std::string> authorities;  // files
  std::vector<std::pair<std::string, std::string>>
      identities;  // certificate and key; key may be ""
};

// The hosts of `text` (hosts.toml of `registry`, "docker.io"), in the order of the file, the server
// last. kInvalidArgument names line, field and what is wrong; a field that is not known is refused.
Result<std::vector<HostEntry>> ParseHostsToml(std::string_view text, const std::string& registry);

// Without a configuration: https, plain http for a loopback host, registry-1.docker.io for docker.io.
RegistryHost DefaultHost(const std::string& registry);

// From <directory>/<registry>/hosts.toml, else <directory>/_default/hosts.toml, else the default.
// A folder without hosts.toml holds certificates as docker has them: *.crt, *.cert with *.key.
Result<std::vector<RegistryHost>> ReadRegistryHosts(const std::string& directory,
                                                    const std::string& registry);

}  // namespace holdfast::runtime
