// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/api_objects.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <utility>

#include "agent/cluster/managed_fields.h"
#include "agent/kube/codec.h"
#include "agent/kube/diagnostic.h"
#include "holdfast/base/ascii.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/node.pb.h"  // clang-tidy would take kube::Node for this one, which is declared only
#include "k8s/meta/v1/meta.pb.h"
#include "k8s/meta/v1/status.pb.h"

namespace holdfast::agent {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr std::string_view kMagic{"k8s\0", 4};
constexpr char kEndOfList[] = "k8s.io/initial-events-end";

Result<kube::ObjectPtr> Decode(std::string_view bytes, const kube::TypeMeta& expected,
                               EnvelopeHolds holds) {
  auto object = bytes.starts_with(kMagic)
                    ? kube::DecodeEnvelope(WithoutManagedFields(bytes, holds), expected)
                    : kube::DecodeJson(bytes, expected);
  if (!object) return object;
  const kube::TypeMeta type = kube::TypeMetaOf(**object);
  if (type == expected) return object;
  return InvalidArgument(StrCat("decode: expected a ", expected.kind, ", got ", type.kind));
}

// nullptr where a message has none of that type.
template <class Meta>
Meta* MutableMeta(Message& object) {
  const FieldDescriptor* field = object.GetDescriptor()->FindFieldByName("metadata");
  if (field == nullptr || field->message_type() != Meta::descriptor()) return nullptr;
  return static_cast<Meta*>(object.GetReflection()->MutableMessage(&object, field));
}

const metav1::ObjectMeta& MetaOf(const Message& object) {
  const FieldDescriptor* field = object.GetDescriptor()->FindFieldByName("metadata");
  if (field == nullptr || field->message_type() != metav1::ObjectMeta::descriptor()) {
    return metav1::ObjectMeta::default_instance();
  }
  return static_cast<const metav1::ObjectMeta&>(object.GetReflection()->GetMessage(object, field));
}

bool IsVersion(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, IsDigit);
}

// JSON still has them: it is parsed as a whole.
void ClearManagedFields(Message& object) {
  if (auto* meta = MutableMeta<metav1::ObjectMeta>(object)) meta->clear_managedfields();
}

Code CodeOf(int status) {
  switch (status) {
    case 400:
    case 405:
    case 406:
    case 413:
    case 415:
    case 422:
      return Code::kInvalidArgument;
    case 403:
      return Code::kPermissionDenied;
    case 404:
    case 410:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 429:
      return Code::kResourceExhausted;
    default:
      return Code::kUnavailable;
  }
}

}  // namespace

Result<kube::ObjectPtr> DecodeObject(std::string_view bytes, const kube::TypeMeta& expected) {
  auto object = Decode(bytes, expected, EnvelopeHolds::kObject);
  if (object) ClearManagedFields(**object);
  return object;
}

Result<ObjectPage> DecodePage(std::string_view bytes, const kube::TypeMeta& item) {
  ASSIGN_OR_RETURN(const kube::ObjectPtr list,
                   Decode(bytes, {item.api_version, item.kind + "List"}, EnvelopeHolds::kList));
  ObjectPage page;
  if (const auto* meta = MutableMeta<metav1::ListMeta>(*list)) {
    page.version = meta->resourceversion();
    page.next = meta->continue_();
  }
  const FieldDescriptor* items = list->GetDescriptor()->FindFieldByName("items");
  const auto* reflection = list->GetReflection();
  while (reflection->FieldSize(*list, items) > 0) {
    page.items.emplace_back(reflection->ReleaseLast(list.get(), items));
    ClearManagedFields(*page.items.back());
  }
  std::reverse(page.items.begin(), page.items.end());
  return page;
}

ObjectMark MarkOf(const Message& object) {
  const metav1::ObjectMeta& meta = MetaOf(object);
  const auto end = meta.annotations().find(kEndOfList);
  return {meta.namespace_(), meta.name(), meta.uid(), meta.resourceversion(),
          end != meta.annotations().end() && end->second == "true"};
}

bool IsOlder(const std::string& a, const std::string& b) {
  if (!IsVersion(a) || !IsVersion(b)) return false;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

kube::ObjectPtr BareObject(const kube::TypeMeta& type, const ObjectMark& mark) {
  kube::ObjectPtr object = kube::NewObject(type);
  if (auto* meta = MutableMeta<metav1::ObjectMeta>(*object)) {
    if (!mark.object_namespace.empty()) meta->set_namespace_(mark.object_namespace);
    meta->set_name(mark.name);
    meta->set_uid(mark.uid);
    meta->set_resourceversion(mark.version);
  }
  return object;
}

ApiReply RefusalOf(std::string_view status) {
  ApiReply reply;
  reply.code = 500;
  const auto decoded = Decode(status, {"v1", "Status"}, EnvelopeHolds::kObject);
  if (!decoded) {
    reply.message = decoded.error().message();
    return reply;
  }
  const auto& said = static_cast<const metav1::Status&>(**decoded);
  if (said.code() != 0) reply.code = said.code();
  reply.reason = said.reason();
  reply.message = said.message();
  if (said.details().retryafterseconds() > 0) {
    reply.retry_after = std::chrono::seconds(said.details().retryafterseconds());
  }
  return reply;
}

ApiCall PostOf(std::string path, const google::protobuf::Message& object) {
  ApiCall call;
  call.verb = ApiVerb::kPost;
  call.path = std::move(path);
  call.content_type = kProtobufType;
  call.body = kube::EncodeEnvelope(object);
  return call;
}

Error ErrorOf(const ApiReply& reply, const std::string& what) {
  const std::string& said = reply.message.empty() ? reply.body : reply.message;
  const Code code = reply.reason == "AlreadyExists" ? Code::kAlreadyExists : CodeOf(reply.code);
  return {code, StrCat(what, ": the API server says ", reply.code, reply.reason.empty() ? "" : " ",
                       reply.reason, ": ", kube::Quoted(said, kMostOfAMessage))};
}

}  // namespace holdfast::agent
