// SPDX-License-Identifier: Apache-2.0
// The texts and times of kubelet 1.36, read in its source: after 30 s, then each 60 s.
#include "agent/volume/ownership_progress.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace holdfast::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = OwnershipProgress::Time;

class OwnershipProgressTest : public testing::Test {
 protected:
  OwnershipProgressTest() { pod_.mutable_metadata()->set_uid("u-1"); }
  std::vector<std::string> Told() {
    std::vector<std::string> messages;
    for (const EventNote& note : std::exchange(notes_, {})) {
      EXPECT_TRUE(note.warning);
      EXPECT_EQ(note.reason, "VolumePermissionChangeInProgress");
      messages.push_back(note.message);
    }
    return messages;
  }

  ::k8s::io::api::core::v1::Pod pod_;
  std::vector<EventNote> notes_;
  const TellOwnership tell_ = [this](const auto& /*pod*/, const EventNote& note) {
    notes_.push_back(note);
  };
  const Time begun_{seconds(1000)};
};

TEST_F(OwnershipProgressTest, ItIsToldAfterHalfAMinuteAndThenEachMinute) {
  OwnershipProgress progress(pod_, "/var/lib/x/pods/u-1/volumes/kubernetes.io~csi/pv/mount", tell_,
                             begun_);
  progress.NextFile(begun_ + seconds(1));
  progress.NextFile(begun_ + milliseconds(29'999));
  EXPECT_TRUE(Told().empty());
  progress.NextFile(begun_ + seconds(30));
  EXPECT_EQ(Told(),
            (std::vector<std::string>{
                "Setting volume ownership for u-1/volumes/kubernetes.io~csi/pv/mount is taking "
                "longer than expected, consider using OnRootMismatch - "
                "https://kubernetes.io/docs/tasks/configure-pod-container/security-context/"
                "#configure-volume-permission-and-ownership-change-policy-for-pods"}));
  progress.NextFile(begun_ + milliseconds(89'999));
  EXPECT_TRUE(Told().empty());
  progress.NextFile(begun_ + seconds(90));
  EXPECT_EQ(Told(), (std::vector<std::string>{"Setting volume ownership for u-1/volumes/"
                                              "kubernetes.io~csi/pv/mount, processed 5 files."}));
  // One file took long: what was missed is not told afterwards.
  progress.NextFile(begun_ + seconds(400));
  progress.NextFile(begun_ + seconds(401));
  EXPECT_EQ(Told().size(), 1u);
}

TEST_F(OwnershipProgressTest, AVolumeThatLiesElsewhereIsShownWhole) {
  OwnershipProgress progress(pod_, "/mnt/disk", tell_, begun_);
  progress.NextFile(begun_ + seconds(31));
  const auto told = Told();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].starts_with("Setting volume ownership for /mnt/disk is taking longer"));
}

TEST_F(OwnershipProgressTest, WhereNobodyListensNothingIsTold) {
  const TellOwnership nobody;
  OwnershipProgress progress(pod_, "/mnt/disk", nobody, begun_);
  progress.NextFile(begun_ + seconds(31));
  EXPECT_TRUE(notes_.empty());
}

}  // namespace
}  // namespace holdfast::agent
