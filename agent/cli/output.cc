// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/output.h"

#include <fcntl.h>

#include <cstdio>
#include <map>
#include <utility>

#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;

Node StringList(const auto& strings) {
  Node list = Node::List();
  for (const std::string& text : strings) list.items.push_back(Node::String(text));
  return list;
}

Node ConfigTree(const v1::ImageConfig& config) {
  Node tree = Node::Map();
  tree.Add("entrypoint", StringList(config.entrypoint()));
  tree.Add("cmd", StringList(config.cmd()));
  tree.Add("env", StringList(config.env()));
  tree.Add("user", Node::String(config.user()));
  tree.Add("workingDir", Node::String(config.working_dir()));
  tree.Add("stopSignal", Node::String(config.stop_signal()));
  tree.Add("exposedPorts", StringList(config.exposed_ports()));
  tree.Add("volumes", StringList(config.volumes()));
  Node labels = Node::Map();
  for (const auto& [key, value] : config.labels()) labels.Add(key, Node::String(value));
  tree.Add("labels", std::move(labels));
  return tree;
}

Node ImageTree(const v1::Image& image) {
  Node tree = Node::Map();
  tree.Add("id", Node::String(image.id()));
  tree.Add("repoTags", StringList(image.repo_tags()));
  tree.Add("repoDigests", StringList(image.repo_digests()));
  tree.Add("sizeBytes", Node::Int(static_cast<int64_t>(image.size_bytes())));
  if (image.created_unix_nanos() != 0) {
    constexpr int64_t kBillion = 1'000'000'000;
    tree.Add("created", Node::String(kube::FormatRfc3339(
                            {.seconds = image.created_unix_nanos() / kBillion, .nanos = 0})));
  }
  if (!image.artifact_type().empty()) {
    tree.Add("artifactType", Node::String(image.artifact_type()));
  }
  tree.Add("os", Node::String(image.os()));
  tree.Add("architecture", Node::String(image.architecture()));
  tree.Add("layers", Node::Int(image.layers()));
  tree.Add("pinned", Node::Bool(image.pinned()));
  tree.Add("config", ConfigTree(image.config()));
  return tree;
}

// {"items": […]}, what a jsonpath template over several images starts from.
Node ItemsTree(std::vector<Node> items) {
  Node list = Node::List();
  list.items = std::move(items);
  Node root = Node::Map();
  root.Add("items", std::move(list));
  return root;
}

// The same over several objects: kubectl's List.
Node ListTree(std::vector<Node> items) {
  Node root = ItemsTree(std::move(items));
  root.Add("apiVersion", Node::String("v1"));
  root.Add("kind", Node::String("List"));
  root.Add("metadata", Node::Map()).Add("resourceVersion", Node::String(""));
  return root;
}

Result<std::string> PrintColumns(const CustomColumns& columns, const std::vector<Node>& trees,
                                 bool with_header) {
  Table table(columns.header());
  for (const Node& tree : trees) {
    ASSIGN_OR_RETURN(std::vector<std::string> row, columns.Row(tree));
    table.AddRow(std::move(row));
  }
  return table.Render(with_header);
}

Error UnknownOutput(const std::string& text, std::string_view allowed) {
  return InvalidArgument(StrCat("unable to match a printer suitable for the output format \"", text,
                                "\", allowed formats are: ", allowed));
}

// A template of a file or a pipe.
Result<std::string> ReadTemplate(const std::string& path) {
  constexpr size_t kMostBytes = 1u << 20;
  return sys::ReadFileAt(AT_FDCWD, path, kMostBytes);
}

// `form`: jsonpath, jsonpath-as-json or jsonpath-file.
Result<JsonPath> ReadJsonPath(const std::string& form, std::string value) {
  if (value.empty()) return InvalidArgument("template format specified but no template given");
  if (form == "jsonpath-file") {
    ASSIGN_OR_RETURN(value, WithContext(ReadTemplate(value), "error reading --template"));
  }
  auto path = JsonPath::Parse(value);
  if (path) return path;
  return InvalidArgument(StrCat("error parsing jsonpath ", value, ", ", path.error().message()));
}

// `form`: custom-columns or custom-columns-file.
Result<CustomColumns> ReadColumns(const std::string& form, const std::string& value) {
  if (form == "custom-columns") return CustomColumns::Parse(value);
  if (value.empty()) {
    return InvalidArgument("custom-columns format specified but no custom columns given");
  }
  ASSIGN_OR_RETURN(const std::string text,
                   WithContext(ReadTemplate(value), "error reading template"));
  return CustomColumns::ParseTemplate(text);
}

