// SPDX-License-Identifier: Apache-2.0
// A pod's life between a make-believe API server and a make-believe runtime, with all that lies in between: source,
// registry, table, reporter.
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <mutex>

#include "agent/kube/codec.h"
#include "agent/report/api_pod_reporter.h"
#include "agent/source/api_pods.h"
#include "tests/fakes/fake_api.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/table_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

// The test's thread is the API thread; others only post.
class PumpedApi : public fakes::FakeApi {
 public:
  void Post(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  void Pump() {
    std::deque<std::function<void()>> posted;
    {
      const std::lock_guard lock(mutex_);
      posted.swap(posted_);
    }
    for (const auto& work : posted) work();
    Advance(tick);
  }
  std::chrono::milliseconds tick{0};  // how time goes by

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> posted_;
};

// What of the API server matters here: one pod, patched and deleted.
class Server {
 public:
  Server(PumpedApi& api, corev1::Pod pod) : api_(api), pod_(std::move(pod)) { Touch(); }

  const corev1::Pod& pod() const { return pod_; }
  bool gone() const { return gone_; }
  const std::vector<ApiVerb>& writes() const { return writes_; }

  void Delete(int64_t grace) {
    pod_.mutable_metadata()->mutable_deletiontimestamp()->set_seconds(4'000'000'000);
    pod_.mutable_metadata()->set_deletiongraceperiodseconds(grace);
    pod_.mutable_metadata()->set_generation(pod_.metadata().generation() + 1);
    Touch();
  }
  // Answers what waits; true when there was something.
  bool Serve() {
    const auto open = fakes::FakeApi::Open(api_.sent);
    for (const auto& call : open) {
      writes_.push_back(call->call.verb);
      if (call->call.verb == ApiVerb::kPatch) {
        Take(call->call.body);
        Touch();
      } else {
        gone_ = true;
      }
      ApiReply reply;
      reply.code = 200;
      reply.body = kube::EncodeEnvelope(pod_);
      api_.Answer(*call, reply);
    }
    return !open.empty();
  }

 private:
  void Touch() { pod_.mutable_metadata()->set_resourceversion(std::to_string(++version_)); }

  void Take(const std::string& patch) {
    auto object = kube::DecodeJson(patch, {"v1", "Pod"});
    ASSERT_TRUE(object) << object.error().message() << patch;
    auto fresh = *dynamic_cast<corev1::Pod*>(object->get());
    EXPECT_EQ(fresh.metadata().uid(), pod_.metadata().uid());
    corev1::PodStatus& status = *pod_.mutable_status();
    for (const corev1::PodCondition& condition : fresh.status().conditions()) {
      const auto known = std::ranges::find(*status.mutable_conditions(), condition.type(),
                                           [](const corev1::PodCondition& c) { return c.type(); });
      corev1::PodCondition& mine =
          known != status.mutable_conditions()->end() ? *known : *status.add_conditions();
      // "null" takes a text away; it comes out of the decoding as an absent one.
      if (condition.has_status()) {
        mine.clear_reason();
        mine.clear_message();
      }
      mine.MergeFrom(condition);
    }
    fresh.mutable_status()->clear_conditions();
    if (fresh.status().containerstatuses_size() > 0) status.clear_containerstatuses();
    if (fresh.status().podips_size() > 0) status.clear_podips();
    if (fresh.status().hostips_size() > 0) status.clear_hostips();
    status.MergeFrom(fresh.status());
  }

  PumpedApi& api_;
  corev1::Pod pod_;
  uint64_t version_ = 0;
  bool gone_ = false;
  std::vector<ApiVerb> writes_;
};

class ApiPodLifeTest : public PodTableTest {
 protected:
  void Start(Server& server) {
    node_.reset();
    registry_ = nullptr;
    pods_.reset();
    reporter_ = std::make_unique<LateReporter>();
    node_ =
        std::make_unique<Node>(instance_, runtime_, images_, network_, source_, clock_, options_,
                               offer_, std::set<PodOrigin>{PodOrigin::kApi}, reporter_.get());
    registry_ = &node_->registry;
    reporter_->Open(api_, *registry_);
    pods_ = std::make_unique<ApiPods>(
        *registry_, ApiPodsCallbacks{.log = [](const std::string& line) { ADD_FAILURE() << line; },
                                     .seen = [this](const PodUid& uid) { reporter_->Look(uid); }});
    pods_->ListBegins();
    Watch(server);
    pods_->ListEnds();
  }
  void TearDown() override {
    node_.reset();
    PodTableTest::TearDown();
  }
  void Watch(const Server& server) {
    kube::ObjectPtr object = kube::NewObject({"v1", "Pod"});
    object->CopyFrom(server.pod());
    server.gone() ? pods_->Gone(std::move(object)) : pods_->Put(std::move(object));
  }
  // Until `done`; the watch says what each write made.
  bool Play(Server& server, const std::function<bool()>& done) {
    return Eventually([&] {
      api_.Pump();
      if (server.Serve()) Watch(server);
      return done();
    });
  }
  // The node is made with its reporter, which is made with the node's registry. Before that reports wait.
  class LateReporter : public PodReporter {
   public:
    void Open(Api& api, const PodRegistry& registry) {
      const std::lock_guard lock(mutex_);
      real_ = std::make_unique<ApiPodReporter>(
          api, [&registry](const PodUid& uid) { return registry.Find(uid); },
          [](const std::string& line) { ADD_FAILURE() << line; });
      for (PodReport& report : early_) real_->Report(std::move(report));
    }
    void Report(PodReport report) override {
      const std::lock_guard lock(mutex_);
      if (real_ == nullptr) return early_.push_back(std::move(report));
      real_->Report(std::move(report));
    }
    void Forget(const PodUid& uid) override { real_->Forget(uid); }
    void Look(const PodUid& uid) { real_->Look(uid); }

