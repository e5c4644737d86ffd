// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/reply.h"

#include <algorithm>
#include <charconv>

#include "agent/kube/codec.h"
#include "agent/kube/parse.h"
#include "k8s/meta/v1/status.pb.h"

namespace holdfast::agent {
namespace {

namespace metav1 = k8s::io::apimachinery::pkg::apis::meta::v1;

constexpr size_t kExcerpt = 200;
constexpr std::chrono::hours kLongestWait{1};

std::optional<std::chrono::seconds> ToSeconds(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0) return std::nullopt;
  return std::min(std::chrono::seconds(count), std::chrono::seconds(kLongestWait));
}

std::string Excerpt(std::string_view body) {
  std::string out(body.substr(0, kExcerpt));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = ' ';
  }
  return out;
}

// Retry-After of the header wins over the details'.
void SetRetryAfter(std::string_view text, ApiReply& reply) {
  if (!reply.retry_after) reply.retry_after = ToSeconds(text);
}

bool ReadProtobufStatus(ApiReply& reply) {
  const auto object = kube::DecodeEnvelope(reply.body, {"v1", "Status"});
  if (!object) return false;
  const auto* status = dynamic_cast<const metav1::Status*>(object->get());
  if (status == nullptr) return false;
  reply.reason = status->reason();
  reply.message = status->message();
  if (const int32_t seconds = status->details().retryafterseconds(); seconds > 0) {
    SetRetryAfter(std::to_string(seconds), reply);
  }
  return true;
}

bool ReadJsonStatus(ApiReply& reply) {
  const kube::ParsedText parsed = kube::ParseJson(reply.body);
  if (!parsed.errors.empty() || parsed.documents.size() != 1) return false;
  const kube::Node& status = parsed.documents.front();
  const kube::Node* kind = status.Find("kind");
  if (kind == nullptr || kind->text != "Status") return false;
  if (const kube::Node* reason = status.Find("reason")) reply.reason = reason->text;
  if (const kube::Node* message = status.Find("message")) reply.message = message->text;
  const kube::Node* details = status.Find("details");
  const kube::Node* seconds = details != nullptr ? details->Find("retryAfterSeconds") : nullptr;
  if (seconds != nullptr) SetRetryAfter(seconds->text, reply);
  return true;
}

}  // namespace

bool IsOfType(std::string_view content_type, std::string_view type) {
  content_type = content_type.substr(0, content_type.find(';'));
  while (content_type.ends_with(' ')) content_type.remove_suffix(1);
  return content_type == type;
}

ApiReply ToApiReply(const runtime::http::ResponseHead& head, std::string body) {
  ApiReply reply;
  reply.code = head.status;
  reply.content_type = runtime::http::Find(head.headers, "content-type");
  reply.body = std::move(body);
  reply.retry_after = ToSeconds(runtime::http::Find(head.headers, "retry-after"));
  if (reply.ok()) return reply;
  bool read = false;
  if (IsOfType(reply.content_type, kProtobufType)) read = ReadProtobufStatus(reply);
  if (IsOfType(reply.content_type, kJsonType)) read = ReadJsonStatus(reply);
  if (!read) reply.message = Excerpt(reply.body);
  return reply;
}

}  // namespace holdfast::agent
