// SPDX-License-Identifier: Apache-2.0
// FakePodInputs: objects and tokens that a test puts there; the same for every pod. What it did not put is pending.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/objects/pod_inputs.h"
#include "agent/objects/references.h"

namespace holdfast::fakes {

class FakePodInputs : public agent::PodInputs {
 public:
  void Acquire(std::shared_ptr<const agent::corev1::Pod> /*pod*/) override {}
  void Release(const PodUid& /*uid*/) override {}
  void Refresh(const PodUid& /*uid*/) override {}
  agent::ObjectInput Object(const PodUid& /*uid*/, const agent::ObjectRef& ref) const override {
    const auto found = objects.find(ref);
    return found == objects.end() ? agent::ObjectInput() : found->second;
  }
  agent::TokenInput Token(const PodUid& /*uid*/, const std::string& audience,
                          std::chrono::seconds life) const override {
    const auto found = tokens.find({audience, life});
    return found == tokens.end() ? agent::TokenInput() : found->second;
  }
  std::optional<std::vector<std::string>> ServiceVariables(const PodUid& /*uid*/,
                                                           const std::string& /*ns*/,
                                                           bool links) const override {
    return links ? all_services : api_service;
  }
  uint64_t VersionOf(const PodUid& /*uid*/) const override { return version; }
  void SetListener(std::function<void(const PodUid&)> /*changed*/) override {}

  // --- the test's side ---

  void Put(const agent::ObjectRef& ref, const std::map<std::string, std::string>& values,
           const std::vector<std::string>& binary = {}) {
    auto data = std::make_shared<agent::ObjectData>();
    data->values = values;
    data->binary.insert(binary.begin(), binary.end());
    objects[ref] = {agent::InputState::kPresent, std::move(data), ""};
  }
  void PutAbsent(const agent::ObjectRef& ref) {
    objects[ref] = {agent::InputState::kAbsent, nullptr, agent::NotFoundText(ref)};
  }
  void PutToken(const agent::TokenRef& ref, const std::string& token, WallTime expires = {}) {
    tokens[ref] = {agent::InputState::kPresent, std::make_shared<const std::string>(token), "",
                   expires};
  }

  std::map<agent::ObjectRef, agent::ObjectInput> objects;
  std::map<agent::TokenRef, agent::TokenInput> tokens;
  std::optional<std::vector<std::string>> all_services = std::vector<std::string>();
  std::optional<std::vector<std::string>> api_service = std::vector<std::string>();
  uint64_t version = 1;
};

}  // namespace holdfast::fakes
