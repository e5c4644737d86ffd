// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/jsonpath.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>

#include "agent/kube/print.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

using kube::Node;
using Nodes = std::vector<const Node*>;

struct JsonPath::Step {
  enum class Kind : uint8_t { kField, kIndex, kSlice, kAll, kRecursive, kFilter };
  Kind kind = Kind::kField;
  std::string name = {};              // kField, kRecursive
  std::optional<int64_t> begin = {};  // kIndex, kSlice
  std::optional<int64_t> end = {};
  std::vector<Step> left = {};  // kFilter: path below @
  std::string op = {};          // "" is existence
  std::string right = {};       // literal
  bool right_is_number = false;
};

struct JsonPath::Part {
  enum class Kind : uint8_t { kText, kPath, kRange };
  Kind kind = Kind::kText;
  std::string text;
  std::vector<Step> path;
  std::vector<std::shared_ptr<const Part>> body;  // kRange
};

namespace {

using Step = JsonPath::Step;
using Part = JsonPath::Part;
using Parts = std::vector<std::shared_ptr<const Part>>;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Parts> Run() {
    ASSIGN_OR_RETURN(Parts parts, ParseParts(0));
    return parts;
  }

 private:
  Error Fail(std::string_view why) const {
    return InvalidArgument(StrCat("jsonpath \"", text_, "\": ", why, " at position ", at_ + 1));
  }
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void SkipSpace() {
    while (Peek() == ' ') ++at_;
  }

  // Until the end, or in a range (depth > 0) until {end}.
  Result<Parts> ParseParts(int depth) {
    if (depth > 16) return Fail("too many ranges inside each other");
    Parts parts;
    while (!AtEnd()) {
      if (Peek() != '{') {
        const size_t end = std::min(text_.find('{', at_), text_.size());
        parts.push_back(Text(std::string(text_.substr(at_, end - at_))));
        at_ = end;
        continue;
      }
      ++at_;
      SkipSpace();
      if (Take("end")) {
        SkipSpace();
        if (depth == 0 || !Take("}")) return Fail("unexpected end");
        return parts;
      }
      RETURN_IF_ERROR(ParseBraces(parts, depth));
    }
    if (depth > 0) return Fail("range without {end}");
    return parts;
  }

  Result<void> ParseBraces(Parts& parts, int depth) {
    if (Take("range ")) {
      SkipSpace();
      auto range = std::make_shared<Part>();
      range->kind = Part::Kind::kRange;
      ASSIGN_OR_RETURN(range->path, ParsePath());
      SkipSpace();
      if (!Take("}")) return Fail("expected '}'");
      ASSIGN_OR_RETURN(range->body, ParseParts(depth + 1));
      parts.push_back(std::move(range));
      return {};
    }
    while (true) {
      SkipSpace();
      if (Take("}")) return {};
      if (AtEnd()) return Fail("unclosed '{'");
      if (Peek() == '"' || Peek() == '\'') {
        ASSIGN_OR_RETURN(std::string text, ParseString());
        parts.push_back(Text(std::move(text)));
        continue;
      }
      auto path = std::make_shared<Part>();
      path->kind = Part::Kind::kPath;
      ASSIGN_OR_RETURN(path->path, ParsePath());
      parts.push_back(std::move(path));
    }
  }

  static std::shared_ptr<const Part> Text(std::string text) {
    auto part = std::make_shared<Part>();
    part->text = std::move(text);
    return part;
  }

  Result<std::string> ParseString() {
    const char quote = text_[at_++];
    std::string out;
    while (!AtEnd() && Peek() != quote) {
      char c = text_[at_++];
      if (c == '\\' && !AtEnd()) {
        c = text_[at_++];
        if (c == 'n') c = '\n';
        if (c == 't') c = '\t';
      }
      out.push_back(c);
    }
    if (!Take(std::string_view(&quote, 1))) return Fail("unclosed quote");
    return out;
  }

  // "$", "@" and a leading "." are optional.
  Result<std::vector<Step>> ParsePath() {
    std::vector<Step> path;
    const size_t start = at_;
    if (Peek() == '$' || Peek() == '@') ++at_;
    while (true) {
      if (Take("..")) {
        path.push_back({.kind = Step::Kind::kRecursive, .name = ParseName()});
      } else if (Peek() == '.') {
        ++at_;
        if (Take("*")) {
          path.push_back({.kind = Step::Kind::kAll, .name = {}});
        } else if (std::string name = ParseName(); !name.empty()) {
          path.push_back({.kind = Step::Kind::kField, .name = std::move(name)});
        }
      } else if (Peek() == '[') {
        ++at_;
        ASSIGN_OR_RETURN(Step step, ParseBracket());
        path.push_back(std::move(step));
      } else {
        break;
      }
    }
    if (at_ == start) return Fail("expected a path");
    return path;
  }

  // A backslash keeps a dot in a name: {.metadata.labels.app\.kubernetes\.io/name}.
  std::string ParseName() {
    std::string name;
    while (!AtEnd()) {
      if (Peek() == '\\' && at_ + 1 < text_.size()) {
        ++at_;
      } else if (std::string_view(".[]{} ()=!<>").find(Peek()) != std::string_view::npos) {
        break;
      }
      name.push_back(text_[at_++]);
    }
    return name;
  }

