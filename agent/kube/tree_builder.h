// SPDX-License-Identifier: Apache-2.0
// TreeBuilder: puts a parser's events together to a tree, with limits on depth and size and a check
// for doubled keys. Internal to the parsers. Single-thread.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "agent/kube/parse.h"
#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

class TreeBuilder {
 public:
  explicit TreeBuilder(const ParseLimits& limits) : limits_(limits) {}

  // Each returns false when a limit is hit; the error is recorded and the parser has to stop.
  bool Start(Node::Kind list_or_map, Position at);
  bool End();
  bool Scalar(Node node);

  // The key of the next value. A doubled key is recorded; its value is read and dropped.
  void Key(std::string key, Position at);
  bool NeedsKey() const;

  // True once a whole value was read; TakeRoot() then returns it and starts afresh.
  bool Complete() const { return complete_; }
  Node TakeRoot();

  void Fail(Position at, std::string message);
  std::vector<ParseError>& errors() { return errors_; }

 private:
  struct Frame {
    Node node;
    std::string key;  // of the value that is being read
    Position key_at;
    bool has_key = false;
    bool drop = false;  // the value of a doubled key
    std::unordered_set<size_t> key_hashes;
  };

  bool Attach(Node node);
  bool Count(Position at);
  std::string Path() const;

  ParseLimits limits_;
  std::vector<Frame> frames_;
  Node root_;
  bool complete_ = false;
  size_t values_ = 0;
  std::vector<ParseError> errors_;
};

// The value of a plain YAML scalar by YAML 1.1's rules as Kubernetes applies them.
Node ResolvePlainScalar(std::string_view text);

// Whether a string would be taken for something else if it stood there without quotes.
bool NeedsQuotes(std::string_view text);

}  // namespace holdfast::agent::kube
