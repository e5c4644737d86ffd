// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/edit.h"

#include <charconv>
#include <utility>

namespace holdfast::agent::kube {
namespace {

const char* VerbName(Edit::Verb verb) {
  switch (verb) {
    case Edit::Verb::kSet:
      return "set";
    case Edit::Verb::kRemove:
      return "remove";
    case Edit::Verb::kDouble:
      return "double";
  }
  return "set";
}

Member* FindMember(Node& node, const std::string& key) {
  for (Member& member : node.members) {
    if (member.key == key) return &member;
  }
  return nullptr;
}

// The place of a step, made when it is missing. Whatever stood there of another kind is replaced.
Node& Enter(Node& node, const Step& step) {
  if (const auto* index = std::get_if<size_t>(&step)) {
    if (node.kind != Node::Kind::kList) node = Node::List();
    if (*index >= node.items.size()) return node.items.emplace_back();
    return node.items[*index];
  }
  if (node.kind != Node::Kind::kMap) node = Node::Map();
  const std::string& key = std::get<std::string>(step);
  Member* member = FindMember(node, key);
  return member == nullptr ? node.Add(key, {}) : member->value;
}

void Remove(Node& node, const Step& step) {
  if (const auto* index = std::get_if<size_t>(&step)) {
    if (*index < node.items.size()) {
      node.items.erase(node.items.begin() + static_cast<ptrdiff_t>(*index));
    }
    return;
  }
  std::erase_if(node.members,
                [&](const Member& member) { return member.key == std::get<std::string>(step); });
}

Node ToNode(const Path& path) {
  Node list = Node::List();
  for (const Step& step : path) {
    const auto* index = std::get_if<size_t>(&step);
    list.items.push_back(index != nullptr ? Node::Int(static_cast<int64_t>(*index))
                                          : Node::String(std::get<std::string>(step)));
  }
  return list;
}

Result<Path> PathFrom(const Node& node) {
  Path path;
  for (const Node& step : node.items) {
    if (step.kind == Node::Kind::kString) {
      path.emplace_back(step.text);
      continue;
    }
    size_t index = 0;
    const char* const end = step.text.data() + step.text.size();
    if (step.kind != Node::Kind::kInt ||
        std::from_chars(step.text.data(), end, index).ec != std::errc()) {
      return InvalidArgument("an edit's path has keys and indices");
    }
    path.emplace_back(index);
  }
  if (path.empty()) return InvalidArgument("an edit needs a path");
  return path;
}

}  // namespace

const Node* FindAt(const Node& root, const Path& path) {
  const Node* node = &root;
  for (const Step& step : path) {
    if (const auto* index = std::get_if<size_t>(&step)) {
      if (*index >= node->items.size()) return nullptr;
      node = &node->items[*index];
      continue;
    }
    node = node->Find(std::get<std::string>(step));
    if (node == nullptr) return nullptr;
  }
  return node;
}

void Apply(const Edit& edit, Node* root) {
  Node* node = root;
  for (size_t i = 0; i + 1 < edit.path.size(); ++i) {
    if (edit.verb == Edit::Verb::kRemove && FindAt(*node, {edit.path[i]}) == nullptr) return;
    node = &Enter(*node, edit.path[i]);
  }
  const Step& last = edit.path.back();
  if (edit.verb == Edit::Verb::kRemove) return Remove(*node, last);
  if (edit.verb == Edit::Verb::kSet) {
    Enter(*node, last) = edit.value;
    return;
  }
  (void)Enter(*node, last);  // there at least once
  if (const auto* key = std::get_if<std::string>(&last)) {
    node->members.push_back({*key, {}, edit.value});
  } else {
    node->items.push_back(edit.value);
  }
}

Node ToNode(const Edit& edit) {
  Node node = Node::Map();
  node.Add(VerbName(edit.verb), ToNode(edit.path));
  if (edit.verb != Edit::Verb::kRemove) node.Add("value", edit.value);
  return node;
}

Result<Edit> EditFrom(const Node& node) {
  for (const auto verb : {Edit::Verb::kSet, Edit::Verb::kRemove, Edit::Verb::kDouble}) {
    const Node* path = node.Find(VerbName(verb));
    if (path == nullptr) continue;
    Edit edit{.verb = verb, .path = {}, .value = {}};
    ASSIGN_OR_RETURN(edit.path, PathFrom(*path));
    const Node* value = node.Find("value");
    if (value != nullptr) edit.value = *value;
    return edit;
  }
  return InvalidArgument("an edit is a set, a remove or a double");
}

}  // namespace holdfast::agent::kube
