// SPDX-License-Identifier: Apache-2.0
#include "agent/images/provider_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <set>
#include <string_view>

#include "agent/kube/parse.h"
#include "agent/kube/suggest.h"
#include "agent/kube/times.h"
#include "agent/kube/validation/names.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent {
namespace {

using kube::Node;
using Kind = Node::Kind;

constexpr size_t kMaxConfigFile = 1 << 20;
constexpr std::array<std::string_view, 3> kConfigVersions = {
    "kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1beta1", "kubelet.config.k8s.io/v1alpha1"};
constexpr std::array<std::string_view, 3> kProviderVersions = {
    "credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1beta1",
    "credentialprovider.kubelet.k8s.io/v1alpha1"};

constexpr std::string_view kTokensVersion = kProviderVersions[0];
constexpr std::array<std::string_view, 2> kCacheTypes = {"ServiceAccount", "Token"};

class ProviderReader {
 public:
  explicit ProviderReader(const std::string& file) : file_(file) {}

  std::vector<CredentialProvider> Read(const Node& root) {
    std::vector<CredentialProvider> providers;
    Members(root, "",
            {{"apiVersion", [&](const Node& n, const auto& at) { OneOf(n, at, kConfigVersions); }},
             {"kind",
              [&](const Node& n, const auto& at) {
                if (n.text != "CredentialProviderConfig") {
                  Complain(n.at, at, "must be \"CredentialProviderConfig\"");
                }
              }},
             {"providers", [&](const Node& n, const auto& at) {
                Each(n, at, Kind::kMap, [&](const Node& item, const std::string& path) {
                  providers.push_back(ReadProvider(item, path));
                });
              }}});
    for (const char* key : {"apiVersion", "kind"}) Require(root, "", key);
    if (providers.empty()) {
      Complain(root.at, "providers", "at least 1 item in plugins is required");
    }
    return providers;
  }

  void Complain(kube::Position at, const std::string& path, const std::string& message) {
    errors_ += StrCat(errors_.empty() ? "" : "\n", file_, ":", at.line, ":", at.column, ": ",
                      path.empty() ? "" : path + ": ", message);
  }
  const std::string& errors() const { return errors_; }

 private:
  using ReadMember = std::function<void(const Node&, const std::string& path)>;

  static std::string Below(const std::string& path, std::string_view key) {
    return path.empty() ? std::string(key) : StrCat(path, ".", key);
  }

  void Members(const Node& map, const std::string& path,
               const std::vector<std::pair<std::string_view, ReadMember>>& known) {
    if (map.kind != Kind::kMap) {
      return Complain(map.at, path, StrCat("expected a map, found ", kube::KindName(map.kind)));
    }
    std::vector<std::string_view> names;
    for (const auto& [name, read] : known) names.push_back(name);
    for (const kube::Member& member : map.members) {
      const auto found =
          std::ranges::find(known, member.key, &std::pair<std::string_view, ReadMember>::first);
      const std::string at = Below(path, member.key);
      if (found == known.end()) {
        Complain(member.at, at, "unknown field" + kube::DidYouMean(member.key, names));
      } else if (member.value.kind != Kind::kNull) {
        found->second(member.value, at);
      }
    }
  }

  void Require(const Node& map, const std::string& path, std::string_view key) {
    const Node* found = map.Find(key);
    if (found != nullptr && found->kind != Kind::kNull) return;
    Complain(map.at, Below(path, key), "Required value");
  }

  void Each(const Node& list, const std::string& path, Kind kind, const ReadMember& read) {
    if (list.kind != Kind::kList) {
      return Complain(list.at, path, StrCat("expected a list, found ", kube::KindName(list.kind)));
    }
    for (size_t i = 0; i < list.items.size(); ++i) {
      const std::string at = StrCat(path, "[", i, "]");
      if (list.items[i].kind == kind) {
        read(list.items[i], at);
      } else {
        Complain(list.items[i].at, at, StrCat("unexpected ", kube::KindName(list.items[i].kind)));
      }
    }
  }

  template <class Allowed>
  void OneOf(const Node& node, const std::string& path, const Allowed& allowed) {
    if (std::ranges::find(allowed, node.text) != allowed.end()) return;
    std::string names;
    for (const std::string_view name : allowed) {
      names += StrCat(names.empty() ? "" : ", ", "\"", name, "\"");
    }
    Complain(node.at, path, StrCat("Unsupported value: supported values: ", names));
  }

