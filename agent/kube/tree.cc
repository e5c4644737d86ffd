// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/tree.h"

#include <charconv>
#include <utility>

namespace holdfast::agent::kube {
namespace {

Node Make(Node::Kind kind, std::string text) {
  Node node;
  node.kind = kind;
  node.text = std::move(text);
  return node;
}

// One step of a path: the text up to the next '.' or '[', or what stands in brackets.
struct Step {
  std::string_view name;
  bool bracket = false;
};

Step NextStep(std::string_view& path) {
  if (path.starts_with('[')) {
    const size_t end = path.find(']');
    const size_t length = end == std::string_view::npos ? path.size() : end;
    Step step{path.substr(1, length - 1), true};
    path.remove_prefix(std::min(path.size(), length + 1));
    if (path.starts_with('.')) path.remove_prefix(1);
    return step;
  }
  const size_t end = path.find_first_of(".[");
  Step step{path.substr(0, end), false};
  path.remove_prefix(end == std::string_view::npos ? path.size() : end);
  if (path.starts_with('.')) path.remove_prefix(1);
  return step;
}

const Node* Child(const Node& node, Step step) {
  if (!step.bracket || node.kind == Node::Kind::kMap) return node.Find(step.name);
  size_t index = 0;
  const auto [end, error] =
      std::from_chars(step.name.data(), step.name.data() + step.name.size(), index);
  if (error != std::errc() || end != step.name.data() + step.name.size()) return nullptr;
  return index < node.items.size() ? &node.items[index] : nullptr;
}

}  // namespace

Node Node::String(std::string text) { return Make(Kind::kString, std::move(text)); }
Node Node::Int(int64_t value) { return Make(Kind::kInt, std::to_string(value)); }
Node Node::Bool(bool value) { return Make(Kind::kBool, value ? "true" : "false"); }
Node Node::List() { return Make(Kind::kList, {}); }
Node Node::Map() { return Make(Kind::kMap, {}); }

const Node* Node::Find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

Node& Node::Add(std::string key, Node value) {
  members.push_back({std::move(key), {}, std::move(value)});
  return members.back().value;
}

std::string_view KindName(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return "a boolean";
    case Node::Kind::kInt:
    case Node::Kind::kFloat:
      return "a number";
    case Node::Kind::kString:
      return "a string";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "nothing";
}

Position Locate(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (!path.empty()) {
    const Node* child = Child(*node, NextStep(path));
    if (child == nullptr) break;
    node = child;
  }
  return node->at;
}

}  // namespace holdfast::agent::kube
