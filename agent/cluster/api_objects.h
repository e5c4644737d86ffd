// SPDX-License-Identifier: Apache-2.0
// What an API server's bytes hold: objects, pages of lists, refusals. Pure; thread-safe. The bytes are untrusted; whether
// they are an envelope or JSON is read from them, never from what was asked for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/cluster/api.h"
#include "agent/kube/scheme.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// The object, without managedFields. `expected` is what it is when the bytes do not say; another kind than that is
// kInvalidArgument.
Result<kube::ObjectPtr> DecodeObject(std::string_view bytes, const kube::TypeMeta& expected);

struct ObjectPage {
  std::vector<kube::ObjectPtr> items;
  std::string version;  // of the whole list
  std::string next;     // the token of the next page; "" after the last one
};
Result<ObjectPage> DecodePage(std::string_view bytes, const kube::TypeMeta& item);

// Which object it is, and in which state.
struct ObjectMark {
  std::string object_namespace, name, uid, version;
  bool ends_list = false;  // of a bookmark: what was there before has been sent
};
ObjectMark MarkOf(const google::protobuf::Message& object);
// True when resourceVersion `a` is of an older state than `b`, as far as versions tell: numbers of any length.
bool IsOlder(const std::string& a, const std::string& b);
// An object of that kind with nothing else; `type` is known.
kube::ObjectPtr BareObject(const kube::TypeMeta& type, const ObjectMark& mark);

// What makes an object, or asks a question in the shape of one, at `path`.
ApiCall PostOf(std::string path, const google::protobuf::Message& object);

// The Status in a watch's ERROR event, as the refusal that it is.
ApiReply RefusalOf(std::string_view status);

// How much of a refusal's text is told.
inline constexpr size_t kMostOfAMessage = 300;
// "POST /api/v1/nodes: the API server says 403 Forbidden: …". `what` names the call.
Error ErrorOf(const ApiReply& reply, const std::string& what);

}  // namespace holdfast::agent
