// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/jsonpath.h"

#include <algorithm>
#include <compare>
#include <cstdlib>
#include <deque>
#include <limits>
#include <utility>

#include "agent/cli/go_text.h"
#include "agent/cli/jsonpath_parser.h"
#include "agent/kube/print.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;
using Nodes = std::vector<const Node*>;
using Step = JsonPath::Step;
using Steps = std::vector<Step>;

// --- comparisons of a filter --------------------------------------------------------------------

Result<std::partial_ordering> Compare(const Node& left, const Node& right) {
  for (const Node* side : {&left, &right}) {
    if (side->kind == Node::Kind::kNull || side->kind == Node::Kind::kList ||
        side->kind == Node::Kind::kMap) {
      return InvalidArgument("invalid type for comparison");
    }
  }
  if (left.kind != right.kind) return InvalidArgument("incompatible types for comparison");
  if (left.kind == Node::Kind::kString || left.kind == Node::Kind::kBool) {
    return std::partial_ordering(left.text.compare(right.text) <=> 0);
  }
  if (left.kind == Node::Kind::kInt) {
    return std::partial_ordering(std::strtoll(left.text.c_str(), nullptr, 10) <=>
                                 std::strtoll(right.text.c_str(), nullptr, 10));
  }
  return std::strtod(left.text.c_str(), nullptr) <=> std::strtod(right.text.c_str(), nullptr);
}

Result<bool> Holds(const Node& left, const std::string& op, const Node& right) {
  constexpr std::string_view kKnown[] = {"<", ">", "==", "!=", "<=", ">="};
  if (std::find(std::begin(kKnown), std::end(kKnown), op) == std::end(kKnown)) {
    return InvalidArgument(StrCat("unrecognized filter operator ", op));
  }
  ASSIGN_OR_RETURN(const std::partial_ordering order, Compare(left, right));
  if (op == "==") return order == 0;
  if (op == "!=") return order != 0;
  if (left.kind == Node::Kind::kBool) return InvalidArgument("invalid type for comparison");
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  return op == ">" ? order > 0 : order >= 0;
}

// --- one step -----------------------------------------------------------------------------------

Error OutOfBounds(int64_t index, size_t length) {
  return InvalidArgument(StrCat("array index out of bounds: index ", index, ", length ", length));
}

// The items of one list; false: nothing was asked for, and no further list is looked at.
Result<bool> TakeItems(const Step::Slice& slice, const Node& list, Nodes& out) {
  const auto size = static_cast<int64_t>(list.items.size());
  const auto from_end = [size](int64_t index) { return index < 0 ? index + size : index; };
  const int64_t begin = from_end(slice.begin);
  const int64_t end = slice.one ? begin + 1 : from_end(slice.end.value_or(size));
  if (begin == end) return false;
  if (begin < 0 || begin >= size) return OutOfBounds(begin, list.items.size());
  if (end < 0 || end > size) return OutOfBounds(end - 1, list.items.size());
  if (begin > end) {
    return InvalidArgument(StrCat("starting index ", begin, " is greater than ending index ", end));
  }
  const int64_t stride = slice.stride.value_or(1);
  if (stride <= 0) return InvalidArgument("step must be > 0");
  for (int64_t i = begin; i < end; i += std::min(stride, end - i)) {
    out.push_back(&list.items[static_cast<size_t>(i)]);
  }
  return true;
}

Result<Nodes> SelectItems(const Step& step, const Nodes& input) {
  Nodes out;
  for (const Node* node : input) {
    if (node->kind == Node::Kind::kNull) continue;
    if (node->kind != Node::Kind::kList) {
      return InvalidArgument(StrCat(GoType(*node), " is not array or slice"));
    }
    ASSIGN_OR_RETURN(const bool more, TakeItems(step.slice, *node, out));
    if (!more) break;
  }
  return out;
}

// A path from the root of a template to what it chooses. What is made on the way lives as long.
class JsonPathWalk {
 public:
  explicit JsonPathWalk(const std::vector<Steps>& actions) : actions_(actions) {}

  // What each action has come to, from `first` on.
  Result<std::vector<Nodes>> Run(size_t first, const Node& data) {
    std::vector<Nodes> found;
    for (size_t i = first; i < actions_.size(); ++i) {
      ASSIGN_OR_RETURN(Nodes chosen, Follow(actions_[i], {&data}));
      if (ends_ > 0 && ends_ <= inside_) {
        --ends_;
        last_end_ = i;
        break;
      }
      if (begins_ == 0) {
        found.push_back(std::move(chosen));
        continue;
      }
      --begins_;
      ++inside_;
      for (const Node* each : chosen) {
        ASSIGN_OR_RETURN(std::vector<Nodes> body, Run(i + 1, *each));
        found.insert(found.end(), body.begin(), body.end());
      }
      // Of nothing, the body only says where it ends.
      if (chosen.empty()) RETURN_IF_ERROR(Run(i + 1, nothing_));
      --inside_;
      // As kubectl: a range without an end goes on behind its beginning.
      if (last_end_ != kNone && last_end_ > i) i = last_end_;
    }
    return found;
  }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  Result<Nodes> Follow(const Steps& steps, Nodes nodes) {
    for (const Step& step : steps) {
      ASSIGN_OR_RETURN(nodes, Select(step, nodes));
    }
    return nodes;
  }

