// SPDX-License-Identifier: Apache-2.0
// hosts.toml: text to hosts. Pure.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "holdfast/base/strings.h"
#include "runtime/image/pull/registry_host.h"
#include "runtime/image/pull/toml_read.h"
#include "runtime/image/wire/address.h"

namespace holdfast::runtime {
namespace {

using toml_read::At;
using toml_read::Strings;

constexpr size_t kMaxHosts = 100;

// "30s", "1m30s", "500ms", as Go has durations.
Result<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  double total = 0;
  while (!text.empty()) {
    double number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const double unit = text.starts_with("ms")  ? 1
                        : text.starts_with("s") ? 1'000
                        : text.starts_with("m") ? 60'000
                        : text.starts_with("h") ? 3'600'000
                                                : 0;
    if (code != std::errc() || unit == 0 || number < 0) return InvalidArgument("no duration");
    text.remove_prefix(text.starts_with("ms") ? 2 : 1);
    total += number * unit;
  }
  if (total < 1 || total > 120'000) return InvalidArgument("not between 1ms and 2m");
  return std::chrono::milliseconds(std::llround(total));
}

Result<bool> Bool(const toml::node& node, const std::string& key) {
  const auto* value = node.as_boolean();
  if (value == nullptr) return At(node, key + ": expected true or false");
  return value->get();
}

Result<void> ReadCapabilities(const toml::node& node, RegistryHost& host) {
  ASSIGN_OR_RETURN(const auto names, Strings(node, "capabilities"));
  host.pull = host.resolve = host.push = false;
  for (const std::string& name : names) {
    if (name == "pull") {
      host.pull = true;
    } else if (name == "resolve") {
      host.resolve = true;
    } else if (name == "push") {
      host.push = true;
    } else if (name != "referrers") {  // what is never asked of it
      return At(node, StrCat("capabilities: unknown \"", name, "\""));
    }
  }
  return {};
}

// A file with both, a list of such files, or a list of pairs.
Result<void> ReadClient(const toml::node& node, HostEntry& entry) {
  const toml::array* list = node.as_array();
  const bool pairs = list != nullptr && !list->empty() && list->get(0)->is_array();
  if (!pairs) {
    ASSIGN_OR_RETURN(const auto files, Strings(node, "client"));
    for (const std::string& file : files) entry.identities.emplace_back(file, "");
    return {};
  }
  for (const toml::node& item : *list) {
    ASSIGN_OR_RETURN(const auto pair, Strings(item, "client"));
    if (pair.empty() || pair.size() > 2) {
      return At(item, "client: expected a certificate and a key");
    }
    entry.identities.emplace_back(pair[0], pair.size() == 2 ? pair[1] : "");
  }
  return {};
}

bool IsHeaderText(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c != 0x7f; });
}

Result<void> ReadHeaders(const toml::node& node, RegistryHost& host) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return At(node, "header: expected a table");
  for (const auto& [name, values] : *table) {
    ASSIGN_OR_RETURN(const auto texts, Strings(values, "header"));
    for (const std::string& text : texts) {
      if (!IsHeaderText(name.str()) || !IsHeaderText(text)) {
        return At(values, "header: holds a control character");
      }
      host.headers.push_back(StrCat(name.str(), ": ", text));
    }
  }
  return {};
}

struct Read {
  HostEntry entry;
  bool override_path = false;
};

Result<void> ReadField(std::string_view key, const toml::node& node, Read& read) {
  RegistryHost& host = read.entry.host;
  if (key == "capabilities") return ReadCapabilities(node, host);
  if (key == "client") return ReadClient(node, read.entry);
  if (key == "header") return ReadHeaders(node, host);
  if (key == "ca") {
    ASSIGN_OR_RETURN(read.entry.authorities, Strings(node, "ca"));
    return {};
  }
  if (key == "skip_verify") {
    ASSIGN_OR_RETURN(const bool skip, Bool(node, "skip_verify"));
    host.trust.verify = !skip;
    return {};
  }
  if (key == "override_path") {
    ASSIGN_OR_RETURN(read.override_path, Bool(node, "override_path"));
    return {};
  }
  if (key == "dial_timeout") {
    const auto* text = node.as_string();
    const auto time = text == nullptr ? InvalidArgument("no string") : ParseDuration(text->get());
    if (!time) return At(node, StrCat("dial_timeout: ", time.error().message()));
    host.dial_timeout = *time;
    return {};
  }
  return At(node, StrCat(key, ": unknown field"));
}

