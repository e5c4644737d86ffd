// SPDX-License-Identifier: Apache-2.0
// A node's pod side for tests: the table with its workers and real state files, around a make-believe
// runtime.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "agent/pod/execute/pod_table.h"
#include "agent/pod/operate/pod_metrics.h"
#include "agent/source/file_pods.h"
#include "agent/view/pod_view_store.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/journal.h"
#include "tests/support/eventually.h"
#include "tests/support/own_mounts.h"
#include "tests/unit/agent/pod/execute/fakes.h"

namespace holdfast::agent {

inline corev1::Pod MakePod(const std::string& uid, const std::string& name = "web") {
  corev1::Pod pod;
  pod.mutable_metadata()->set_uid(uid);
  pod.mutable_metadata()->set_name(name);
  pod.mutable_metadata()->set_namespace_("default");
  pod.mutable_spec()->set_restartpolicy("Always");
  pod.mutable_spec()->set_dnspolicy("Default");
  pod.mutable_spec()->set_terminationgraceperiodseconds(30);
  corev1::Container* c = pod.mutable_spec()->add_containers();
  c->set_name("app");
  c->set_image("busybox:1");
  c->set_terminationmessagepath("/dev/termination-log");
  return pod;
}

inline NodeOffer Offer(const char* pods = "110") {
  NodeOffer offer;
  offer.name = "n1";
  offer.allocatable["pods"] = *kube::Amount::Parse(pods);
  return offer;
}

// What is on the disk of a pod; "": nothing.
inline std::string SavedRecord(const model::Instance& instance, const std::string& uid) {
  const auto opened = sys::Journal::Open(sys::OpenDir(instance.root_dir).value(), "pods.journal",
                                         sys::Journal::Lasting::kDisk);
  const auto record = opened->values.find(uid + "/record");
  return record == opened->values.end() ? "" : record->second;
}

// One agent's pod side; made again for a restart on the same files and the same runtime.
struct Node {
  Node(model::Instance instance, FakeRuntime& runtime, FakeImages& images, FakeNetwork& network,
       FakeSource& source, const Clock& clock, PodTableOptions options = {},
       NodeOffer offer = Offer(), std::set<PodOrigin> origins = {PodOrigin::kFile},
       PodReporter* reporter = nullptr)
      : admission([made = std::make_shared<const NodeOffer>(std::move(offer))] { return made; }),
        state_owned(PodStateStore::Open(instance).value()),
        state(*state_owned),
        view("n1", clock),
        services{runtime,
                 images,
                 network,
                 state,
                 view,
                 clock,
                 instance,
                 std::chrono::seconds(300),
                 [] {
                   auto node = std::make_shared<NodeEnvironment>();
                   node->node_name = "n1";
                   node->host_ips = {"192.0.2.1"};
                   return node;
                 },
                 [this](const std::string& line) {
                   const std::lock_guard lock(log_mutex);
                   log.push_back(line);
                 },
                 &admission,
                 reporter,
                 nullptr,
                 nullptr,
                 &images},
        registry(std::move(origins)),
        table(io, services, registry, options) {
    services.metrics = &metrics;
    const auto recovered = table.Recover();
    EXPECT_TRUE(recovered) << recovered.error().message();
    recovered_pods = view.ListPods();
    files = std::make_unique<FilePods>(source, registry);
    thread = std::thread([this] { io.run(); });
  }
  ~Node() {
    files.reset();
    io.stop();
    thread.join();
  }

  std::string Phase(const std::string& name) const {
    for (const PodPtr& pod : view.ListPods()) {
      if (pod->metadata().name() == name) return pod->status().phase();
    }
    return "gone";
  }

  bool Logged(const std::string& line) {
    const std::lock_guard lock(log_mutex);
    return std::find(log.begin(), log.end(), line) != log.end();
  }

  NodeAdmission admission;
  PodMetrics metrics;
  std::mutex log_mutex;
  std::vector<std::string> log;
  std::vector<PodPtr> recovered_pods;  // what the view showed when the table had not turned yet
  boost::asio::io_context io;
  std::unique_ptr<PodStateStore> state_owned;
  PodStateStore& state;
  PodViewStore view;
  PodServices services;
  PodRegistry registry;
  PodTable table;
  std::unique_ptr<FilePods> files;
  std::thread thread;
};

// The machine's clock, put forward by what a test lets take long.
class SlowableClock : public Clock {
 public:
  WallTime Wall() const override { return real_.Wall(); }
  BootTime Boot() const override { return real_.Boot() + std::chrono::milliseconds(passed_ms); }
  std::atomic<int64_t> passed_ms = 0;

 private:
  SystemClock real_;
};

// The files of pods are mounts.
inline const bool kOwnMounts = test::EnterOwnMountNamespace();

class PodTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/holdfast-pod-table-XXXXXX";
    top_ = ::mkdtemp(pattern);
    ASSERT_TRUE(kOwnMounts) << "kernel lacks unprivileged mount namespaces";
    instance_.root_dir = top_ + "/root";
    instance_.run_dir = top_ + "/run";
    std::filesystem::create_directories(instance_.PodFilesDir());
    instance_.pod_log_dir = top_ + "/log/pods";
    instance_.container_log_dir = top_ + "/log/containers";
    images_.Add("busybox:1");
    Boot();
  }
  void TearDown() override {
    node_.reset();
    test::UnmountEntries(instance_.PodFilesDir());
    std::filesystem::remove_all(top_);
  }
  void Boot() {
    node_.reset();
    node_ = std::make_unique<Node>(instance_, runtime_, images_, network_, source_, clock_,
                                   options_, offer_);
  }
  bool PhaseBecomes(const std::string& phase, const std::string& name = "web") {
    return test_support::Eventually([&] { return node_->Phase(name) == phase; });
  }
  std::vector<std::string> EventReasons() {
    std::vector<std::string> out;
    for (const EventPtr& event : node_->view.ListEvents()) out.push_back(event->reason());
    return out;
  }

  std::string top_;
  model::Instance instance_;
  SlowableClock clock_;
  PodTableOptions options_;
  NodeOffer offer_ = Offer();
  FakeRuntime runtime_{clock_};
  FakeImages images_;
  FakeNetwork network_;
  FakeSource source_;
  std::unique_ptr<Node> node_;
};

}  // namespace holdfast::agent