// What a path chooses, as text or as JSON lists.
Result<std::string> PrintPath(const Output& output, const Node& root) {
  constexpr char kFailed[] = "error executing jsonpath: Error executing template";
  if (output.kind == Output::Kind::kJsonPath) {
    return WithContext(output.path->Apply(root), kFailed);
  }
  ASSIGN_OR_RETURN(auto parts, WithContext(output.path->Values(root), kFailed));
  std::string text;
  for (auto& values : parts) {
    Node list = Node::List();
    list.items = std::move(values);
    text += kube::SortedJson(list);
  }
  return text;
}

}  // namespace

Result<Output> ParseOutput(const std::string& text) {
  using Kind = Output::Kind;
  static const std::map<std::string_view, Kind> kPlain = {
      {"", Kind::kTable},    {"table", Kind::kTable}, {"wide", Kind::kWide},
      {"json", Kind::kJson}, {"yaml", Kind::kYaml},   {"name", Kind::kName}};
  Output output;
  if (const auto plain = kPlain.find(text); plain != kPlain.end()) {
    output.kind = plain->second;
    return output;
  }
  const size_t equals = text.find('=');
  const std::string form = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (form == "jsonpath" || form == "jsonpath-file" || form == "jsonpath-as-json") {
    output.kind = form == "jsonpath-as-json" ? Kind::kJsonPathAsJson : Kind::kJsonPath;
    ASSIGN_OR_RETURN(output.path, ReadJsonPath(form, value));
  } else if (form == "custom-columns" || form == "custom-columns-file") {
    output.kind = Kind::kColumns;
    ASSIGN_OR_RETURN(output.columns, ReadColumns(form, value));
  } else {
    return UnknownOutput(text,
                         "custom-columns,custom-columns-file,json,jsonpath,jsonpath-as-json,"
                         "jsonpath-file,name,table,wide,yaml");
  }
  return output;
}

Result<Output> ParseDocumentOutput(const std::string& text) {
  if (!text.empty() && text != "json" && text != "yaml") return UnknownOutput(text, "json,yaml");
  return ParseOutput(text);
}

std::string PrintDocument(const Output& output, const kube::Node& document) {
  return output.kind == Output::Kind::kYaml ? kube::SortedYaml(document)
                                            : kube::SortedJson(document);
}

Result<std::string> PrintObjects(const Output& output, const std::vector<Object>& objects,
                                 bool single, bool with_header) {
  const bool one = single && objects.size() == 1;
  std::vector<const google::protobuf::Message*> messages;
  for (const Object& object : objects) messages.push_back(object.message.get());
  if (output.kind == Output::Kind::kJson) {
    return one ? kube::PrintJson(*messages.front()) : kube::PrintJsonList(messages);
  }
  if (output.kind == Output::Kind::kYaml) {
    return one ? kube::PrintYaml(*messages.front()) : kube::PrintYamlList(messages);
  }
  if (output.kind == Output::Kind::kName) {
    std::string names;
    for (const Object& object : objects) {
      names += StrCat(Singular(object.resource), "/", object.meta->name(), "\n");
    }
    return names;
  }
  std::vector<Node> trees;
  for (const auto* message : messages) trees.push_back(kube::ToTree(*message));
  if (output.kind == Output::Kind::kColumns) {
    return PrintColumns(*output.columns, trees, with_header);
  }
  return PrintPath(output, one ? trees.front() : ListTree(std::move(trees)));
}

Result<std::string> PrintImages(const Output& output, const std::vector<v1::Image>& images,
                                bool single) {
  std::string names;
  std::vector<Node> trees;
  for (const v1::Image& image : images) {
    trees.push_back(ImageTree(image));
    for (const std::string& name : image.repo_tags()) names += name + "\n";
    if (image.repo_tags().empty()) names += image.id() + "\n";
  }
  if (output.kind == Output::Kind::kName) return names;
  if (output.kind == Output::Kind::kColumns) return PrintColumns(*output.columns, trees, true);
  const Node root = single && trees.size() == 1 ? trees.front() : ItemsTree(std::move(trees));
  if (output.path) return PrintPath(output, root);
  return PrintDocument(output, root);
}

void ReportNothingFound(const std::string& name_space) {
  if (name_space.empty()) {
    std::fputs("No resources found\n", stderr);
  } else {
    std::fprintf(stderr, "No resources found in %s namespace.\n", name_space.c_str());
  }
}

WallTime CurrentTime() { return SystemClock().Wall(); }

}  // namespace holdfast::agent::cli