  Result<Nodes> Select(const Step& step, const Nodes& input) {
    switch (step.kind) {
      case Step::Kind::kText:
        return Nodes{&step.literal};
      case Step::Kind::kLiteral:
        return Nodes(input.size(), &step.literal);
      case Step::Kind::kField:
        return SelectField(step, input);
      case Step::Kind::kAll:
        return SelectAll(input);
      case Step::Kind::kRecursive: {
        Nodes out;
        for (const Node* node : input) AddComposites(*node, out);
        return out;
      }
      case Step::Kind::kItems:
        return SelectItems(step, input);
      case Step::Kind::kUnion:
        return SelectUnion(step, input);
      case Step::Kind::kFilter:
        return SelectFiltered(step, input);
      case Step::Kind::kRange:
        ++begins_;
        return input;
      case Step::Kind::kEnd:
        if (inside_ == 0) return InvalidArgument("not in range, nothing to end");
        ++ends_;
        return Nodes();
      case Step::Kind::kUnknownWord:
        break;
    }
    return InvalidArgument(StrCat("unrecognized identifier ", step.name));
  }

  Result<Nodes> SelectField(const Step& step, const Nodes& input) {
    Nodes out;
    for (const Node* node : input) {
      if (const Node* found = node->Find(step.name)) {
        out.push_back(found);
      } else if (!step.lists.empty()) {
        ASSIGN_OR_RETURN(const Nodes below, Follow(step.lists.front(), {node}));
        out.insert(out.end(), below.begin(), below.end());
      }
    }
    return out;
  }

  Nodes SelectAll(const Nodes& input) {
    Nodes out;
    for (const Node* node : input) {
      for (const kube::Member& member : node->members) out.push_back(&member.value);
      for (const Node& item : node->items) out.push_back(&item);
      if (node->kind != Node::Kind::kString) continue;
      for (const char byte : node->text) {  // as Go has it
        made_.push_back(Node::Int(static_cast<unsigned char>(byte)));
        out.push_back(&made_.back());
      }
    }
    return out;
  }

  // Everything that is made of something, from the outside to the inside; Go counts texts among it.
  static void AddComposites(const Node& node, Nodes& out) {
    const bool text = node.kind == Node::Kind::kString && !node.text.empty();
    if (!text && node.members.empty() && node.items.empty()) return;
    out.push_back(&node);
    for (const kube::Member& member : node.members) AddComposites(member.value, out);
    for (const Node& item : node.items) AddComposites(item, out);
  }

  Result<Nodes> SelectUnion(const Step& step, const Nodes& input) {
    Nodes out;
    for (const Steps& one : step.lists) {
      ASSIGN_OR_RETURN(const Nodes found, Follow(one, input));
      out.insert(out.end(), found.begin(), found.end());
    }
    return out;
  }

  Result<Nodes> SelectFiltered(const Step& step, const Nodes& input) {
    Nodes out;
    for (const Node* node : input) {
      if (node->kind != Node::Kind::kList) {
        return InvalidArgument(StrCat(node == &nothing_ ? "<invalid reflect.Value>" : GoText(*node),
                                      " is not array or slice and cannot be filtered"));
      }
      for (const Node& item : node->items) {
        ASSIGN_OR_RETURN(const bool passes, Passes(step, item));
        if (passes) out.push_back(&item);
      }
    }
    return out;
  }

  Result<bool> Passes(const Step& filter, const Node& item) {
    auto left = Follow(filter.lists.front(), {&item});
    // As kubectl: what cannot even be asked of an item does not keep it out.
    if (filter.name.empty()) return !left || !left->empty();
    RETURN_IF_ERROR(left);
    if (left->empty()) return false;
    if (left->size() > 1) return InvalidArgument("can only compare one element at a time");
    ASSIGN_OR_RETURN(const Nodes right, Follow(filter.lists.back(), {&item}));
    if (right.empty()) return false;
    if (right.size() > 1) return InvalidArgument("can only compare one element at a time");
    return Holds(*left->front(), filter.name, *right.front());
  }

  const std::vector<Steps>& actions_;
  const Node nothing_;
  std::deque<Node> made_;
  int begins_ = 0, inside_ = 0, ends_ = 0;  // of ranges: met, open, to be closed
  size_t last_end_ = kNone;                 // the action of the newest {end}
};

std::string Shown(const Node& node) {
  const bool composite = node.kind == Node::Kind::kList || node.kind == Node::Kind::kMap;
  if (composite) return kube::SortedCompactJson(node);
  return node.kind == Node::Kind::kNull ? "null" : GoText(node);
}

}  // namespace

Result<JsonPath> JsonPath::Parse(std::string_view template_text) {
  JsonPath path;
  ASSIGN_OR_RETURN(path.actions_, ParseJsonPath(template_text));
  return path;
}

Result<std::string> JsonPath::Apply(const Node& root) const {
  JsonPathWalk walk(actions_);
  ASSIGN_OR_RETURN(const std::vector<Nodes> found, walk.Run(0, root));
  std::string out;
  for (const Nodes& nodes : found) {
    for (size_t i = 0; i < nodes.size(); ++i) out += StrCat(i == 0 ? "" : " ", Shown(*nodes[i]));
  }
  return out;
}

Result<std::vector<std::vector<Node>>> JsonPath::Values(const Node& root) const {
  JsonPathWalk walk(actions_);
  ASSIGN_OR_RETURN(const std::vector<Nodes> found, walk.Run(0, root));
  std::vector<std::vector<Node>> values;
  for (const Nodes& nodes : found) {
    auto& part = values.emplace_back();
    for (const Node* node : nodes) part.push_back(*node);
  }
  return values;
}

}  // namespace holdfast::agent::cli
