// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/kubeconfig.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "holdfast/base/base64.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

constexpr size_t kTokenLimit = 64 << 10;
constexpr size_t kMostWords = 1000;  // of a program's arguments or variables
constexpr char kExecExtension[] = "client.authentication.k8s.io/exec";

// What may stand in a header or an address.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

// A map of the file and where it is.
struct KubeconfigPart {
  const kube::Node* node = nullptr;
  std::string path;  // "clusters[0].cluster"
};

class KubeconfigReader {
 public:
  KubeconfigReader(const std::string& file, const kube::Node& root) : file_(file), root_(root) {}

  Result<KubeConfig> Read() {
    ASSIGN_OR_RETURN(const std::string name, Required({&root_, ""}, "current-context"));
    ASSIGN_OR_RETURN(const KubeconfigPart context, Named("contexts", "context", name));
    ASSIGN_OR_RETURN(const std::string cluster, Required(context, "cluster"));
    ASSIGN_OR_RETURN(const std::string user, Required(context, "user"));
    ASSIGN_OR_RETURN(const KubeconfigPart cluster_place, Named("clusters", "cluster", cluster));
    ASSIGN_OR_RETURN(const KubeconfigPart user_place, Named("users", "user", user));
    RETURN_IF_ERROR(ReadCluster(cluster_place));
    RETURN_IF_ERROR(ReadUser(user_place));
    return std::move(config_);
  }

 private:
  Error Wrong(const KubeconfigPart& place, const std::string& key,
              const std::string& message) const {
    const kube::Node* node = place.node->Find(key);
    if (node == nullptr) node = place.node;
    return InvalidArgument(StrCat(file_, ":", node->at.line, ":", node->at.column, ": ", place.path,
                                  place.path.empty() || key.empty() ? "" : ".", key, ": ",
                                  message));
  }

  // "" when it is not there.
  Result<std::string> Optional(const KubeconfigPart& place, const std::string& key) const {
    using Kind = kube::Node::Kind;
    const kube::Node* node = place.node->Find(key);
    if (node == nullptr || node->kind == Kind::kNull) return std::string();
    if (node->kind == Kind::kList || node->kind == Kind::kMap) {
      return Wrong(place, key, StrCat("expected a string, found ", kube::KindName(node->kind)));
    }
    return node->text;
  }

  Result<std::string> Required(const KubeconfigPart& place, const std::string& key) const {
    ASSIGN_OR_RETURN(std::string text, Optional(place, key));
    if (text.empty()) return Wrong(place, key, "is missing");
    return text;
  }

  // The map `inner` of the element of `list` with that name.
  Result<KubeconfigPart> Named(const std::string& list, const std::string& inner,
                               const std::string& name) const {
    const KubeconfigPart root{&root_, ""};
    const kube::Node* items = root_.Find(list);
    if (items == nullptr || items->kind != kube::Node::Kind::kList) {
      return Wrong(root, list, "expected a list");
    }
    for (size_t i = 0; i < items->items.size(); ++i) {
      const kube::Node& item = items->items[i];
      const kube::Node* found = item.Find("name");
      if (found == nullptr || found->text != name) continue;
      const std::string path = StrCat(list, "[", i, "]");
      const kube::Node* node = item.Find(inner);
      if (node == nullptr || node->kind != kube::Node::Kind::kMap) {
        return Wrong({&item, path}, inner, "expected a map");
      }
      return KubeconfigPart{node, StrCat(path, ".", inner)};
    }
    return Wrong(root, list, StrCat("none is named \"", name, "\""));
  }

  Result<void> Refuse(const KubeconfigPart& place, const std::vector<std::string>& keys) const {
    for (const std::string& key : keys) {
      if (place.node->Find(key) != nullptr) return Wrong(place, key, "is not supported");
    }
    return {};
  }

  std::string Absolute(const std::string& path) const {
    if (path.empty() || path.starts_with('/')) return path;
    const size_t slash = file_.rfind('/');
    return slash == std::string::npos ? path : file_.substr(0, slash + 1) + path;
  }

  // The data comes before the file, as for a kubelet.
  Result<Pem> ReadPem(const KubeconfigPart& place, const std::string& key) const {
    Pem pem;
    ASSIGN_OR_RETURN(const std::string data, Optional(place, key + "-data"));
    if (!data.empty()) {
      const auto text = DecodeBase64(data);
      if (!text || text->empty()) return Wrong(place, key + "-data", "is no base 64");
      pem.text = *text;
      return pem;
    }
    ASSIGN_OR_RETURN(const std::string file, Optional(place, key));
    pem.file = Absolute(file);
    return pem;
  }

