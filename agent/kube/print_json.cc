// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "agent/kube/print.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

// Escapes what Go's encoder escapes, so that our output compares equal to kubectl's: besides what
// JSON demands, the HTML characters and the two Unicode line separators.
void AppendString(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n' || c == '\r' || c == '\t' || c == '\b' || c == '\f') {
      out += {'\\', c == '\n' ? 'n' : c == '\r' ? 'r' : c == '\t' ? 't' : c == '\b' ? 'b' : 'f'};
    } else if (byte < 0x20 || c == '<' || c == '>' || c == '&') {
      out += StrCat("\\u00", kHex[byte >> 4], kHex[byte & 15]);
    } else if (text.substr(i, 3) == "\u2028" || text.substr(i, 3) == "\u2029") {
      out += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  out += '"';
}

struct Layout {
  bool pretty = false;
  bool sorted = false;
};

void Append(const Node& node, Layout layout, size_t level, std::string& out);

void NewLine(Layout layout, size_t level, std::string& out) {
  if (layout.pretty) out += "\n" + std::string(level * 4, ' ');
}

void AppendList(const Node& node, Layout layout, size_t level, std::string& out) {
  out += '[';
  for (const Node& item : node.items) {
    if (&item != &node.items.front()) out += ',';
    NewLine(layout, level + 1, out);
    Append(item, layout, level + 1, out);
  }
  if (!node.items.empty()) NewLine(layout, level, out);
  out += ']';
}

void AppendMap(const Node& node, Layout layout, size_t level, std::string& out) {
  std::vector<const Member*> members;
  for (const Member& member : node.members) members.push_back(&member);
  if (layout.sorted) {
    std::stable_sort(members.begin(), members.end(),
                     [](const Member* a, const Member* b) { return a->key < b->key; });
  }
  out += '{';
  for (const Member* member : members) {
    if (member != members.front()) out += ',';
    NewLine(layout, level + 1, out);
    AppendString(member->key, out);
    out += layout.pretty ? ": " : ":";
    Append(member->value, layout, level + 1, out);
  }
  if (!members.empty()) NewLine(layout, level, out);
  out += '}';
}

void Append(const Node& node, Layout layout, size_t level, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      break;
    case Node::Kind::kBool:
    case Node::Kind::kInt:
      out += node.text;
      break;
    case Node::Kind::kFloat:
      // JSON has neither infinity nor "not a number".
      out += node.text.find_first_of("ni") != std::string::npos ? "null" : node.text;
      break;
    case Node::Kind::kString:
      AppendString(node.text, out);
      break;
    case Node::Kind::kList:
      AppendList(node, layout, level, out);
      break;
    case Node::Kind::kMap:
      AppendMap(node, layout, level, out);
      break;
  }
}

}  // namespace

std::string CompactJson(const Node& tree) {
  std::string out;
  Append(tree, {}, 0, out);
  return out;
}

std::string SortedCompactJson(const Node& tree) {
  std::string out;
  Append(tree, {.pretty = false, .sorted = true}, 0, out);
  return out;
}

std::string SortedJson(const Node& tree) {
  std::string out;
  Append(tree, {.pretty = true, .sorted = true}, 0, out);
  return out + "\n";
}

}  // namespace holdfast::agent::kube
