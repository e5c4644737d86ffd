// SPDX-License-Identifier: Apache-2.0
// libyaml's emitter: kubectl's own is a port of it, so line folding and the choice between single
// and double quotes come out the same.
#include <yaml.h>

#include <algorithm>
#include <vector>

#include "agent/kube/print.h"
#include "agent/kube/tree_builder.h"
#include "holdfast/base/ascii.h"

namespace holdfast::agent::kube {
namespace {

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || static_cast<unsigned char>(c) >= 0x80;
}

std::string_view DigitRun(std::string_view text, size_t from) {
  size_t end = from;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return text.substr(from, end - from);
}

std::string_view WithoutZeros(std::string_view digits) {
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

// The order of keys in kubectl's YAML: "a2" before "a10", other characters before letters.
bool KeyLess(std::string_view a, std::string_view b) {
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  if (at == a.size() || at == b.size()) return a.size() < b.size();
  if (IsLetter(a[at]) && IsLetter(b[at])) return a[at] < b[at];
  if (IsLetter(a[at]) || IsLetter(b[at])) return IsLetter(b[at]);
  size_t start = at;
  while (start > 0 && IsDigit(a[start - 1])) --start;
  const std::string_view left = WithoutZeros(DigitRun(a, start));
  const std::string_view right = WithoutZeros(DigitRun(b, start));
  if (left.size() != right.size()) return left.size() < right.size();
  if (left != right) return left < right;
  return a[at] < b[at];
}

class Emitter {
 public:
  Emitter() {
    ok_ = yaml_emitter_initialize(&emitter_) == 1;
    if (!ok_) return;
    yaml_emitter_set_unicode(&emitter_, 1);
    yaml_emitter_set_output(&emitter_, &Emitter::Write, &out_);
  }
  Emitter(const Emitter&) = delete;
  Emitter& operator=(const Emitter&) = delete;
  ~Emitter() {
    if (ok_) yaml_emitter_delete(&emitter_);
  }

  std::string Print(const Node& tree) {
    yaml_event_t event;
    Send(yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING), event);
    Send(yaml_document_start_event_initialize(&event, nullptr, nullptr, nullptr, 1), event);
    Emit(tree);
    Send(yaml_document_end_event_initialize(&event, 1), event);
    Send(yaml_stream_end_event_initialize(&event), event);
    return std::move(out_);
  }

 private:
  static int Write(void* out, unsigned char* text, size_t size) {
    static_cast<std::string*>(out)->append(reinterpret_cast<char*>(text), size);
    return 1;
  }

  // The emitter takes the event over, also when it fails (for want of memory only).
  void Send(int made, yaml_event_t& event) {
    ok_ = ok_ && made == 1 && yaml_emitter_emit(&emitter_, &event) == 1;
  }

  void Scalar(std::string_view text, yaml_scalar_style_t style) {
    yaml_event_t event;
    Send(yaml_scalar_event_initialize(&event, nullptr, nullptr,
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), 1, 1, style),
         event);
  }

  void String(std::string_view text) {
    const bool lines = text.find('\n') != std::string_view::npos;
    Scalar(text, lines               ? YAML_LITERAL_SCALAR_STYLE
                 : NeedsQuotes(text) ? YAML_DOUBLE_QUOTED_SCALAR_STYLE
                                     : YAML_PLAIN_SCALAR_STYLE);
  }

  void Emit(const Node& node) {
    yaml_event_t event;
    switch (node.kind) {
      case Node::Kind::kNull:
        return Scalar("null", YAML_PLAIN_SCALAR_STYLE);
      case Node::Kind::kBool:
      case Node::Kind::kInt:
      case Node::Kind::kFloat:
        return Scalar(node.text, YAML_PLAIN_SCALAR_STYLE);
      case Node::Kind::kString:
        return String(node.text);
      case Node::Kind::kList:
        Send(yaml_sequence_start_event_initialize(&event, nullptr, nullptr, 1,
                                                  YAML_BLOCK_SEQUENCE_STYLE),
             event);
        for (const Node& item : node.items) Emit(item);
        return Send(yaml_sequence_end_event_initialize(&event), event);
      case Node::Kind::kMap:
        Send(yaml_mapping_start_event_initialize(&event, nullptr, nullptr, 1,
                                                 YAML_BLOCK_MAPPING_STYLE),
             event);
        EmitMembers(node);
        return Send(yaml_mapping_end_event_initialize(&event), event);
    }
  }

  void EmitMembers(const Node& node) {
    std::vector<const Member*> members;
    for (const Member& member : node.members) members.push_back(&member);
    std::stable_sort(members.begin(), members.end(),
                     [](const Member* a, const Member* b) { return KeyLess(a->key, b->key); });
    for (const Member* member : members) {
      String(member->key);
      Emit(member->value);
    }
  }

  yaml_emitter_t emitter_{};
  bool ok_ = false;
  std::string out_;
};

}  // namespace

std::string SortedYaml(const Node& tree) { return Emitter().Print(tree); }

}  // namespace holdfast::agent::kube