  Result<void> ReadCluster(const KubeconfigPart& place) {
    RETURN_IF_ERROR(Refuse(place, {"proxy-url"}));
    ASSIGN_OR_RETURN(const std::string insecure, Optional(place, "insecure-skip-tls-verify"));
    if (!insecure.empty() && insecure != "false") {
      return Wrong(place, "insecure-skip-tls-verify", "is not supported");
    }
    ASSIGN_OR_RETURN(config_.server, Required(place, "server"));
    if (!ReadServer()) {
      return Wrong(place, "server",
                   StrCat("\"", config_.server, "\" is not of the form https://HOST:PORT"));
    }
    ASSIGN_OR_RETURN(config_.tls_server_name, Optional(place, "tls-server-name"));
    if (config_.tls_server_name.empty()) config_.tls_server_name = config_.host;
    ASSIGN_OR_RETURN(config_.authority, ReadPem(place, "certificate-authority"));
    cluster_config_ = ExecExtension(place);
    return {};
  }

  // What the cluster's entry has for programs that make credentials, as JSON; "" for nothing.
  static std::string ExecExtension(const KubeconfigPart& place) {
    const kube::Node* extensions = place.node->Find("extensions");
    if (extensions == nullptr) return "";
    for (const kube::Node& item : extensions->items) {
      const kube::Node* name = item.Find("name");
      const kube::Node* extension = item.Find("extension");
      if (name == nullptr || name->text != kExecExtension || extension == nullptr) continue;
      return kube::CompactJson(*extension);
    }
    return "";
  }

  bool ReadServer() {
    constexpr std::string_view kScheme = "https://";
    std::string_view rest = config_.server;
    if (!rest.starts_with(kScheme) || !IsPlain(rest)) return false;
    rest.remove_prefix(kScheme.size());
    if (rest.find_first_of("@?#") != std::string_view::npos) return false;
    const size_t slash = rest.find('/');
    if (slash != std::string_view::npos) config_.path = rest.substr(slash);
    while (config_.path.ends_with('/')) config_.path.pop_back();
    rest = rest.substr(0, slash);
    std::string_view port;
    if (rest.starts_with('[')) {
      const size_t end = rest.find(']');
      if (end == std::string_view::npos) return false;
      config_.host = rest.substr(1, end - 1);
      port = rest.substr(end + 1);
    } else {
      const size_t colon = rest.find(':');
      config_.host = rest.substr(0, colon);
      port = colon == std::string_view::npos ? "" : rest.substr(colon);
    }
    if (config_.host.empty()) return false;
    if (port.empty()) return true;
    const char* const end = port.data() + port.size();
    const auto [stop, error] = std::from_chars(port.data() + 1, end, config_.port);
    return port.front() == ':' && error == std::errc() && stop == end && config_.port != 0;
  }

  Result<void> ReadUser(const KubeconfigPart& place) {
    RETURN_IF_ERROR(Refuse(place, {"auth-provider", "username", "password", "as", "as-uid",
                                   "as-groups", "as-user-extra"}));
    ASSIGN_OR_RETURN(config_.certificate, ReadPem(place, "client-certificate"));
    ASSIGN_OR_RETURN(config_.key, ReadPem(place, "client-key"));
    if (config_.certificate.empty() != config_.key.empty()) {
      return Wrong(place, config_.key.empty() ? "client-certificate" : "client-key",
                   "a certificate and its key belong together");
    }
    ASSIGN_OR_RETURN(config_.token, Optional(place, "token"));
    if (!IsPlain(config_.token)) return Wrong(place, "token", "has spaces or control characters");
    ASSIGN_OR_RETURN(const std::string token_file, Optional(place, "tokenFile"));
    config_.token_file = Absolute(token_file);
    return ReadExec(place);
  }

  Result<void> ReadExec(const KubeconfigPart& user) {
    const kube::Node* node = user.node->Find("exec");
    if (node == nullptr || node->kind == kube::Node::Kind::kNull) return {};
    if (node->kind != kube::Node::Kind::kMap) return Wrong(user, "exec", "expected a map");
    if (!config_.certificate.empty() || !config_.token.empty() || !config_.token_file.empty()) {
      return Wrong(user, "exec", "stands beside a token or a certificate; only one may");
    }
    const KubeconfigPart place{node, user.path + ".exec"};
    ExecPlugin plugin;
    ASSIGN_OR_RETURN(plugin.command, Required(place, "command"));
    if (plugin.command.find('/') != std::string::npos) plugin.command = Absolute(plugin.command);
    ASSIGN_OR_RETURN(plugin.api_version, Required(place, "apiVersion"));
    if (plugin.api_version != kExecV1 && plugin.api_version != kExecV1Beta1) {
      return Wrong(
          place, "apiVersion",
          StrCat("\"", plugin.api_version, "\" is neither ", kExecV1, " nor ", kExecV1Beta1));
    }
    ASSIGN_OR_RETURN(plugin.args, Words(place, "args"));
    RETURN_IF_ERROR(ReadExecVariables(place, plugin));
    ASSIGN_OR_RETURN(const std::string info, Optional(place, "provideClusterInfo"));
    if (!info.empty() && info != "true" && info != "false") {
      return Wrong(place, "provideClusterInfo", "is neither true nor false");
    }
    plugin.provide_cluster_info = info == "true";
    ASSIGN_OR_RETURN(plugin.install_hint, Optional(place, "installHint"));
    RETURN_IF_ERROR(CheckInteractiveMode(place, plugin));
    plugin.cluster_config = cluster_config_;
    config_.exec = std::move(plugin);
    return {};
  }

