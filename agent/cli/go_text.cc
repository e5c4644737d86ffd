// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/go_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;

// The shortest text that is this number; an exponent below 1e-4 and from 1e21 on.
std::string FloatText(const std::string& text) {
  const double value = std::strtod(text.c_str(), nullptr);
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e21);
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific)
                       .ptr;
  return {buffer, end};
}

std::string MapText(const Node& map) {
  std::vector<const kube::Member*> members;
  for (const kube::Member& member : map.members) members.push_back(&member);
  std::sort(members.begin(), members.end(),
            [](const auto* a, const auto* b) { return a->key < b->key; });
  std::string text;
  for (const kube::Member* member : members) {
    text += StrCat(text.empty() ? "" : " ", member->key, ":", GoText(member->value));
  }
  return StrCat("map[", text, "]");
}

}  // namespace

std::string GoText(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "<nil>";
    case Node::Kind::kFloat:
      return FloatText(node.text);
    case Node::Kind::kMap:
      return MapText(node);
    case Node::Kind::kList: {
      std::string text;
      for (const Node& item : node.items) {
        text += StrCat(&item == node.items.data() ? "" : " ", GoText(item));
      }
      return StrCat("[", text, "]");
    }
    default:
      return node.text;
  }
}

std::string_view GoType(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "<nil>";
    case Node::Kind::kBool:
      return "bool";
    case Node::Kind::kInt:
      return "int64";
    case Node::Kind::kFloat:
      return "float64";
    case Node::Kind::kString:
      return "string";
    case Node::Kind::kList:
      return "[]interface {}";
    case Node::Kind::kMap:
      return "map[string]interface {}";
  }
  return "";
}

}  // namespace holdfast::agent::cli