  std::optional<int64_t> ParseInt() {
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto parsed = std::from_chars(begin, text_.data() + text_.size(), value);
    if (parsed.ec != std::errc()) return std::nullopt;
    at_ += static_cast<size_t>(parsed.ptr - begin);
    return value;
  }

  Result<Step> ParseBracket() {
    SkipSpace();
    Step step;
    if (Take("*")) {
      step.kind = Step::Kind::kAll;
    } else if (Peek() == '\'' || Peek() == '"') {
      ASSIGN_OR_RETURN(step.name, ParseString());
    } else if (Take("?(")) {
      ASSIGN_OR_RETURN(step, ParseFilter());
    } else {
      step.begin = ParseInt();
      step.kind = Step::Kind::kIndex;
      if (Take(":")) {
        step.kind = Step::Kind::kSlice;
        step.end = ParseInt();
      } else if (!step.begin) {
        return Fail("expected an index");
      }
    }
    SkipSpace();
    if (!Take("]")) return Fail("expected ']'");
    return step;
  }

  Result<Step> ParseFilter() {
    Step step;
    step.kind = Step::Kind::kFilter;
    SkipSpace();
    ASSIGN_OR_RETURN(step.left, ParsePath());
    SkipSpace();
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!Take(op)) continue;
      step.op = op;
      SkipSpace();
      if (Peek() == '"' || Peek() == '\'') {
        ASSIGN_OR_RETURN(step.right, ParseString());
      } else {
        step.right = ParseName();
        step.right_is_number = true;
      }
      break;
    }
    SkipSpace();
    if (!Take(")")) return Fail("expected ')'");
    return step;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Nodes Select(const std::vector<Step>& path, Nodes nodes);

bool Passes(const Step& filter, const Node& item) {
  const Nodes found = Select(filter.left, {&item});
  if (filter.op.empty()) return !found.empty();
  if (found.empty()) return filter.op == "!=";
  const std::string& left = found.front()->text;
  int order = left.compare(filter.right);
  if (filter.right_is_number && found.front()->kind != Node::Kind::kBool) {
    const double a = std::strtod(left.c_str(), nullptr);
    const double b = std::strtod(filter.right.c_str(), nullptr);
    order = a < b ? -1 : a > b ? 1 : 0;
  }
  if (filter.op == "==") return order == 0;
  if (filter.op == "!=") return order != 0;
  if (filter.op == "<") return order < 0;
  if (filter.op == "<=") return order <= 0;
  return filter.op == ">" ? order > 0 : order >= 0;
}

void SelectRecursive(const Step& step, const Node& node, Nodes& out) {
  for (const kube::Member& member : node.members) {
    if (member.key == step.name) out.push_back(&member.value);
    SelectRecursive(step, member.value, out);
  }
  for (const Node& item : node.items) SelectRecursive(step, item, out);
}

void SelectItems(const Step& step, const Node& node, Nodes& out) {
  const auto size = static_cast<int64_t>(node.items.size());
  const auto from_end = [&](int64_t index) { return index < 0 ? index + size : index; };
  int64_t begin = from_end(step.begin.value_or(0));
  int64_t end = step.kind == Step::Kind::kIndex ? begin + 1 : from_end(step.end.value_or(size));
  begin = std::max<int64_t>(begin, 0);
  end = std::min(end, size);
  for (int64_t i = begin; i < end; ++i) out.push_back(&node.items[static_cast<size_t>(i)]);
}

void SelectStep(const Step& step, const Node& node, Nodes& out) {
  switch (step.kind) {
    case Step::Kind::kField:
      if (const Node* found = node.Find(step.name)) out.push_back(found);
      break;
    case Step::Kind::kAll:
      for (const Node& item : node.items) out.push_back(&item);
      for (const kube::Member& member : node.members) out.push_back(&member.value);
      break;
    case Step::Kind::kRecursive:
      SelectRecursive(step, node, out);
      break;
    case Step::Kind::kFilter:
      for (const Node& item : node.items) {
        if (Passes(step, item)) out.push_back(&item);
      }
      break;
    case Step::Kind::kIndex:
    case Step::Kind::kSlice:
      SelectItems(step, node, out);
      break;
  }
}

Nodes Select(const std::vector<Step>& path, Nodes nodes) {
  for (const Step& step : path) {
    Nodes next;
    for (const Node* node : nodes) SelectStep(step, *node, next);
    nodes = std::move(next);
  }
  return nodes;
}

void Render(const Parts& parts, const Node& root, std::string& out) {
  for (const auto& part : parts) {
    if (part->kind == Part::Kind::kText) {
      out += part->text;
      continue;
    }
    const Nodes found = Select(part->path, {&root});
    bool first = true;
    for (const Node* node : found) {
      if (part->kind == Part::Kind::kRange) {
        Render(part->body, *node, out);
        continue;
      }
      if (!std::exchange(first, false)) out += " ";
      const bool composite = node->kind == Node::Kind::kList || node->kind == Node::Kind::kMap;
      out += composite ? kube::CompactJson(*node) : node->text;
    }
  }
}

}  // namespace

Result<JsonPath> JsonPath::Parse(std::string_view template_text) {
  JsonPath path;
  ASSIGN_OR_RETURN(path.parts_, Parser(template_text).Run());
  return path;
}

std::string JsonPath::Apply(const Node& root) const {
  std::string out;
  Render(parts_, root, out);
  return out;
}

}  // namespace holdfast::agent::cli
