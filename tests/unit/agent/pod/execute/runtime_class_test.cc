// SPDX-License-Identifier: Apache-2.0
// Pods of an API server that name a class of runtime.
#include <gtest/gtest.h>

#include "agent/objects/object_requests.h"
#include "k8s/node/v1/runtime_class.pb.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/served_pods_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

class ClassedPodsTest : public ServedPodsTest {
 protected:
  void SetUp() override {
    ServedPodsTest::SetUp();
    node_->services.node = [] {
      auto node = std::make_shared<NodeEnvironment>();
      node->node_name = "n1";
      node->runtime_handlers = {"runc"};
      return node;
    };
    Class("plain", "runc");
    Class("vm", "kata");
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
    ServedPodsTest::Put(pod);
  }
  std::vector<std::string> Failures() const {
    std::vector<std::string> found;
    for (const EventPtr& event : node_->view.ListEvents()) {
      if (event->reason() == "FailedCreatePodSandBox") found.push_back(event->message());
    }
    return found;
  }
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
