// SPDX-License-Identifier: Apache-2.0
// Pods and events: lists, watches and their bounds.
#include "tests/unit/agent/api/grpc/server_fixture.h"

namespace holdfast::agent {
namespace {

using grpc::StatusCode;

using WatchTest = ServerFixture;

TEST_F(WatchTest, ListsAndGetsPods) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  pods_.SetPod(RunningPod("db", "uid-db"));
  grpc::ClientContext list;
  v1::ListPodsRequest request;
  request.set_label_selector("app!=db");
  v1::ListPodsResponse response;
  ASSERT_TRUE(stub_->ListPods(&list, request, &response).ok());
  ASSERT_EQ(response.pods_size(), 1);
  EXPECT_EQ(response.pods(0).metadata().name(), "web");
  EXPECT_EQ(response.pods(0).spec().containers(0).env(0).value(), "secret");

  grpc::ClientContext get;
  v1::GetPodRequest one;
  one.set_namespace_("default");
  one.set_name("gone");
  k8s::io::api::core::v1::Pod pod;
  const grpc::Status status = stub_->GetPod(&get, one, &pod);
  EXPECT_EQ(status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "pods \"gone\" not found");

  grpc::ClientContext bad;
  request.set_label_selector("=");
  EXPECT_EQ(stub_->ListPods(&bad, request, &response).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(WatchTest, WatchBeginsWithWhatIsThereAndABookmark) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto reader = stub_->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::ADDED);
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::BOOKMARK);
  pods_.SetPod(RunningPod("web", "uid-web"));
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::MODIFIED);
  pods_.RemovePod("uid-web");
  ASSERT_TRUE(reader->Read(&change));
  EXPECT_EQ(change.type(), v1::DELETED);
  EXPECT_EQ(change.pod().metadata().name(), "web");
  context.TryCancel();
  EXPECT_FALSE(reader->Read(&change));
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(WatchTest, SlowWatcherGetsTheLastStateAndDelaysNobody) {
  pods_.SetPod(RunningPod("web", "uid-web"));
  grpc::ClientContext context;
  const auto reader = stub_->WatchPods(&context, v1::WatchPodsRequest());
  v1::PodChange change;
  ASSERT_TRUE(reader->Read(&change));
  // Nobody reads; far more than any flow-control window.
  auto pod = RunningPod("web", "uid-web");
  (*pod.mutable_metadata()->mutable_annotations())["big"] = std::string(16 * 1024, 'x');
  constexpr int kChanges = 3000;
  for (int i = 1; i <= kChanges; ++i) {
    pod.mutable_metadata()->set_generation(i);
    pods_.SetPod(pod);
  }
  int messages = 0;
  while (change.pod().metadata().generation() != kChanges) {
    ASSERT_TRUE(reader->Read(&change));
    ++messages;
  }
  EXPECT_LT(messages, kChanges / 2);
  context.TryCancel();
}

TEST_F(WatchTest, ManyWatchersAllSeeAChange) {
  constexpr int kConnections = 10;
  constexpr int kPerConnection = 100;
  struct Watcher {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::PodChange>> reader;
  };
  std::vector<std::unique_ptr<v1::NodeAgent::Stub>> stubs;
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < kConnections; ++i) {
    stubs.push_back(NewStub());
    for (int j = 0; j < kPerConnection; ++j) {
      watchers.push_back(std::make_unique<Watcher>());
      watchers.back()->reader = stubs.back()->WatchPods(&watchers.back()->context, {});
    }
  }
  for (const auto& watcher : watchers) {
    v1::PodChange change;
    ASSERT_TRUE(watcher->reader->Read(&change));
    ASSERT_EQ(change.type(), v1::BOOKMARK);
  }
  pods_.SetPod(RunningPod("web", "uid-web"));
  for (const auto& watcher : watchers) {
    v1::PodChange change;
    ASSERT_TRUE(watcher->reader->Read(&change));
    EXPECT_EQ(change.type(), v1::ADDED);
  }
  for (const auto& watcher : watchers) watcher->context.TryCancel();
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(WatchTest, WatcherWithTooManyUnreadObjectsIsEnded) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto reader = stub_->WatchEvents(&context, v1::WatchEventsRequest());
  v1::EventChange change;
  ASSERT_TRUE(reader->Read(&change));  // the bookmark
  k8s::io::api::core::v1::Event event;
  event.set_message(std::string(2000, 'm'));
  for (int i = 0; i < 12'000; ++i) {
    event.mutable_metadata()->set_name("e" + std::to_string(i));
    pods_.AddEvent(event);
  }
  int messages = 0;
  while (reader->Read(&change)) ++messages;
  EXPECT_LT(messages, 12'000);
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Eventually([&] { return pods_.watchers() == 0; }));
}

TEST_F(WatchTest, ListsEventsOfAnObject) {
  for (const char* name : {"web", "db"}) {
    k8s::io::api::core::v1::Event event;
    event.mutable_metadata()->set_name(name);
    event.mutable_metadata()->set_namespace_("default");
    event.mutable_involvedobject()->set_name(name);
    pods_.AddEvent(event);
  }
  grpc::ClientContext context;
  v1::ListEventsRequest request;
  request.set_involved_name("db");
  v1::ListEventsResponse response;
  ASSERT_TRUE(stub_->ListEvents(&context, request, &response).ok());
  ASSERT_EQ(response.events_size(), 1);
  EXPECT_EQ(response.events(0).metadata().name(), "db");
}

}  // namespace
}  // namespace holdfast::agent
