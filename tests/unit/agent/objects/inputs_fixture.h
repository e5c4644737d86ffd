// SPDX-License-Identifier: Apache-2.0
// ApiPodInputs on an API server and a clock that the test plays by hand.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/codec.h"
#include "agent/kube/times.h"
#include "agent/objects/api_pod_inputs.h"
#include "agent/objects/references.h"
#include "k8s/authentication/v1/token.pb.h"
#include "k8s/core/v1/config.pb.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/fakes/fake_api.h"

namespace holdfast::agent {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The time of the fake API's timers, from a date on; `offset` is a clock that is set.
class ApiClock : public Clock {
 public:
  explicit ApiClock(const fakes::FakeApi& api) : api_(api) {}
  BootTime Boot() const override { return {api_.now}; }
  WallTime Wall() const override { return {seconds(1'800'000'000) + api_.now + offset}; }

  seconds offset{0};

 private:
  const fakes::FakeApi& api_;
};

class InputsTest : public testing::Test {
 protected:
  void Begin(size_t most_watches = 300) {
    ApiPodInputsOptions options;
    options.most_watches = most_watches;
    inputs = std::make_unique<ApiPodInputs>(api, clock, options);
    inputs->SetListener([this](const PodUid& uid) { told.push_back(uid.value); });
  }

  static std::shared_ptr<const corev1::Pod> Pod(const std::string& uid, const std::string& spec) {
    auto pod = std::make_shared<corev1::Pod>();
    pod->mutable_metadata()->set_namespace_("ns");
    pod->mutable_metadata()->set_name("pod-" + uid);
    pod->mutable_metadata()->set_uid(uid);
    pod->mutable_spec()->set_serviceaccountname("sa");
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.MergeFromString(spec, pod->mutable_spec()));
    return pod;
  }
  static std::string MapVolume(const std::string& name) {
    return "volumes { name: '" + name +
           "' volumeSource { configMap { localObjectReference { name: '" + name + "' } } } }";
  }
  static std::string MapEnvironment(const std::string& name) {
    return "containers { name: 'c' envFrom { configMapRef { localObjectReference { name: '" + name +
           "' } } } }";
  }
  void Acquire(const std::string& uid, const std::string& spec) {
    inputs->Acquire(Pod(uid, spec));
    api.RunPosted();
  }
  void Release(const std::string& uid) {
    inputs->Release(PodUid(uid));
    api.RunPosted();
  }

  // --- the server ---

  static corev1::ConfigMap Map(const std::string& name, const std::string& version,
                               const std::string& value) {
    corev1::ConfigMap map;
    map.mutable_metadata()->set_namespace_("ns");
    map.mutable_metadata()->set_name(name);
    map.mutable_metadata()->set_uid("uid-of-" + name);
    map.mutable_metadata()->set_resourceversion(version);
    (*map.mutable_data())["key"] = value;
    return map;
  }
  static ApiReply Reply(const google::protobuf::Message& object, int code = 200) {
    ApiReply reply;
    reply.code = code;
    reply.body = kube::EncodeEnvelope(object);
    return reply;
  }
  static ApiReply Refusal(int code, const std::string& message) {
    ApiReply reply;
    reply.code = code;
    reply.message = message;
    return reply;
  }
  static ApiReply TooEarly() {
    return Refusal(403, "no relationship found between node 'n1' and this object");
  }
  ApiReply TokenReply(const std::string& token, seconds life) {
    k8s::io::api::authentication::v1::TokenRequest request;
    request.mutable_status()->set_token(token);
    kube::SetTime(clock.Wall() + life, request.mutable_status()->mutable_expirationtimestamp());
    return Reply(request, 201);
  }

  size_t Questions() { return fakes::FakeApi::Open(api.sent).size(); }
  fakes::FakeApi::Call& Question() {
    const auto open = fakes::FakeApi::Open(api.sent);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  void Answer(ApiReply reply) { api.Answer(Question(), std::move(reply)); }
  size_t Watches() { return fakes::FakeApi::Open(api.watches).size(); }
  // (Where there is an object it begins a second later.)
  fakes::FakeApi::Call& Watch() {
    if (Watches() == 0) api.Advance(std::chrono::seconds(1));
    const auto open = fakes::FakeApi::Open(api.watches);
    EXPECT_EQ(open.size(), 1u);
    return *open.back();
  }
  void WatchSays(const std::string& type, const corev1::ConfigMap& map) {
    api.Send(Watch(), type, kube::EncodeEnvelope(map));
  }
  void WatchListEnds(const std::string& version) {
    corev1::ConfigMap bookmark;
    bookmark.mutable_metadata()->set_resourceversion(version);
    (*bookmark.mutable_metadata()->mutable_annotations())["k8s.io/initial-events-end"] = "true";
    WatchSays("BOOKMARK", bookmark);
  }
  // How long until something is asked, at most `limit`.
  milliseconds UntilAsked(milliseconds limit, milliseconds step = milliseconds(1)) {
    const auto from = api.now;
    while (Questions() == 0 && api.now - from < limit) api.Advance(step);
    return api.now - from;
  }

  // --- what is known ---

  ObjectInput Object(const std::string& uid, const std::string& name) {
    return inputs->Object(PodUid(uid), {ObjectKind::kConfigMap, "ns", name});
  }
  // "present v1", "absent: …", "pending".
  std::string Seen(const std::string& uid, const std::string& name) {
    const ObjectInput input = Object(uid, name);
    EXPECT_EQ(input.data != nullptr, input.state == InputState::kPresent);
    switch (input.state) {
      case InputState::kPending:
        return "pending";
      case InputState::kPresent:
        return "present " + input.data->values.at("key");
      case InputState::kAbsent:
        return "absent: " + input.why;
      case InputState::kUnavailable:
        break;
    }
    return "unavailable: " + input.why;
  }
  uint64_t Version(const std::string& uid) { return inputs->VersionOf(PodUid(uid)); }
  std::vector<std::string> Told() { return std::exchange(told, {}); }

  fakes::FakeApi api;
  ApiClock clock{api};
  std::vector<std::string> told;
  std::unique_ptr<ApiPodInputs> inputs;
};

}  // namespace holdfast::agent
