// SPDX-License-Identifier: Apache-2.0
// gRPC is there as long as somebody is connected.
#include <future>

#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

// The test's own client is in this process, too: its gRPC has to be gone before the server's can be.
class RestTest : public ApiFixture {
 protected:
  void SetUp() override {
    ApiFixture::SetUp();
    options_.rest = std::chrono::milliseconds(30);
  }

  static bool GrpcIsThere() {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      const std::string name = ReadText(task.path() / "comm");
      if (name.starts_with("grpc_") || name.starts_with("nexting_")) return true;
    }
    return false;
  }

  grpc::Status List(v1::NodeAgent::Stub& stub) {
    grpc::ClientContext context;
    v1::ListPodsResponse response;
    return stub.ListPods(&context, v1::ListPodsRequest(), &response);
  }
};

TEST_F(RestTest, ItGoesWithTheLastClientAndComesWithTheNext) {
  StartServer();
  EXPECT_TRUE(Eventually([] { return !GrpcIsThere(); }));
  for (int round = 0; round < 3; ++round) {
    auto stub = NewStub();
    EXPECT_TRUE(List(*stub).ok());
    EXPECT_TRUE(GrpcIsThere());
    stub.reset();
    EXPECT_TRUE(Eventually([] { return !GrpcIsThere(); })) << round;
  }
}

TEST_F(RestTest, AClientThatStaysKeepsIt) {
  StartServer();
  auto stub = NewStub();
  grpc::ClientContext context;
  auto watch = stub->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(watch->Read(&change));
  std::this_thread::sleep_for(10 * options_.rest);  // it would have gone
  pods_.SetPod(RunningPod("web-node1", "uid-web"));
  ASSERT_TRUE(watch->Read(&change));
  context.TryCancel();
  while (watch->Read(&change)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(RestTest, ACallThatGoesOnWithoutItsClientHoldsNobodyUp) {
  std::promise<void> release;
  std::atomic<bool> is_deleting = false;
  node_.delete_object = [&, released = release.get_future().share()](
                            const std::string& kind, const std::string& object_namespace,
                            const std::string& name) -> Result<EditedObject> {
    is_deleting = true;
    released.wait();
    return EditedObject{kind, object_namespace, name, "web.yaml", EditOutcome::kDeleted};
  };
  pods_.SetPod(RunningPod("web-node1", "uid-web"));
  StartServer();
  {
    auto stub = NewStub();
    grpc::ClientContext context;
    std::thread leaver([&] {
      EXPECT_TRUE(Eventually([&] { return is_deleting.load(); }));
      context.TryCancel();
    });
    v1::DeleteRequest request;
    request.set_namespace_("default");
    request.set_name("web-node1");
    v1::DeleteResponse response;
    EXPECT_EQ(stub->Delete(&context, request, &response).error_code(), grpc::StatusCode::CANCELLED);
    leaver.join();
  }
  for (int round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(3 * options_.rest);  // it would have gone
    EXPECT_TRUE(GrpcIsThere()) << round;
    EXPECT_TRUE(List(*NewStub()).ok()) << round;
  }
  release.set_value();
  EXPECT_TRUE(Eventually([] { return !GrpcIsThere(); }));
  EXPECT_TRUE(List(*NewStub()).ok());
}

TEST_F(RestTest, EveryCallIsAnsweredHoweverItMeetsTheRest) {
  options_.rest = std::chrono::milliseconds(1);
  StartServer();
  for (int i = 0; i < 300; ++i) {
    EXPECT_TRUE(List(*NewStub()).ok()) << i;
    // From "still there" over "just going" to "gone".
    std::this_thread::sleep_for(std::chrono::microseconds(100 * (i % 40)));
  }
}

TEST_F(RestTest, TheServerEndsWhileItGoes) {
  options_.rest = std::chrono::milliseconds(1);
  for (int i = 0; i < 40; ++i) {
    StartServer();
    EXPECT_TRUE(List(*NewStub()).ok()) << i;
    // The end meets each moment of its going.
    std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
    server_.reset();
  }
}

}  // namespace
}  // namespace holdfast::agent
