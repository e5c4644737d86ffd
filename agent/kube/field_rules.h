// SPDX-License-Identifier: Apache-2.0
// Tables that say of every field of an object what becomes of it: it is honoured, or refused, or
// told. No field is ignored in silence; a test walks the schema and fails on one that is in no
// table, and the docs show the same tables.
//
// Fields are named by the message that they are in ("Container"), which stands for all places where
// that message is. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

namespace holdfast::agent::kube {

enum class Treatment : uint8_t {
  kHonoured,   // and so is what it holds, unless a row of its own says otherwise
  kRefused,    // the object does not run, or not until it is changed; with all that it holds
  kTold,       // by an event; with all that it holds
  kElsewhere,  // honoured by who is not the node; with all that it holds
};

struct FieldRule {
  std::string_view message;
  std::string_view fields;  // one name, or several with spaces between them
  Treatment treatment = Treatment::kHonoured;
  const char* how = "";       // refused: by whom, with which reason; told: what the event says
  const char* event = "";     // told: the reason of the event; "" is kFieldNotHonoured
  const char* harmless = "";  // told: a value that asks for nothing ("true", a word)
};
using FieldRules = std::vector<FieldRule>;

inline constexpr char kFieldNotHonoured[] = "FieldNotHonoured";

// nullptr: in no row.
const FieldRule* FindRule(const FieldRules& rules, std::string_view message,
                          std::string_view field);

// Whether it holds fields that a user writes: a map, a quantity or a time does not.
bool HasFields(const google::protobuf::FieldDescriptor& field);

// Calls `visit` for each field that is set, that is to be told and does not have its harmless
// value. `path` begins with `path` and has names of list elements:
// "spec.containers[web].stdinOnce".
struct ToldField {
  std::string path;
  const FieldRule& rule;
  const google::protobuf::Message& parent;
};
void VisitTold(const FieldRules& rules, const google::protobuf::Message& object,
               const std::string& path, const std::function<void(const ToldField&)>& visit);

}  // namespace holdfast::agent::kube
