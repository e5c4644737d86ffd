// SPDX-License-Identifier: Apache-2.0
#include "agent/pod/spec/runtime_class.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "agent/objects/object_requests.h"
#include "agent/pod/spec/resources.h"
#include "k8s/node/v1/runtime_class.pb.h"
#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

namespace nodev1 = ::k8s::io::api::node::v1;

const std::vector<std::string> kHandlers = {"holdfast", "runc"};

class RuntimeClassTest : public testing::Test {
 protected:
  static corev1::Pod PodOf(const std::string& spec) {
    corev1::Pod pod;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(spec, pod.mutable_spec()));
    return pod;
  }
  static ObjectRef Class(const std::string& name) { return {ObjectKind::kRuntimeClass, "", name}; }

  void Put(const std::string& name, const std::string& handler) {
    auto object = std::make_shared<nodev1::RuntimeClass>();
    object->set_handler(handler);
    inputs_.objects[Class(name)] = {InputState::kPresent, TakeData(std::move(object)), ""};
  }
  // Why a pod of the class does not start; "": it does.
  std::string Why(const std::string& name) const {
    const auto checked =
        CheckRuntimeClass(PodOf("runtimeClassName: '" + name + "'"), inputs_, kHandlers);
    return checked ? "" : checked.error().message();
  }

  fakes::FakePodInputs inputs_;
};

TEST_F(RuntimeClassTest, AHandlerThatMeansThisRuntimeStarts) {
  Put("fast", "runc");
  Put("own", "holdfast");
  EXPECT_EQ(Why("fast"), "");
  EXPECT_EQ(Why("own"), "");
  EXPECT_EQ(Why(""), "");
}

TEST_F(RuntimeClassTest, AnotherHandlerIsToldAsContainerdDoes) {
  Put("vm", "kata");
  EXPECT_EQ(Why("vm"), "failed to get sandbox runtime: no runtime for \"kata\" is configured");
}

TEST_F(RuntimeClassTest, AClassThatIsNotThereOrCannotBeReadIsToldAsAKubeletDoes) {
  inputs_.PutAbsent(Class("gone"));
  EXPECT_EQ(Why("gone"), "runtimeclass.node.k8s.io \"gone\" not found");
  inputs_.objects[Class("hidden")] = {InputState::kUnavailable, nullptr, "forbidden"};
  EXPECT_EQ(Why("hidden"), "failed to lookup RuntimeClass hidden: forbidden");
}

TEST_F(RuntimeClassTest, OnlyAQuestionWithoutAnAnswerIsWaitedFor) {
  const auto is_pending = [this](const std::string& name) {
    return RuntimeClassIsPending(PodOf("runtimeClassName: '" + name + "'"), inputs_);
  };
  Put("fast", "runc");
  inputs_.PutAbsent(Class("gone"));
  EXPECT_TRUE(is_pending("asked"));
  EXPECT_FALSE(is_pending("fast"));
  EXPECT_FALSE(is_pending("gone"));
  EXPECT_FALSE(is_pending(""));
}

TEST_F(RuntimeClassTest, OverheadIsPartOfThePodsCgroup) {
  constexpr char kOverhead[] = R"(
    overhead { key: "cpu" value { string: "250m" } }
    overhead { key: "memory" value { string: "64Mi" } })";
  const auto amounts = [](const std::string& key, const std::string& cpu,
                          const std::string& memory) {
    return key + R"( { key: "cpu" value { string: ")" + cpu + R"(" } } )" + key +
           R"( { key: "memory" value { string: ")" + memory + R"(" } } )";
  };
  const auto of = [&](const std::string& resources) {
    return PodResources(
        PodOf("containers { name: 'c' resources { " + resources + " } }" + kOverhead), {});
  };
  const auto limited = of(amounts("requests", "1", "100Mi") + amounts("limits", "2", "200Mi"));
  EXPECT_EQ(limited.cpu_milli_request, 1250);
  EXPECT_EQ(limited.cpu_milli_limit, 2250);
  EXPECT_EQ(limited.memory_limit_bytes, 264 << 20);
  const auto free = of(amounts("requests", "1", "100Mi"));
  EXPECT_EQ(free.cpu_milli_request, 1250);
  EXPECT_EQ(free.cpu_milli_limit, std::nullopt) << "overhead alone limits nothing";
  EXPECT_EQ(free.memory_limit_bytes, std::nullopt);
  EXPECT_EQ(of("").cpu_milli_request, 0) << "BestEffort has the least share, as under a kubelet";
}

}  // namespace
}  // namespace holdfast::agent