   private:
    std::mutex mutex_;
    std::vector<PodReport> early_;
    std::unique_ptr<ApiPodReporter> real_;
  };

  PumpedApi api_;
  PodRegistry* registry_ = nullptr;
  std::unique_ptr<LateReporter> reporter_;
  std::unique_ptr<ApiPods> pods_;
};

corev1::Pod ApiPod() {
  corev1::Pod pod = MakePod("u1");
  pod.mutable_metadata()->set_generation(1);
  pod.mutable_status()->set_phase("Pending");
  pod.mutable_status()->set_qosclass("BestEffort");
  corev1::PodCondition* scheduled = pod.mutable_status()->add_conditions();
  scheduled->set_type("PodScheduled");
  scheduled->set_status("True");
  return pod;
}

// Time stands still: what is not urgent is gathered.
TEST_F(ApiPodLifeTest, IsThreeWrites) {
  Server server(api_, ApiPod());
  Start(server);
  ASSERT_TRUE(Play(server, [&] { return server.pod().status().phase() == "Running"; }));
  EXPECT_EQ(server.pod().status().observedgeneration(), 1);
  EXPECT_EQ(server.pod().status().podip(), "10.88.0.2");
  server.Delete(30);
  Watch(server);
  ASSERT_TRUE(Play(server, [&] { return server.gone(); }));
  EXPECT_EQ(server.pod().status().phase(), "Failed");
  EXPECT_EQ(server.pod().status().observedgeneration(), 2);
  EXPECT_EQ(server.pod().status().containerstatuses(0).state().terminated().exitcode(), 143);
  ASSERT_TRUE(Play(server, [&] { return node_->Phase("web") == "gone"; }));
  EXPECT_EQ(server.writes(), (std::vector{ApiVerb::kPatch, ApiVerb::kPatch, ApiVerb::kDelete}));
  EXPECT_TRUE(std::filesystem::is_empty(instance_.PodsDir()));
}

TEST_F(ApiPodLifeTest, ARestartOfTheAgentIsNotHeardOf) {
  api_.tick = std::chrono::milliseconds(5);
  Server server(api_, ApiPod());
  Start(server);
  const auto ready = [&] {
    for (const auto& condition : server.pod().status().conditions()) {
      if (condition.type() == "Ready") return condition.status() == "True";
    }
    return false;
  };
  ASSERT_TRUE(Play(server, ready));
  for (int i = 0; i < 40; ++i) (void)Play(server, [] { return true; });
  const size_t writes = server.writes().size();
  for (int round = 0; round < 3; ++round) {
    Start(server);
    for (int i = 0; i < 20; ++i) {
      (void)Play(server, [] { return true; });
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  EXPECT_EQ(server.writes().size(), writes);
  EXPECT_EQ(runtime_.StartCount(), 1u);
}

}  // namespace
}  // namespace holdfast::agent