  std::string Text(const Node& node, const std::string& path) {
    if (node.kind == Kind::kString) return node.text;
    Complain(node.at, path, StrCat("expected a string, found ", kube::KindName(node.kind)));
    return {};
  }

  CredentialProvider ReadProvider(const Node& node, const std::string& path) {
    CredentialProvider provider;
    const auto name = [&](const Node& n, const std::string& at) {
      provider.name = Text(n, at);
      CheckName(n, at, provider.name);
    };
    const auto version = [&](const Node& n, const std::string& at) {
      provider.api_version = Text(n, at);
      OneOf(n, at, kProviderVersions);
    };
    const auto images = [&](const Node& n, const std::string& at) {
      Each(n, at, Kind::kString, [&](const Node& item, const std::string&) {
        provider.match_images.push_back(item.text);
      });
    };
    const auto cache = [&](const Node& n, const std::string& at) {
      const auto time = kube::ParseDuration(Text(n, at));
      if (!time || time->count() < 0) {
        return Complain(n.at, at, "defaultCacheDuration must be greater than or equal to 0");
      }
      provider.default_cache = *time;
    };
    const auto args = [&](const Node& n, const std::string& at) {
      Each(n, at, Kind::kString,
           [&](const Node& item, const std::string&) { provider.args.push_back(item.text); });
    };
    const auto env = [&](const Node& n, const std::string& at) {
      Each(n, at, Kind::kMap, [&](const Node& item, const std::string& below) {
        provider.env.push_back(ReadVariable(item, below));
      });
    };
    const Node* tokens_at = nullptr;
    const auto tokens = [&](const Node& n, const std::string& at) {
      tokens_at = &n;
      provider.tokens = ReadTokens(n, at);
    };
    Members(node, path,
            {{"name", name},
             {"apiVersion", version},
             {"matchImages", images},
             {"defaultCacheDuration", cache},
             {"args", args},
             {"env", env},
             {"tokenAttributes", tokens}});
    for (const char* key : {"name", "apiVersion", "defaultCacheDuration"}) Require(node, path, key);
    if (provider.tokens && provider.api_version != kTokensVersion) {
      Complain(tokens_at->at, Below(path, "tokenAttributes"),
               StrCat("tokenAttributes is only supported for ", kTokensVersion, " API version"));
    }
    if (provider.match_images.empty()) {
      Complain(node.at, Below(path, "matchImages"), "at least 1 item in matchImages is required");
    }
    return provider;
  }

  ProviderTokens ReadTokens(const Node& node, const std::string& path) {
    ProviderTokens tokens;
    const auto cache = [&](const Node& n, const std::string& at) {
      OneOf(n, at, kCacheTypes);
      const bool by_account = n.text == kCacheTypes[0];
      tokens.cache =
          by_account ? ProviderTokens::Cache::kServiceAccount : ProviderTokens::Cache::kToken;
    };
    const auto require = [&](const Node& n, const std::string& at) {
      if (n.kind != Kind::kBool) {
        return Complain(n.at, at, StrCat("expected a bool, found ", kube::KindName(n.kind)));
      }
      tokens.require_account = n.text == "true";
    };
    const auto keys_into = [&](std::vector<std::string>& keys) {
      return [this, &keys](const Node& n, const std::string& at) {
        Each(n, at, Kind::kString, [&](const Node& item, const std::string& below) {
          if (std::ranges::find(keys, item.text) != keys.end()) {
            Complain(item.at, below, StrCat("Duplicate value: \"", item.text, "\""));
          }
          // Their case does not matter.
          for (const std::string& why : kube::CheckQualifiedName(ToLower(item.text))) {
            Complain(item.at, below, StrCat("Invalid value: \"", item.text, "\": ", why));
          }
          keys.push_back(item.text);
        });
      };
    };
    Members(node, path,
            {{"serviceAccountTokenAudience",
              [&](const Node& n, const std::string& at) { tokens.audience = Text(n, at); }},
             {"cacheType", cache},
             {"requireServiceAccount", require},
             {"requiredServiceAccountAnnotationKeys", keys_into(tokens.required_keys)},
             {"optionalServiceAccountAnnotationKeys", keys_into(tokens.optional_keys)}});
    for (const char* key : {"serviceAccountTokenAudience", "cacheType", "requireServiceAccount"}) {
      Require(node, path, key);
    }
    CheckKeys(node, path, tokens);
    return tokens;
  }

