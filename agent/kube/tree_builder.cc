// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/tree_builder.h"

#include <functional>
#include <utility>

#include "agent/kube/diagnostic.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {

bool TreeBuilder::Start(Node::Kind list_or_map, Position at) {
  if (frames_.size() >= limits_.max_depth) {
    Fail(at, StrCat("nested deeper than ", limits_.max_depth, " levels"));
    return false;
  }
  if (!Count(at)) return false;
  frames_.emplace_back();
  frames_.back().node.kind = list_or_map;
  frames_.back().node.at = at;
  return true;
}

bool TreeBuilder::End() {
  Node node = std::move(frames_.back().node);
  frames_.pop_back();
  return Attach(std::move(node));
}

bool TreeBuilder::Scalar(Node node) { return Count(node.at) && Attach(std::move(node)); }

void TreeBuilder::Key(std::string key, Position at) {
  Frame& frame = frames_.back();
  frame.key = std::move(key);
  frame.key_at = at;
  frame.has_key = true;
  frame.drop = false;
  if (frame.key_hashes.insert(std::hash<std::string>{}(frame.key)).second) return;
  for (const Member& member : frame.node.members) {
    if (member.key != frame.key) continue;
    frame.drop = true;
    Fail(at, StrCat("duplicate key, first set in line ", member.at.line));
    return;
  }
}

bool TreeBuilder::NeedsKey() const {
  return !frames_.empty() && frames_.back().node.kind == Node::Kind::kMap &&
         !frames_.back().has_key;
}

Node TreeBuilder::TakeRoot() {
  complete_ = false;
  values_ = 0;
  frames_.clear();
  return std::exchange(root_, {});
}

void TreeBuilder::Fail(Position at, std::string message) {
  errors_.push_back({at, Path(), std::move(message)});
}

bool TreeBuilder::Attach(Node node) {
  if (frames_.empty()) {
    root_ = std::move(node);
    complete_ = true;
    return true;
  }
  Frame& parent = frames_.back();
  if (parent.node.kind == Node::Kind::kList) {
    parent.node.items.push_back(std::move(node));
    return true;
  }
  parent.has_key = false;
  if (!parent.drop) {
    parent.node.members.push_back({std::move(parent.key), parent.key_at, std::move(node)});
  }
  return true;
}

bool TreeBuilder::Count(Position at) {
  if (++values_ <= limits_.max_values) return true;
  Fail(at, StrCat("more than ", limits_.max_values, " values in one document"));
  return false;
}

std::string TreeBuilder::Path() const {
  constexpr size_t kShownLevels = 16;  // a path of thousands of brackets helps nobody
  std::string path;
  for (size_t level = 0; level < frames_.size() && level < kShownLevels; ++level) {
    const Frame& frame = frames_[level];
    if (frame.node.kind == Node::Kind::kList) {
      path += StrCat("[", frame.node.items.size(), "]");
    } else if (frame.has_key) {
      path += StrCat(path.empty() ? "" : ".", frame.key.substr(0, 100));
    }
  }
  return path;
}

}  // namespace holdfast::agent::kube
