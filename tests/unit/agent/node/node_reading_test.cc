// SPDX-License-Identifier: Apache-2.0
#include "agent/base/periodic_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "agent/pod/admit/node_admission.h"
#include "tests/support/eventually.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;

// Readings after the first wait at a gate, as statfs(2) does on a file system that hangs.
struct Gate {
  std::promise<void> opening;
  std::shared_future<void> open = opening.get_future().share();
  std::atomic<int> begun{0};

  std::shared_ptr<const NodeOffer> Read() {
    auto offer = std::make_shared<NodeOffer>();
    offer->name = ++begun == 1 ? "first" : "second";
    offer->allocatable["pods"] = kube::Amount::FromUnits(1);
    if (begun > 1) open.wait();
    return offer;
  }
};

TEST(PeriodicReaderTest, NobodyWaitsForAReadingThatHangs) {
  const auto gate = std::make_shared<Gate>();
  auto reader = PeriodicReader<NodeOffer>::Start(
      "test", [gate] { return gate->Read(); }, std::chrono::milliseconds(1));
  ASSERT_TRUE(reader) << reader.error().message();
  ASSERT_TRUE(Eventually([&] { return gate->begun == 2; }));
  NodeAdmission admission([&] { return (*reader)->Last(); });
  corev1::Pod pod;
  pod.mutable_metadata()->set_uid("a");
  auto admitted = std::async(std::launch::async, [&] { return admission.Admit(pod).admitted(); });
  const bool in_time = admitted.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  EXPECT_TRUE(in_time);
  EXPECT_TRUE(!in_time || (*reader)->Last()->name == "first");
  gate->opening.set_value();
  EXPECT_TRUE(admitted.get());
  EXPECT_TRUE(Eventually([&] { return (*reader)->Last()->name == "second"; }));
}

TEST(PeriodicReaderTest, ItsEndDoesNotWaitForAReadingEither) {
  const auto gate = std::make_shared<Gate>();
  auto reader = PeriodicReader<NodeOffer>::Start(
      "test", [gate] { return gate->Read(); }, std::chrono::milliseconds(1));
  ASSERT_TRUE(reader) << reader.error().message();
  ASSERT_TRUE(Eventually([&] { return gate->begun == 2; }));
  reader->reset();
  gate->opening.set_value();
  EXPECT_TRUE(Eventually([&] { return gate.use_count() == 1; })) << "the thread ends";
  EXPECT_EQ(gate->begun, 2);
}

}  // namespace
}  // namespace holdfast::agent
