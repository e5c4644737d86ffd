// SPDX-License-Identifier: Apache-2.0
#include "agent/report/pod_calls.h"

#include <charconv>

#include "agent/cluster/api_objects.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"

namespace holdfast::agent {

uint64_t VersionOf(const corev1::Pod& pod) {
  const std::string& text = pod.metadata().resourceversion();
  uint64_t version = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), version);  // 0: none that is known
  return version;
}

std::string PathOf(const corev1::Pod& pod) {
  return StrCat("/api/v1/namespaces/", pod.metadata().namespace_(), "/pods/",
                pod.metadata().name());
}

ApiCall DeleteNow(const std::string& path, const PodUid& uid) {
  return {.verb = ApiVerb::kDelete,
          .path = path,
          .content_type = kJsonType,
          .body = StrCat(R"({"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,)",
                         R"("preconditions":{"uid":")", uid.value, R"("}})"),
          .lane = ApiLane::kPods,
          .repeatable = true};
}

PodPtr PodIn(const ApiReply& reply) {
  auto object = DecodeObject(reply.body, {"v1", "Pod"});
  if (!object) return nullptr;
  const std::shared_ptr<corev1::Pod> pod(static_cast<corev1::Pod*>(object->release()));
  pod->clear_spec();
  return pod;
}

bool IsPassing(const ApiReply& reply) {
  return reply.code == 408 || reply.code == 429 || reply.code >= 500;
}

bool IsOfAnother(const ApiReply& reply) {
  return reply.code == 409 && reply.message.find("UID in precondition") != std::string::npos;
}

}  // namespace holdfast::agent
