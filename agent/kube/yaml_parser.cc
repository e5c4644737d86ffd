// SPDX-License-Identifier: Apache-2.0
#include <yaml.h>

#include <utility>

#include "agent/kube/diagnostic.h"
#include "agent/kube/parse.h"
#include "agent/kube/tree_builder.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

Position At(const yaml_mark_t& mark) {
  return {static_cast<uint32_t>(mark.line + 1), static_cast<uint32_t>(mark.column + 1)};
}

class Parser {
 public:
  explicit Parser(std::string_view text) {
    ok_ = yaml_parser_initialize(&parser_) == 1;
    if (!ok_) return;
    yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() {
    if (ok_) yaml_parser_delete(&parser_);
  }

  bool Next(yaml_event_t* event) { return ok_ && yaml_parser_parse(&parser_, event) == 1; }

  ParseError Failure() const {
    if (!ok_) return {{1, 1}, "", "out of memory"};
    std::string message = StrCat("not valid YAML: ", parser_.problem ? parser_.problem : "?");
    if (parser_.context != nullptr) message += StrCat(" (", parser_.context, ")");
    return {At(parser_.problem_mark), "", std::move(message)};
  }

 private:
  yaml_parser_t parser_{};
  bool ok_ = false;
};

class Event {
 public:
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { yaml_event_delete(&event_); }
  yaml_event_t* get() { return &event_; }
  const yaml_event_t* operator->() const { return &event_; }

 private:
  yaml_event_t event_{};
};

std::string_view Text(const yaml_event_t& event) {
  return {reinterpret_cast<const char*>(event.data.scalar.value), event.data.scalar.length};
}

std::string_view Tag(const yaml_char_t* tag) {
  return tag == nullptr ? "" : reinterpret_cast<const char*>(tag);
}

// Reads the events of one stream into trees.
class StreamReader {
 public:
  explicit StreamReader(const ParseLimits& limits) : limits_(limits), builder_(limits) {}

  ParsedText Read(std::string_view text) {
    Parser parser(text);
    while (true) {
      Event event;
      if (!parser.Next(event.get())) {
        builder_.errors().push_back(parser.Failure());
        break;
      }
      if (event->type == YAML_STREAM_END_EVENT || !Handle(*event.get())) break;
    }
    result_.errors = std::move(builder_.errors());
    return std::move(result_);
  }

 private:
  bool Handle(const yaml_event_t& event) {
    const Position at = At(event.start_mark);
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        if (++documents_ <= limits_.max_documents) return true;
        return Stop(at, StrCat("more than ", limits_.max_documents, " documents"));
      case YAML_DOCUMENT_END_EVENT:
        return FinishDocument();
      case YAML_ALIAS_EVENT:
        return Stop(at, "aliases are not allowed; write the value again");
      case YAML_SCALAR_EVENT:
        return Scalar(event, at);
      case YAML_SEQUENCE_START_EVENT:
        return StartCollection(Node::Kind::kList, Tag(event.data.sequence_start.tag), at);
      case YAML_MAPPING_START_EVENT:
        return StartCollection(Node::Kind::kMap, Tag(event.data.mapping_start.tag), at);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return builder_.End();
      default:
        return true;
    }
  }

  bool Stop(Position at, std::string message) {
    builder_.Fail(at, std::move(message));
    return false;
  }

  bool FinishDocument() {
    Node root = builder_.TakeRoot();
    if (root.kind != Node::Kind::kNull) result_.documents.push_back(std::move(root));
    return true;
  }

  bool StartCollection(Node::Kind kind, std::string_view tag, Position at) {
    if (!tag.empty()) return Stop(at, StrCat("tag ", Quoted(tag), " is not allowed"));
    if (builder_.NeedsKey()) return Stop(at, "a key must be a string");
    return builder_.Start(kind, at);
  }

  bool Scalar(const yaml_event_t& event, Position at) {
    const std::string_view tag = Tag(event.data.scalar.tag);
    const bool text_tag = tag == YAML_STR_TAG || tag == "!";
    if (!tag.empty() && !text_tag) {
      return Stop(at, StrCat("tag ", Quoted(tag), " is not allowed"));
    }
    const bool plain = event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !text_tag;
    Node node = plain ? ResolvePlainScalar(Text(event)) : Node::String(std::string(Text(event)));
    node.at = at;
    if (!builder_.NeedsKey()) return builder_.Scalar(std::move(node));
    if (plain && node.text == "<<") return Stop(at, "merge keys are not allowed");
    if (node.kind == Node::Kind::kNull || node.kind == Node::Kind::kFloat) {
      return Stop(
          at, StrCat("a key must be a string, not ", KindName(node.kind), "; put it in quotes"));
    }
    builder_.Key(std::move(node.text), at);
    return true;
  }

  ParseLimits limits_;
  TreeBuilder builder_;
  size_t documents_ = 0;
  ParsedText result_;
};

// Finds documents that are too many or too large before the parser sees them: "---" or "..." at
// the start of a line ends a document wherever it stands.
std::vector<ParseError> CheckDocuments(std::string_view text, const ParseLimits& limits) {
  size_t start = 0;
  uint32_t line = 1;
  uint32_t start_line = 1;
  size_t documents = 1;
  for (size_t at = 0; at < text.size(); ++line) {
    const bool separator = text.substr(at, 3) == "---";
    if (separator && ++documents > limits.max_documents + 1) {
      return {{{line, 1}, "", StrCat("more than ", limits.max_documents, " documents")}};
    }
    if (separator) start = at, start_line = line;
    const size_t end = std::min(text.find('\n', at), text.size() - 1);
    if (end - start >= limits.max_document_bytes) {
      return {{{start_line, 1},
               "",
               StrCat("document is larger than ", limits.max_document_bytes, " bytes")}};
    }
    at = end + 1;
  }
  return {};
}

}  // namespace

ParsedText ParseYaml(std::string_view text, const ParseLimits& limits) {
  if (auto errors = CheckDocuments(text, limits); !errors.empty()) return {{}, std::move(errors)};
  return StreamReader(limits).Read(text);
}

}  // namespace holdfast::agent::kube
