// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/special.h"

#include <algorithm>
#include <charconv>

#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "agent/kube/parse.h"
#include "agent/kube/print.h"
#include "agent/kube/quantity.h"
#include "agent/kube/times.h"
#include "agent/kube/utf8.h"
#include "holdfast/base/strings.h"
#include "k8s/intstr/int_or_string.pb.h"
#include "k8s/meta/v1/meta.pb.h"
#include "k8s/meta/v1/time.pb.h"
#include "k8s/resource/quantity.pb.h"
#include "k8s/runtime/runtime.pb.h"

namespace holdfast::agent::kube {
namespace {

using google::protobuf::Message;
using ::k8s::io::apimachinery::pkg::api::resource::Quantity;
using ::k8s::io::apimachinery::pkg::runtime::RawExtension;
using ::k8s::io::apimachinery::pkg::util::intstr::IntOrString;

std::string Expected(std::string_view what, const Node& node) {
  return StrCat("expected ", what, ", got ", KindName(node.kind));
}

bool IsNumber(const Node& node) {
  return node.kind == Node::Kind::kInt || node.kind == Node::Kind::kFloat;
}

std::string ReadQuantity(const Node& node, Quantity& out) {
  if (node.kind != Node::Kind::kString && !IsNumber(node)) return Expected("a quantity", node);
  // Spaces around it are no part of it.
  std::string_view text = node.text;
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  text.remove_suffix(text.size() - (text.find_last_not_of(' ') + 1));
  auto amount = Amount::Parse(text);
  if (!amount) return amount.error().message();
  out.set_string(amount->ToString());
  return {};
}

std::string ReadIntOrString(const Node& node, IntOrString& out) {
  if (node.kind == Node::Kind::kString) {
    out.set_type(1);
    out.set_intval(0);
    out.set_strval(node.text);
    return {};
  }
  int32_t value = 0;
  if (node.kind != Node::Kind::kInt) return Expected("a whole number or a string", node);
  const char* end = node.text.data() + node.text.size();
  if (std::from_chars(node.text.data(), end, value).ec != std::errc()) {
    return StrCat(Quoted(node.text), " does not fit 32 bits");
  }
  out.set_type(0);
  out.set_intval(value);
  out.set_strval("");
  return {};
}

template <class T>
std::string ReadTime(const Node& node, int32_t granularity, T& out) {
  if (node.kind != Node::Kind::kString) return Expected("a time", node);
  const auto time = ParseRfc3339(node.text);
  if (!time) return StrCat(Quoted(node.text), " is no time such as 2006-01-02T15:04:05Z");
  out.set_seconds(time->seconds);
  out.set_nanos(time->nanos / granularity * granularity);
  return {};
}

std::string ReadDuration(const Node& node, metav1::Duration& out) {
  if (node.kind != Node::Kind::kString) return Expected("a duration", node);
  const auto duration = ParseDuration(node.text);
  if (!duration) return StrCat(Quoted(node.text), " is no duration such as 1h30m");
  out.set_duration(duration->count());
  return {};
}

// The raw bytes are JSON, or another object in the envelope (in a watch event).
Node ReadRaw(const std::string& raw) {
  if (auto object = DecodeEnvelope(raw); object.has_value()) return ToTree(**object);
  const ParseLimits limits = {.max_values = 1'000'000};
  if (!CheckText(raw, limits).empty()) return {};
  ParsedText parsed = ParseJson(raw, limits);
  if (parsed.documents.size() != 1 || !parsed.errors.empty()) return {};
  return std::move(parsed.documents.front());
}

template <class T>
Node WriteTime(const Message& message, int digits) {
  const auto& time = static_cast<const T&>(message);
  if (!time.has_seconds() && !time.has_nanos()) return {};
  return Node::String(FormatRfc3339({time.seconds(), time.nanos()}, digits));
}

std::string ReadStrings(const Node& node, Message* message) {
  if (node.kind != Node::Kind::kList) return Expected("a list", node);
  const auto* field = message->GetDescriptor()->field(0);
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::kString) return Expected("a string", item);
    message->GetReflection()->AddString(message, field, item.text);
  }
  return {};
}

Node WriteStrings(const Message& message) {
  const auto* field = message.GetDescriptor()->field(0);
  const auto& reflection = *message.GetReflection();
  Node out = Node::List();
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    out.items.push_back(
        Node::String(ReplaceInvalidUtf8(reflection.GetRepeatedString(message, field, i))));
  }
  return out;
}

Node WriteIntOrString(const IntOrString& value) {
  return value.type() == 1 ? Node::String(ReplaceInvalidUtf8(value.strval()))
                           : Node::Int(value.intval());
}

}  // namespace

std::string ReadSpecial(SpecialType type, const Node& node, Message* message) {
  message->Clear();
  if (node.kind == Node::Kind::kNull) return {};
  switch (type) {
    case SpecialType::kQuantity:
      return ReadQuantity(node, static_cast<Quantity&>(*message));
    case SpecialType::kIntOrString:
      return ReadIntOrString(node, static_cast<IntOrString&>(*message));
    case SpecialType::kTime:
      return ReadTime(node, 1'000'000'000, static_cast<metav1::Time&>(*message));
    case SpecialType::kMicroTime:
      return ReadTime(node, 1'000, static_cast<metav1::MicroTime&>(*message));
    case SpecialType::kDuration:
      return ReadDuration(node, static_cast<metav1::Duration&>(*message));
    case SpecialType::kRawExtension:
      static_cast<RawExtension*>(message)->set_raw(CompactJson(node));
      return {};
    case SpecialType::kFieldsV1:
      static_cast<metav1::FieldsV1*>(message)->set_raw(CompactJson(node));
      return {};
    case SpecialType::kStringList:
      return ReadStrings(node, message);
    case SpecialType::kNone:
      break;
  }
  return {};
}

Node WriteSpecial(SpecialType type, const Message& message) {
  switch (type) {
    case SpecialType::kQuantity: {
      const std::string& text = static_cast<const Quantity&>(message).string();
      return Node::String(text.empty() ? "0" : ReplaceInvalidUtf8(text));
    }
    case SpecialType::kIntOrString:
      return WriteIntOrString(static_cast<const IntOrString&>(message));
    case SpecialType::kTime:
      return WriteTime<metav1::Time>(message, 0);
    case SpecialType::kMicroTime:
      return WriteTime<metav1::MicroTime>(message, 6);
    case SpecialType::kDuration:
      return Node::String(FormatDuration(
          std::chrono::nanoseconds(static_cast<const metav1::Duration&>(message).duration())));
    case SpecialType::kRawExtension:
      return ReadRaw(static_cast<const RawExtension&>(message).raw());
    case SpecialType::kFieldsV1:
      return ReadRaw(static_cast<const metav1::FieldsV1&>(message).raw());
    case SpecialType::kStringList:
      return WriteStrings(message);
    case SpecialType::kNone:
      break;
  }
  return {};
}

}  // namespace holdfast::agent::kube
