// SPDX-License-Identifier: Apache-2.0
#include "agent/cli/jsonpath.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>

#include "agent/kube/print.h"
#include "agent/kube/utf8.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {

using kube::Node;
using Nodes = std::vector<const Node*>;

struct JsonPath::Step {
  enum class Kind : uint8_t { kField, kIndex, kSlice, kAll, kRecursive, kFilter, kUnion };
  Kind kind = Kind::kField;
  std::string name = {};              // kField, kRecursive
  std::optional<int64_t> begin = {};  // kIndex, kSlice
  std::optional<int64_t> end = {};
  std::optional<int64_t> stride = {};
  std::vector<Step> inner = {};  // kUnion: one of each; kField: 'a.b' as a path; kFilter: below @
  std::string op = {};           // "" is existence
  std::string right = {};        // literal
  bool right_is_number = false;
};

struct JsonPath::Part {
  enum class Kind : uint8_t { kText, kPath, kRange };
  Kind kind = Kind::kText;
  std::string text = {};
  std::vector<Step> path = {};
  std::vector<std::shared_ptr<const Part>> body = {};  // kRange
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
    if (Take("range ")) return ParseRange(parts, depth);
    SkipSpace();
    if (Peek() == '}') parts.push_back(std::make_shared<Part>(Part{.kind = Part::Kind::kPath}));
    std::shared_ptr<Part> path;  // goes on while no text comes between
    while (true) {
      SkipSpace();
      if (Take("}")) return {};
      if (AtEnd()) return Fail("unclosed '{'");
      if (Peek() == '"' || Peek() == '\'') {
        ASSIGN_OR_RETURN(std::string text, ParseString());
        parts.push_back(Text(std::move(text)));
        path.reset();
        continue;
      }
      ASSIGN_OR_RETURN(std::vector<Step> steps, ParsePath());
      if (path == nullptr) {
        path = std::make_shared<Part>(Part{.kind = Part::Kind::kPath});
        parts.push_back(path);
      }
      path->path.insert(path->path.end(), steps.begin(), steps.end());
    }
  }

  Result<void> ParseRange(Parts& parts, int depth) {
    SkipSpace();
    auto range = std::make_shared<Part>(Part{.kind = Part::Kind::kRange});
    ASSIGN_OR_RETURN(range->path, ParsePath());
    SkipSpace();
    if (!Take("}")) return Fail("expected '}'");
    ASSIGN_OR_RETURN(range->body, ParseParts(depth + 1));
    parts.push_back(std::move(range));
    return {};
  }

  static std::shared_ptr<const Part> Text(std::string text) {
    auto part = std::make_shared<Part>();
    part->text = std::move(text);
    return part;
  }

  // With Go's escapes.
  Result<std::string> ParseString() {
    const char quote = text_[at_++];
    std::string out;
    while (!AtEnd() && Peek() != quote) {
      const char c = text_[at_++];
      if (c != '\\') {
        out.push_back(c);
      } else {
        RETURN_IF_ERROR(ParseEscape(out));
      }
    }
    if (!Take(std::string_view(&quote, 1))) return Fail("unclosed quote");
    return out;
  }

  // What follows a backslash.
  Result<void> ParseEscape(std::string& out) {
    constexpr std::string_view kLetters = "abfnrtv\\'\"";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    if (AtEnd()) return Fail("unclosed quote");
    const char c = text_[at_++];
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      out.push_back(kMeanings[at]);
      return {};
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const auto code = digits == 0 ? std::nullopt : ParseHex(digits);
    const bool scalar = code && *code <= 0x10FFFF && (*code < 0xD800 || *code > 0xDFFF);
    if (!code || (c != 'x' && !scalar)) return Fail("unknown escape");
    if (c == 'x') {
      out.push_back(static_cast<char>(*code));
    } else {
      kube::AppendUtf8(*code, out);
    }
    return {};
  }

  std::optional<uint32_t> ParseHex(size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    uint32_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != digits || parsed.ptr != text.data() + digits) return std::nullopt;
    at_ += digits;
    return value;
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
      } else if (std::string_view(".,[]{} ()=!<>").find(Peek()) != std::string_view::npos) {
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

  // Behind the '['; one element, or several: a union.
  Result<Step> ParseBracket() {
    Step several;
    several.kind = Step::Kind::kUnion;
    do {
      SkipSpace();
      ASSIGN_OR_RETURN(Step step, ParseElement());
      several.inner.push_back(std::move(step));
      SkipSpace();
    } while (Take(","));
    if (!Take("]")) return Fail("expected ']'");
    return several.inner.size() == 1 ? several.inner.front() : several;
  }

  Result<Step> ParseElement() {
    Step step;
    if (Take("*")) {
      step.kind = Step::Kind::kAll;
      return step;
    }
    if (Peek() == '\'') return ParseKey();
    if (Take("?(")) return ParseFilter();
    step.begin = ParseInt();
    step.kind = Step::Kind::kIndex;
    if (Take(":")) {
      step.kind = Step::Kind::kSlice;
      step.end = ParseInt();
      if (Take(":")) step.stride = ParseInt();
    } else if (!step.begin) {
      return Fail("expected an index or a name in single quotes");
    }
    if (step.stride.value_or(1) <= 0) return Fail("the step must be above 0");
    return step;
  }

  // 'name', or 'a.b': a key with that dot, else a path.
  Result<Step> ParseKey() {
    ++at_;
    const size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) return Fail("unclosed quote");
    Step key;
    for (; at_ < end; ++at_) {
      const bool escaped = text_[at_] == '\\' && at_ + 1 < end;
      if (escaped) ++at_;
      key.name.push_back(text_[at_]);
      if (key.inner.empty()) key.inner.emplace_back();
      if (text_[at_] == '.' && !escaped) {
        key.inner.emplace_back();
      } else {
        key.inner.back().name.push_back(text_[at_]);
      }
    }
    at_ = end + 1;
    if (key.inner.size() == 1) key.inner.clear();
    return key;
  }

  Result<Step> ParseFilter() {
    Step step;
    step.kind = Step::Kind::kFilter;
    SkipSpace();
    ASSIGN_OR_RETURN(step.inner, ParsePath());
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

Result<Nodes> Select(const std::vector<Step>& path, Nodes nodes);

Result<bool> Passes(const Step& filter, const Node& item) {
  ASSIGN_OR_RETURN(const Nodes found, Select(filter.inner, {&item}));
  if (filter.op.empty() || found.empty()) return !found.empty();
  if (found.size() > 1) return InvalidArgument("a filter compares one value, and there are more");
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

Error OutOfBounds(int64_t index, int64_t length) {
  return InvalidArgument(StrCat("array index out of bounds: index ", index, ", length ", length));
}

Result<void> RequireList(const Node& node) {
  if (node.kind == Node::Kind::kList || node.kind == Node::Kind::kNull) return {};
  return InvalidArgument(StrCat("not a list but ", kube::KindName(node.kind)));
}

// A slice's ends must be there too; one of no elements may be anywhere.
Result<void> SelectItems(const Step& step, const Node& node, Nodes& out) {
  RETURN_IF_ERROR(RequireList(node));
  if (node.kind == Node::Kind::kNull) return {};
  const auto size = static_cast<int64_t>(node.items.size());
  const auto from_end = [&](int64_t index) { return index < 0 ? index + size : index; };
  const int64_t begin = from_end(step.begin.value_or(0));
  const int64_t end =
      step.kind == Step::Kind::kIndex ? begin + 1 : from_end(step.end.value_or(size));
  if (begin == end) return {};
  if (begin < 0 || begin >= size) return OutOfBounds(begin, size);
  if (end < 0 || end > size) return OutOfBounds(end - 1, size);
  if (begin > end) {
    return InvalidArgument(StrCat("starting index ", begin, " is greater than ending index ", end));
  }
  for (int64_t i = begin; i < end; i += step.stride.value_or(1)) {
    out.push_back(&node.items[static_cast<size_t>(i)]);
  }
  return {};
}

Result<void> SelectField(const Step& step, const Node& node, Nodes& out) {
  if (const Node* found = node.Find(step.name)) {
    out.push_back(found);
  } else if (!step.inner.empty()) {
    ASSIGN_OR_RETURN(const Nodes below, Select(step.inner, {&node}));
    out.insert(out.end(), below.begin(), below.end());
  }
  return {};
}

Result<void> SelectFiltered(const Step& step, const Node& node, Nodes& out) {
  RETURN_IF_ERROR(RequireList(node));
  for (const Node& item : node.items) {
    ASSIGN_OR_RETURN(const bool passes, Passes(step, item));
    if (passes) out.push_back(&item);
  }
  return {};
}

Result<void> SelectStep(const Step& step, const Node& node, Nodes& out) {
  switch (step.kind) {
    case Step::Kind::kField:
      return SelectField(step, node, out);
    case Step::Kind::kAll:
      for (const Node& item : node.items) out.push_back(&item);
      for (const kube::Member& member : node.members) out.push_back(&member.value);
      return {};
    case Step::Kind::kRecursive:
      SelectRecursive(step, node, out);
      return {};
    case Step::Kind::kFilter:
      return SelectFiltered(step, node, out);
    case Step::Kind::kIndex:
    case Step::Kind::kSlice:
      return SelectItems(step, node, out);
    case Step::Kind::kUnion:
      break;  // taken apart by Select
  }
  return {};
}

Result<Nodes> Select(const std::vector<Step>& path, Nodes nodes) {
  for (const Step& step : path) {
    Nodes next;
    const bool several = step.kind == Step::Kind::kUnion;
    for (const Step& one : several ? std::span(step.inner) : std::span(&step, 1)) {
      for (const Node* node : nodes) RETURN_IF_ERROR(SelectStep(one, *node, next));
    }
    nodes = std::move(next);
  }
  return nodes;
}

std::string Shown(const Node& node) {
  const bool composite = node.kind == Node::Kind::kList || node.kind == Node::Kind::kMap;
  return composite ? kube::SortedCompactJson(node) : node.text;
}

Result<void> Render(const Parts& parts, const Node& root, std::string& out) {
  for (const auto& part : parts) {
    if (part->kind == Part::Kind::kText) {
      out += part->text;
      continue;
    }
    ASSIGN_OR_RETURN(const Nodes found, Select(part->path, {&root}));
    bool first = true;
    for (const Node* node : found) {
      if (part->kind == Part::Kind::kRange) {
        RETURN_IF_ERROR(Render(part->body, *node, out));
        continue;
      }
      if (!std::exchange(first, false)) out += " ";
      out += Shown(*node);
    }
  }
  return {};
}

}  // namespace

Result<JsonPath> JsonPath::Parse(std::string_view template_text) {
  JsonPath path;
  path.text_ = template_text;
  ASSIGN_OR_RETURN(path.parts_, Parser(template_text).Run());
  return path;
}

Result<std::string> JsonPath::Apply(const Node& root) const {
  std::string out;
  RETURN_IF_ERROR(WithContext(Render(parts_, root, out), StrCat("jsonpath \"", text_, "\"")));
  return out;
}

Result<std::vector<std::string>> JsonPath::Values(const Node& root) const {
  std::vector<std::string> values;
  for (const auto& part : parts_) {
    if (part->kind != Part::Kind::kPath) continue;
    ASSIGN_OR_RETURN(const Nodes found,
                     WithContext(Select(part->path, {&root}), StrCat("jsonpath \"", text_, "\"")));
    for (const Node* node : found) values.push_back(Shown(*node));
  }
  return values;
}

}  // namespace holdfast::agent::cli
