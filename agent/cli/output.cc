// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/output.h"

#include <cstdio>
#include <utility>

#include "agent/cli/durations.h"
#include "agent/kube/codec.h"
#include "agent/kube/print.h"
#include "agent/kube/times.h"
#include "holdfast/base/strings.h"

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
  tree.Add("os", Node::String(image.os()));
  tree.Add("architecture", Node::String(image.architecture()));
  tree.Add("layers", Node::Int(image.layers()));
  tree.Add("pinned", Node::Bool(image.pinned()));
  tree.Add("config", ConfigTree(image.config()));
  return tree;
}

// {"items": […]}, what a jsonpath template over several objects starts from.
Node ItemsTree(std::vector<Node> items) {
  Node list = Node::List();
  list.items = std::move(items);
  Node root = Node::Map();
  root.Add("items", std::move(list));
  return root;
}

Error UnknownOutput(const std::string& text, std::string_view allowed) {
  return InvalidArgument(StrCat("unable to match a printer suitable for the output format \"", text,
                                "\", allowed formats are: ", allowed));
}

}  // namespace

Result<Output> ParseOutput(const std::string& text) {
  Output output;
  constexpr std::string_view kJsonPath = "jsonpath=";
  if (text.empty() || text == "table") return output;
  if (text == "wide") {
    output.kind = Output::Kind::kWide;
  } else if (text == "json") {
    output.kind = Output::Kind::kJson;
  } else if (text == "yaml") {
    output.kind = Output::Kind::kYaml;
  } else if (text == "name") {
    output.kind = Output::Kind::kName;
  } else if (text.starts_with(kJsonPath)) {
    output.kind = Output::Kind::kJsonPath;
    ASSIGN_OR_RETURN(output.path, JsonPath::Parse(text.substr(kJsonPath.size())));
  } else {
    return UnknownOutput(text, "table,wide,json,yaml,name,jsonpath=TEMPLATE");
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

std::string PrintObjects(const Output& output, const std::string& resource,
                         const std::vector<const google::protobuf::Message*>& objects,
                         bool single) {
  const bool one = single && objects.size() == 1;
  if (output.kind == Output::Kind::kJson) {
    return one ? kube::PrintJson(*objects.front()) : kube::PrintJsonList(objects);
  }
  if (output.kind == Output::Kind::kYaml) {
    return one ? kube::PrintYaml(*objects.front()) : kube::PrintYamlList(objects);
  }
  std::vector<Node> trees;
  for (const auto* object : objects) trees.push_back(kube::ToTree(*object));
  if (output.kind == Output::Kind::kJsonPath) {
    return output.path->Apply(one ? trees.front() : ItemsTree(std::move(trees)));
  }
  std::string out;
  for (const Node& tree : trees) {
    const Node* metadata = tree.Find("metadata");
    const Node* name = metadata == nullptr ? nullptr : metadata->Find("name");
    out += resource + "/" + (name == nullptr ? "" : name->text) + "\n";
  }
  return out;
}

std::string PrintImages(const Output& output, const std::vector<v1::Image>& images, bool single) {
  std::string names;
  std::vector<Node> trees;
  for (const v1::Image& image : images) {
    trees.push_back(ImageTree(image));
    names += (image.repo_tags_size() > 0 ? image.repo_tags(0) : image.id()) + "\n";
  }
  const Node root = single && trees.size() == 1 ? trees.front() : ItemsTree(std::move(trees));
  if (output.kind == Output::Kind::kName) return names;
  if (output.kind == Output::Kind::kJsonPath) return output.path->Apply(root);
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
