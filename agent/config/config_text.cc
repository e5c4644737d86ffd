// SPDX-License-Identifier: Apache-2.0
// The configuration as text: its file, and what is shown of it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config/agent_config.h"
#include "agent/config/fields.h"
#include "agent/kube/parse.h"
#include "agent/kube/suggest.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

class ConfigReader {
 public:
  ConfigReader(const std::string& file, AgentConfig& config) : file_(file), config_(config) {}

  void Read(const kube::Node& root) {
    if (root.kind != kube::Node::Kind::kMap) {
      Complain(root.at, "", StrCat("expected a map, found ", kube::KindName(root.kind)));
      return;
    }
    Expect(root, "apiVersion", config::kConfigApiVersion);
    Expect(root, "kind", config::kConfigKind);
    for (const kube::Member& member : root.members) {
      if (member.key != "apiVersion" && member.key != "kind") ReadMember(member);
    }
  }

  void Complain(kube::Position at, const std::string& path, const std::string& message) {
    errors_ += StrCat(errors_.empty() ? "" : "\n", file_, ":", at.line, ":", at.column, ": ",
                      path.empty() ? "" : path + ": ", message);
  }

  const std::string& errors() const { return errors_; }

 private:
  void Expect(const kube::Node& root, const char* key, const char* value) {
    const kube::Node* node = root.Find(key);
    if (node == nullptr) {
      Complain(root.at, key, StrCat("is missing, must be \"", value, "\""));
    } else if (node->text != value) {
      Complain(node->at, key, StrCat("must be \"", value, "\""));
    }
  }

  void ReadMember(const kube::Member& member) {
    std::vector<std::string_view> names = {"apiVersion", "kind"};
    for (const config::Field& field : config::Fields()) {
      names.emplace_back(field.name);
      if (member.key != field.name) continue;
      std::vector<std::string> values;
      if (!ReadValues(member, field, values)) return;
      if (auto set = field.access.set(config_, values); !set) {
        Complain(member.value.at, member.key, set.error().message());
      }
      return;
    }
    Complain(member.at, member.key, "unknown field" + kube::DidYouMean(member.key, names));
  }

  bool ReadValues(const kube::Member& member, const config::Field& field,
                  std::vector<std::string>& values) {
    using Kind = kube::Node::Kind;
    const kube::Node& node = member.value;
    const bool is_list = field.is_list && !field.is_map;
    // Of each value what stands before it, and itself.
    std::vector<std::pair<std::string, const kube::Node*>> parts;
    if (field.is_map && node.kind == Kind::kMap) {
      for (const kube::Member& m : node.members) parts.emplace_back(m.key + "=", &m.value);
    } else if (is_list && node.kind == Kind::kList) {
      for (const kube::Node& item : node.items) parts.emplace_back("", &item);
    } else if (!field.is_map && !is_list && IsScalar(node)) {
      parts.emplace_back("", &node);
    } else {
      Complain(node.at, member.key,
               StrCat("expected ",
                      field.is_map ? "a map of strings"
                      : is_list    ? "a list of strings"
                                   : "a string",
                      ", found ", kube::KindName(node.kind)));
      return false;
    }
    const bool takes_bool = field.access.get(config_).is_boolean();
    for (const auto& [before, value] : parts) {
      // YAML's yes, no, on, off, y and n are booleans: what was written is not known any more.
      const bool lost = value->kind == Kind::kBool && !takes_bool;
      if (lost || !IsScalar(*value)) {
        Complain(value->at, member.key,
                 StrCat("expected a string, found ", kube::KindName(value->kind),
                        lost ? ": put it in quotes" : ""));
        return false;
      }
      values.push_back(before + value->text);
    }
    return true;
  }

  static bool IsScalar(const kube::Node& node) {
    using Kind = kube::Node::Kind;
    return node.kind == Kind::kString || node.kind == Kind::kInt || node.kind == Kind::kFloat ||
           node.kind == Kind::kBool;
  }

  const std::string& file_;
  AgentConfig& config_;
  std::string errors_;
};

}  // namespace

Result<void> ReadConfigText(const std::string& text, const std::string& file, AgentConfig& config) {
  const kube::ParsedText parsed = kube::ParseYamlOrJson(text);
  ConfigReader reader(file, config);
  for (const kube::ParseError& error : parsed.errors) {
    reader.Complain(error.at, error.path, error.message);
  }
  if (parsed.errors.empty() && parsed.documents.size() != 1) {
    reader.Complain({1, 1}, "", StrCat("expected one document, found ", parsed.documents.size()));
  }
  if (reader.errors().empty()) reader.Read(parsed.documents.front());
  if (!reader.errors().empty()) return InvalidArgument(reader.errors());
  return {};
}

std::string ConfigJson(const AgentConfig& config) {
  nlohmann::json json = {{"apiVersion", config::kConfigApiVersion}, {"kind", config::kConfigKind}};
  for (const config::Field& field : config::Fields()) json[field.name] = field.access.get(config);
  // A flag may hold any bytes.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace holdfast::agent