  void CheckKeys(const Node& node, const std::string& path, const ProviderTokens& tokens) {
    if (!tokens.require_account && !tokens.required_keys.empty()) {
      Complain(node.at, Below(path, "requiredServiceAccountAnnotationKeys"),
               "requireServiceAccount cannot be false when requiredServiceAccountAnnotationKeys is "
               "set");
    }
    for (const std::string& key : tokens.required_keys) {
      if (std::ranges::find(tokens.optional_keys, key) == tokens.optional_keys.end()) continue;
      Complain(node.at, path,
               StrCat("Invalid value: [\"", key,
                      "\"]: annotation keys cannot be both required and optional"));
    }
  }

  void CheckName(const Node& node, const std::string& path, const std::string& name) {
    if (name.find('/') != std::string::npos) {
      Complain(node.at, path, "provider name cannot contain '/'");
    }
    if (name.find(' ') != std::string::npos) {
      Complain(node.at, path, "provider name cannot contain spaces");
    }
    if (name.empty() || name == "." || name == "..") {
      Complain(node.at, path, StrCat("provider name cannot be '", name, "'"));
    }
  }

  std::pair<std::string, std::string> ReadVariable(const Node& node, const std::string& path) {
    std::pair<std::string, std::string> variable;
    Members(
        node, path,
        {{"name", [&](const Node& n, const std::string& at) { variable.first = Text(n, at); }},
         {"value", [&](const Node& n, const std::string& at) { variable.second = Text(n, at); }}});
    if (variable.first.empty() || variable.first.find('=') != std::string::npos) {
      Complain(node.at, Below(path, "name"), "is no name of a variable");
    }
    return variable;
  }

  const std::string& file_;
  std::string errors_;
};

bool IsConfigName(std::string_view name) {
  return name.ends_with(".json") || name.ends_with(".yaml") || name.ends_with(".yml");
}

Result<std::vector<std::string>> ConfigFiles(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return Error::FromErrno(errno, StrCat("stat ", path));
  if (!S_ISDIR(about.st_mode)) return std::vector{path};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, sys::ListDirAt(AT_FDCWD, path));
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (IsConfigName(name)) files.push_back(StrCat(path, "/", name));
  }
  if (files.empty()) return NotFound(StrCat("no configuration files found in ", path));
  return files;
}

Result<void> CheckPrograms(const std::vector<CredentialProvider>& providers,
                           const std::string& programs) {
  std::set<std::string> names;
  for (const CredentialProvider& provider : providers) {
    if (!names.insert(provider.name).second) {
      return InvalidArgument(
          StrCat("duplicate provider name \"", provider.name, "\" found in configuration file(s)"));
    }
    const std::string program = StrCat(programs, "/", provider.name);
    if (::access(program.c_str(), X_OK) != 0) {
      return Error::FromErrno(errno, StrCat("plugin binary executable ", program));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<CredentialProvider>> ParseProviderConfig(const std::string& text,
                                                            const std::string& file) {
  ProviderReader reader(file);
  const kube::ParsedText parsed = kube::ParseYamlOrJson(text);
  for (const kube::ParseError& error : parsed.errors) {
    reader.Complain(error.at, error.path, error.message);
  }
  if (parsed.errors.empty() && parsed.documents.size() != 1) {
    reader.Complain({1, 1}, "", StrCat("expected one document, found ", parsed.documents.size()));
  }
  std::vector<CredentialProvider> providers;
  if (reader.errors().empty()) providers = reader.Read(parsed.documents.front());
  if (!reader.errors().empty()) return InvalidArgument(reader.errors());
  return providers;
}

Result<std::vector<CredentialProvider>> ReadProviderConfig(const std::string& path,
                                                           const std::string& programs) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ConfigFiles(path));
  std::vector<CredentialProvider> all;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, file, kMaxConfigFile));
    ASSIGN_OR_RETURN(const auto some, ParseProviderConfig(text, file));
    all.insert(all.end(), some.begin(), some.end());
  }
  RETURN_IF_ERROR(CheckPrograms(all, programs));
  return all;
}

}  // namespace holdfast::agent
