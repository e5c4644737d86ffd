// SPDX-License-Identifier: Apache-2.0
// Node: a value of JSON or YAML with the place where it stood. Both parsers make it, the codec
// turns it into messages and back, both printers write it. Value type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::agent::kube {

// Counted from 1, in characters; 0 is "not from a file".
struct Position {
  uint32_t line = 0;
  uint32_t column = 0;
  bool operator==(const Position&) const = default;
};

struct Member;

struct Node {
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kMap };

  Kind kind = Kind::kNull;
  Position at;
  // kBool: "true" or "false". kInt: decimal digits with an optional minus, of any length.
  // kFloat: as in JSON, with fraction or exponent, or ".inf", "-.inf", ".nan". kString: the text.
  std::string text;
  std::vector<Node> items;      // kList
  std::vector<Member> members;  // kMap, in the order of the file; keys are unique

  static Node String(std::string text);
  static Node Int(int64_t value);
  static Node Bool(bool value);
  static Node List();
  static Node Map();

  // nullptr when there is no such key, or this is no map.
  const Node* Find(std::string_view key) const;
  // Appends; the key must be new.
  Node& Add(std::string key, Node value);
};

struct Member {
  std::string key;
  Position at;
  Node value;
};

// What a message to a user calls it: "a string", "a list", …
std::string_view KindName(Node::Kind kind);

// Where the value at `path` ("spec.containers[0].image", "metadata.labels[a.b/c]") stands; for a
// path that is not there, the nearest one around it.
Position Locate(const Node& root, std::string_view path);

}  // namespace holdfast::agent::kube