// As containerd: https unless it says http, "/v2" at the end unless the path is meant as it stands.
Result<void> SetBase(const std::string& name, Read& read) {
  const bool has_scheme = name.starts_with("http://") || name.starts_with("https://");
  std::string url = has_scheme ? name : "https://" + name;
  while (url.ends_with('/')) url.pop_back();
  ASSIGN_OR_RETURN(const fetch::Address address, fetch::ParseAddress(url));
  if (address.path.find('?') != std::string::npos) return InvalidArgument("has a query");
  if (!read.override_path && !url.ends_with("/v2")) url += "/v2";
  const size_t begin = url.find("://") + 3;
  read.entry.host.authority = url.substr(begin, url.find('/', begin) - begin);
  read.entry.host.base = std::move(url);
  return {};
}

Result<HostEntry> ReadHost(const std::string& name, const toml::table& table) {
  Read read;
  for (const auto& [key, node] : table) RETURN_IF_ERROR(ReadField(key.str(), node, read));
  if (auto set = SetBase(name, read); !set) {
    return At(table, StrCat("host.\"", name, "\": ", set.error().message()));
  }
  return std::move(read.entry);
}

// The registry itself: what stands outside of the hosts' tables.
Result<HostEntry> ReadServer(const toml::table& root, const std::string& registry) {
  Read read;
  read.entry.host = DefaultHost(registry);
  const toml::node* server = nullptr;
  for (const auto& [key, node] : root) {
    if (key.str() == "host") continue;
    if (key.str() == "server") {
      server = &node;
    } else {
      RETURN_IF_ERROR(ReadField(key.str(), node, read));
    }
  }
  if (server == nullptr) return std::move(read.entry);
  const auto* text = server->as_string();
  if (text == nullptr) return At(*server, "server: expected a string");
  if (auto set = SetBase(text->get(), read); !set) {
    return At(*server, StrCat("server: ", set.error().message()));
  }
  return std::move(read.entry);
}

// A table forgets the order of its keys; their places in the text tell it.
std::vector<std::pair<std::string, const toml::table*>> InOrder(const toml::table& hosts) {
  std::vector<std::pair<std::string, const toml::table*>> list;
  for (const auto& [name, node] : hosts) list.emplace_back(name.str(), node.as_table());
  const auto line = [](const auto& entry) {
    return entry.second == nullptr ? 0 : entry.second->source().begin.line;
  };
  std::ranges::stable_sort(list, {}, line);
  return list;
}

}  // namespace

Result<std::vector<HostEntry>> ParseHostsToml(std::string_view text, const std::string& registry) {
  ASSIGN_OR_RETURN(const toml::table root, toml_read::Parse(text));
  std::vector<HostEntry> entries;
  if (const toml::node* hosts = root.get("host")) {
    if (!hosts->is_table()) return At(*hosts, "host: expected tables");
    if (hosts->as_table()->size() > kMaxHosts) return At(*hosts, "host: more than 100");
    for (const auto& [name, table] : InOrder(*hosts->as_table())) {
      if (table == nullptr) return At(*hosts, StrCat("host.\"", name, "\": expected a table"));
      ASSIGN_OR_RETURN(HostEntry entry, ReadHost(name, *table));
      entries.push_back(std::move(entry));
    }
  }
  ASSIGN_OR_RETURN(HostEntry server, ReadServer(root, registry));
  entries.push_back(std::move(server));
  return entries;
}

}  // namespace holdfast::runtime
