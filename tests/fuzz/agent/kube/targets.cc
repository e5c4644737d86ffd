// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/agent/kube/targets.h"

#include <string>

#include "agent/kube/codec.h"
#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/pod_identity.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/quantity.h"
#include "agent/kube/times.h"
#include "agent/kube/validation/validate.h"
#include "holdfast/base/base64.h"
#include "k8s/core/v1/pod.pb.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::agent::kube::fuzz {
namespace {

using holdfast::fuzz::Require;

void CheckPod(ManifestObject& object) {
  auto* pod = object.As<corev1::Pod>();
  if (pod == nullptr) return;
  (void)ToDiagnostics(ValidatePod(*pod), object);
  (void)ToDiagnostics(ValidateStaticPod(*pod), object);
  (void)ComputeQosClass(pod->spec());
  (void)PodLimits(pod->spec());
  for (const corev1::Container& container : pod->spec().containers()) {
    (void)OomScoreAdjust(*pod, container, int64_t{1} << 33);
  }
  corev1::Pod copy = *pod;
  MakeStaticPod(&copy, "node", "/m.yaml");
}

void CheckPrinted(const google::protobuf::Message& object) {
  const std::string expected = EncodeJson(object);
  for (const std::string& text : {PrintYaml(object), PrintJson(object)}) {
    const Manifest again = ReadManifest("again", text);
    Require(again.ok(), "what is printed can be read", text + ToString(again.diagnostics));
    Require(again.objects.size() == 1, "one object stays one", text);
    Require(EncodeJson(*again.objects[0].object) == expected, "printing keeps the value", text);
  }
}

}  // namespace

void FuzzManifest(std::string_view input) {
  Manifest manifest = ReadManifest("fuzz", input);
  for (const Diagnostic& diagnostic : manifest.diagnostics) {
    Require(diagnostic.at.line > 0 && diagnostic.at.column > 0, "each error has a place",
            diagnostic.ToString());
  }
  for (ManifestObject& object : manifest.objects) {
    SetDefaults(object.object.get());
    CheckPod(object);
    // An object near the limits may grow beyond them when its defaults are printed.
    if (input.size() < 100'000) CheckPrinted(*object.object);
  }
}

void FuzzEnvelope(std::string_view input) {
  const std::string bytes = std::string("k8s\0", 4) + std::string(input);
  const TypeMeta pod{"v1", "Pod"};
  auto object = DecodeEnvelope(bytes, pod);
  if (!object.has_value()) return;
  const std::string json = EncodeJson(**object);
  (void)PrintYaml(**object);
  (void)DecodeJson(json, pod);
  auto again = DecodeEnvelope(EncodeEnvelope(**object), pod);
  Require(again.has_value(), "what is encoded can be decoded", json);
  Require(EncodeJson(**again) == json, "encoding keeps the value", json);
}

void FuzzQuantity(std::string_view input) {
  if (const auto amount = Amount::Parse(input); amount.has_value()) {
    // A binary amount that no suffix divides is a plain number, which is read as a decimal one, as in Kubernetes:
    // 1.953125Ki, 2000, 2k.
    const auto again = Amount::Parse(amount->ToString());
    Require(again.has_value(), "canonical text is read", input);
    const std::string text = again->ToString();
    const auto third = Amount::Parse(text);
    Require(third.has_value() && *third == *again && third->ToString() == text,
            "canonical text is stable", text);
    (void)(*amount + *again).Milli();
  }
  if (const auto time = ParseRfc3339(input)) {
    const std::string text = FormatRfc3339(*time, 9);
    if (text.size() == 30) Require(ParseRfc3339(text).has_value(), "times are read back", text);
  }
  if (const auto duration = ParseDuration(input)) {
    const std::string text = FormatDuration(*duration);
    Require(ParseDuration(text) == duration, "durations are read back", text);
  }
  if (const auto bytes = DecodeBase64(input)) {
    Require(DecodeBase64(EncodeBase64(*bytes)) == bytes, "base64 is read back", *bytes);
  }
}

}  // namespace holdfast::agent::kube::fuzz