  Result<std::vector<std::string>> Words(const KubeconfigPart& place,
                                         const std::string& key) const {
    std::vector<std::string> words;
    const kube::Node* list = place.node->Find(key);
    if (list == nullptr || list->kind == kube::Node::Kind::kNull) return words;
    if (list->kind != kube::Node::Kind::kList || list->items.size() > kMostWords) {
      return Wrong(place, key, StrCat("expected a list of at most ", kMostWords));
    }
    for (const kube::Node& item : list->items) {
      using Kind = kube::Node::Kind;
      if (item.kind == Kind::kList || item.kind == Kind::kMap || item.kind == Kind::kNull) {
        return Wrong(place, key, StrCat("expected strings, found ", kube::KindName(item.kind)));
      }
      words.push_back(item.text);
    }
    return words;
  }

  Result<void> ReadExecVariables(const KubeconfigPart& place, ExecPlugin& plugin) const {
    const kube::Node* list = place.node->Find("env");
    if (list == nullptr || list->kind == kube::Node::Kind::kNull) return {};
    if (list->kind != kube::Node::Kind::kList || list->items.size() > kMostWords) {
      return Wrong(place, "env", StrCat("expected a list of at most ", kMostWords));
    }
    for (size_t i = 0; i < list->items.size(); ++i) {
      const KubeconfigPart variable{&list->items[i], StrCat(place.path, ".env[", i, "]")};
      ASSIGN_OR_RETURN(std::string name, Required(variable, "name"));
      ASSIGN_OR_RETURN(std::string value, Optional(variable, "value"));
      plugin.env.emplace_back(std::move(name), std::move(value));
    }
    return {};
  }

  // Nobody sits at an agent's terminal.
  Result<void> CheckInteractiveMode(const KubeconfigPart& place, const ExecPlugin& plugin) const {
    ASSIGN_OR_RETURN(const std::string mode, Optional(place, "interactiveMode"));
    if (mode == "Always") {
      return Wrong(place, "interactiveMode",
                   "Always needs a terminal, which an agent does not have");
    }
    if (mode.empty() && plugin.api_version == kExecV1) {
      return Wrong(place, "interactiveMode", "is missing");
    }
    if (!mode.empty() && mode != "Never" && mode != "IfAvailable") {
      return Wrong(place, "interactiveMode",
                   StrCat("\"", mode, "\" is none of Never, IfAvailable, Always"));
    }
    return {};
  }

  const std::string& file_;
  const kube::Node& root_;
  KubeConfig config_;
  std::string cluster_config_;
};

}  // namespace

Result<std::string> Pem::Read() const {
  if (file.empty()) return text;
  return sys::ReadFileAt(AT_FDCWD, file, kKubeconfigLimit);
}

Result<std::string> KubeConfig::BearerToken() const {
  if (token_file.empty()) return token;
  ASSIGN_OR_RETURN(std::string text, sys::ReadFileAt(AT_FDCWD, token_file, kTokenLimit));
  while (!text.empty() && !IsPlain(text.substr(text.size() - 1))) text.pop_back();
  if (text.empty() || !IsPlain(text)) {
    return InvalidArgument(StrCat(token_file, ": is no bearer token"));
  }
  return text;
}

Result<KubeConfig> ParseKubeConfig(std::string_view text, const std::string& file) {
  const kube::ParsedText parsed = kube::ParseYamlOrJson(text);
  if (!parsed.errors.empty()) {
    const kube::ParseError& error = parsed.errors.front();
    return InvalidArgument(
        StrCat(file, ":", error.at.line, ":", error.at.column, ": ", error.message));
  }
  if (parsed.documents.size() != 1 || parsed.documents.front().kind != kube::Node::Kind::kMap) {
    return InvalidArgument(StrCat(file, ":1:1: expected one map"));
  }
  return KubeconfigReader(file, parsed.documents.front()).Read();
}

Result<KubeConfig> ReadKubeConfig(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, file, kKubeconfigLimit));
  return ParseKubeConfig(text, file);
}

}  // namespace holdfast::agent
