// SPDX-License-Identifier: Apache-2.0
// A pod table whose pods come from an API server, whose objects are make-believe.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "agent/source/api_pods.h"
#include "tests/fakes/fake_pod_inputs.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {

class ServedPodsTest : public PodTableTest {
 protected:
  void SetUp() override {
    PodTableTest::SetUp();
    source_.Set({});
    node_.reset();
    node_ =
        std::make_unique<Node>(instance_, runtime_, images_, network_, source_, clock_, options_,
                               offer_, std::set<PodOrigin>{PodOrigin::kFile, PodOrigin::kApi});
    node_->services.inputs = &inputs_;
    api_ = std::make_unique<ApiPods>(
        node_->registry,
        ApiPodsCallbacks{.log = [](const std::string& line) { ADD_FAILURE() << line; }});
    api_->ListBegins();
    api_->ListEnds();
  }
  void TearDown() override {
    api_.reset();
    PodTableTest::TearDown();
  }
  void Put(const corev1::Pod& pod) {
    kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
    object->CopyFrom(pod);
    api_->Put(std::move(object));
  }

  fakes::FakePodInputs inputs_;
  std::unique_ptr<ApiPods> api_;
};

}  // namespace holdfast::agent
