// SPDX-License-Identifier: Apache-2.0
// Pods of an API server that name a class of runtime.
#include <gtest/gtest.h>

#include "agent/objects/object_requests.h"
#include "agent/source/api_pods.h"
#include "k8s/node/v1/runtime_class.pb.h"
#include "tests/fakes/fake_pod_inputs.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

class ClassedPodsTest : public PodTableTest {
 protected:
  void SetUp() override {
    PodTableTest::SetUp();
    source_.Set({});
    node_.reset();
    node_ =
        std::make_unique<Node>(instance_, runtime_, images_, network_, source_, clock_, options_,
                               offer_, std::set<PodOrigin>{PodOrigin::kFile, PodOrigin::kApi});
    node_->services.inputs = &inputs_;
    node_->services.node = [] {
      auto node = std::make_shared<NodeEnvironment>();
      node->node_name = "n1";
      node->runtime_handlers = {"runc"};
      return node;
    };
    Class("plain", "runc");
    Class("vm", "kata");
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
  void Class(const std::string& name, const std::string& handler) {
    auto object = std::make_shared<k8s::io::api::node::v1::RuntimeClass>();
    object->set_handler(handler);
    inputs_.objects[{ObjectKind::kRuntimeClass, "", name}] = {InputState::kPresent,
                                                              TakeData(std::move(object)), ""};
  }
  // Its name is that of its class.
  void Put(const std::string& name) {
    corev1::Pod pod = MakePod("uid-" + name);
    pod.mutable_metadata()->set_name(name);
    pod.mutable_spec()->set_runtimeclassname(name);
    kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
    object->CopyFrom(pod);
    api_->Put(std::move(object));
  }
  std::vector<std::string> Failures() const {
    std::vector<std::string> found;
    for (const EventPtr& event : node_->view.ListEvents()) {
      if (event->reason() == "FailedCreatePodSandBox") found.push_back(event->message());
    }
    return found;
  }

  fakes::FakePodInputs inputs_;
  std::unique_ptr<ApiPods> api_;
};

TEST_F(ClassedPodsTest, OneWhoseHandlerIsThisRuntimeRunsAndAnotherIsTold) {
  Put("asked");  // the server has not answered yet
  Put("vm");
  Put("plain");
  EXPECT_TRUE(Eventually([&] { return node_->Phase("plain") == "Running"; }));
  EXPECT_TRUE(Eventually([&] { return !Failures().empty(); }));
  EXPECT_EQ(Failures(), std::vector<std::string>{
                            "Failed to create pod sandbox: failed to get sandbox runtime: no "
                            "runtime for \"kata\" is configured"});
  EXPECT_EQ(node_->Phase("vm"), "Pending");
  EXPECT_EQ(node_->Phase("asked"), "Pending");
  EXPECT_EQ(runtime_.Count(), 2u) << "one sandbox, one container";
}

}  // namespace
}  // namespace holdfast::agent
