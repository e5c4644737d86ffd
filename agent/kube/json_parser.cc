// SPDX-License-Identifier: Apache-2.0
// Strict JSON (RFC 8259) with positions. An own scanner, because neither nlohmann nor simdjson
// tells line and column of a value.
#include <algorithm>
#include <utility>

#include "agent/kube/parse.h"
#include "agent/kube/tree_builder.h"
#include "agent/kube/utf8.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::kube {
namespace {

class JsonReader {
 public:
  JsonReader(std::string_view text, const ParseLimits& limits)
      : text_(text), limits_(limits), builder_(limits) {}

  ParsedText Read() {
    ParsedText result;
    SkipSpace();
    while (!AtEnd()) {
      const size_t start = at_;
      if (text_.substr(at_, 3) == "---") {
        Fail(
            "text that begins with { is JSON and has no lines ---: begin it with one to make it "
            "YAML, or leave them out");
        break;
      }
      if (!Value()) break;
      if (at_ - start > limits_.max_document_bytes) {
        Fail(StrCat("document is larger than ", limits_.max_document_bytes, " bytes"));
        break;
      }
      Node root = builder_.TakeRoot();
      if (root.kind != Node::Kind::kNull) result.documents.push_back(std::move(root));
      if (result.documents.size() > limits_.max_documents) {
        Fail(StrCat("more than ", limits_.max_documents, " documents"));
        break;
      }
      SkipSpace();
    }
    result.errors = std::move(builder_.errors());
    return result;
  }

 private:
  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  Position Here() const { return {line_, column_}; }

  void Advance() {
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      column_ = 1;
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column_;
    }
  }

  bool Fail(std::string message) {
    builder_.Fail(Here(), std::move(message));
    return false;
  }

  bool Unexpected(std::string_view wanted) {
    if (AtEnd()) return Fail(StrCat("not valid JSON: the text ends where ", wanted, " must stand"));
    return Fail(StrCat("not valid JSON: expected ", wanted));
  }

  void SkipSpace() {
    while (!AtEnd() && (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r')) {
      Advance();
    }
  }

  bool Accept(char c) {
    if (Peek() != c || AtEnd()) return false;
    Advance();
    return true;
  }

  // Recursion is bounded by the builder's depth limit.
  bool Value() {
    const Position at = Here();
    switch (Peek()) {
      case '{':
        return builder_.Start(Node::Kind::kMap, at) && Object();
      case '[':
        return builder_.Start(Node::Kind::kList, at) && Array();
      case '"': {
        Node node = Node::String({});
        node.at = at;
        return String(node.text) && builder_.Scalar(std::move(node));
      }
      default:
        return IsDigit(Peek()) || Peek() == '-' ? Number(at) : Word(at);
    }
  }

  bool Object() {
    Advance();
    SkipSpace();
    if (Accept('}')) return builder_.End();
    while (true) {
      const Position at = Here();
      if (Peek() != '"') return Unexpected("a key in double quotes");
      std::string key;
      if (!String(key)) return false;
      builder_.Key(std::move(key), at);
      SkipSpace();
      if (!Accept(':')) return Unexpected("':'");
      SkipSpace();
      if (!Value()) return false;
      SkipSpace();
      if (Accept('}')) return builder_.End();
      if (!Accept(',')) return Unexpected("',' or '}'");
      SkipSpace();
    }
  }

  bool Array() {
    Advance();
    SkipSpace();
    if (Accept(']')) return builder_.End();
    while (true) {
      if (!Value()) return false;
      SkipSpace();
      if (Accept(']')) return builder_.End();
      if (!Accept(',')) return Unexpected("',' or ']'");
      SkipSpace();
    }
  }

  bool String(std::string& out) {
    Advance();
    while (!AtEnd() && Peek() != '"') {
      if (Peek() == '\\') {
        if (!Escape(out)) return false;
      } else if (static_cast<unsigned char>(Peek()) < 0x20) {
        return Fail("not valid JSON: a control character in a string must be escaped");
      } else {
        out += Peek();
        Advance();
      }
    }
    return Accept('"') || Unexpected("'\"'");
  }

  bool Escape(std::string& out) {
    Advance();
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (Peek() == 'u' && !AtEnd()) return UnicodeEscape(out);
    const size_t index = kNames.find(Peek());
    if (AtEnd() || index == std::string_view::npos) return Unexpected("an escape such as \\n");
    out += kValues[index];
    Advance();
    return true;
  }

  bool UnicodeEscape(std::string& out) {
    uint32_t rune = 0;
    if (!Hex4(rune)) return false;
    if (rune == 0) return Fail("NUL is not allowed");
    if (rune >= 0xD800 && rune < 0xE000) {
      uint32_t low = 0;
      const bool pair = rune < 0xDC00 && text_.substr(at_, 2) == "\\u";
      if (pair) {
        Advance();
        if (!Hex4(low)) return false;
      }
      if (low < 0xDC00 || low > 0xDFFF) return Fail("not valid JSON: half of a surrogate pair");
      rune = 0x10000 + ((rune - 0xD800) << 10) + (low - 0xDC00);
    }
    AppendUtf8(rune, out);
    return true;
  }

  // At the 'u'.
  bool Hex4(uint32_t& value) {
    Advance();
    for (int digit = 0; digit < 4; ++digit) {
      static constexpr std::string_view kHex = "0123456789abcdef";
      const char c = Peek();
      const size_t index = kHex.find(c >= 'A' && c <= 'F' ? static_cast<char>(c | 0x20) : c);
      if (AtEnd() || index == std::string_view::npos) return Unexpected("four hexadecimal digits");
      value = value << 4 | static_cast<uint32_t>(index);
      Advance();
    }
    return true;
  }

  size_t SkipDigits() {
    const size_t start = at_;
    while (IsDigit(Peek())) Advance();
    return at_ - start;
  }

  bool Number(Position at) {
    const size_t start = at_;
    Node node;
    node.kind = Node::Kind::kInt;
    node.at = at;
    (void)Accept('-');  // the sign is optional
    const bool zero = Peek() == '0';
    const size_t digits = SkipDigits();
    if (digits == 0 || (zero && digits > 1)) return Unexpected("a number without leading zeros");
    if (Accept('.')) {
      node.kind = Node::Kind::kFloat;
      if (SkipDigits() == 0) return Unexpected("a digit");
    }
    if (Accept('e') || Accept('E')) {
      node.kind = Node::Kind::kFloat;
      if (!Accept('-')) (void)Accept('+');
      if (SkipDigits() == 0) return Unexpected("a digit");
    }
    node.text = std::string(text_.substr(start, at_ - start));
    if (node.text == "-0") node.text = "0";
    return builder_.Scalar(std::move(node));
  }

  bool Word(Position at) {
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) != word) continue;
      for (size_t i = 0; i < word.size(); ++i) Advance();
      Node node;
      if (word != "null") node = Node::Bool(word == "true");
      node.at = at;
      return builder_.Scalar(std::move(node));
    }
    return Unexpected("a value");
  }

  std::string_view text_;
  ParseLimits limits_;
  TreeBuilder builder_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  uint32_t column_ = 1;
};

}  // namespace

ParsedText ParseJson(std::string_view text, const ParseLimits& limits) {
  return JsonReader(text, limits).Read();
}

}  // namespace holdfast::agent::kube
