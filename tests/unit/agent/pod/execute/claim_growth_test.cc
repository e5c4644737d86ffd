// SPDX-License-Identifier: Apache-2.0
// A claim that was given more room while its pod is here.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>

#include "agent/objects/object_requests.h"
#include "agent/volume/csi_mounter.h"
#include "k8s/core/v1/persistent_volume.pb.h"
#include "k8s/storage/v1/csi.pb.h"
#include "tests/support/eventually.h"
#include "tests/unit/agent/pod/execute/served_pods_fixture.h"

namespace holdfast::agent {
namespace {

using test_support::Eventually;
using testing::ElementsAre;
using testing::HasSubstr;

class GrowingPlugin : public CsiMounter {
 public:
  Result<void> Mount(const corev1::Pod& /*pod*/, const PersistentVolume& /*volume*/,
                     const PlacedVolume& place, const std::atomic<bool>& /*cancelled*/) override {
    std::filesystem::create_directories(place.path);
    return {};
  }
  Result<void> Expand(const PersistentVolume& /*volume*/, const PlacedVolume& place,
                      const CsiSecrets& /*secrets*/, int64_t bytes,
                      const std::atomic<bool>& /*cancelled*/) override {
    EXPECT_EQ(place.handle, "h1");
    EXPECT_EQ(bytes, int64_t{2} << 30);
    if (!problem) return {};
    return *problem;
  }
  Result<void> Unmount(const PodUid& /*uid*/, const PlacedVolume& place) override {
    std::filesystem::remove_all(place.path);
    return {};
  }
  std::optional<Error> problem;
};

class ClaimGrowthTest : public ServedPodsTest {
 protected:
  void SetUp() override {
    ServedPodsTest::SetUp();
    node_->services.csi = &plugin_;
    node_->services.patch_claim = [this](const kube::Claim& claim,
                                         const std::string& patch) -> Result<std::string> {
      EXPECT_EQ(claim.metadata().name(), "c1");
      const std::lock_guard lock(mutex_);
      patches_.push_back(patch);
      return std::string("8");
    };
    Object<corev1::PersistentVolumeClaim>(
        {ObjectKind::kClaim, "default", "c1"},
        "metadata { name: 'c1' namespace: 'default' uid: 'claim-uid' resourceVersion: '7' } "
        "spec { volumeName: 'pv1' } status { phase: 'Bound' "
        "capacity { key: 'storage' value { string: '1Gi' } } "
        "allocatedResources { key: 'storage' value { string: '2Gi' } } "
        "allocatedResourceStatuses { key: 'storage' value: 'NodeResizePending' } }");
    Object<corev1::PersistentVolume>(
        {ObjectKind::kVolume, "", "pv1"},
        "metadata { name: 'pv1' } spec { claimRef { uid: 'claim-uid' } persistentVolumeSource { "
        "csi { driver: 'disk.example' volumeHandle: 'h1' } } }");
    Object<k8s::io::api::storage::v1::CSIDriver>({ObjectKind::kCsiDriver, "", "disk.example"},
                                                 "spec { attachRequired: false }");
  }
  template <class Message>
  void Object(const ObjectRef& ref, const std::string& text) {
    auto object = std::make_shared<Message>();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, object.get())) << text;
    inputs_.objects[ref] = {InputState::kPresent, TakeData(std::move(object)), ""};
  }
  void RunPod(bool read_only = false) {
    corev1::Pod pod = MakePod("u1");
    auto* volume = pod.mutable_spec()->add_volumes();
    volume->set_name("data");
    auto* claim = volume->mutable_volumesource()->mutable_persistentvolumeclaim();
    claim->set_claimname("c1");
    claim->set_readonly(read_only);
    Put(pod);
    EXPECT_TRUE(PhaseBecomes("Running"));
  }
  std::vector<std::string> Patches() {
    const std::lock_guard lock(mutex_);
    return patches_;
  }
  // "Pod: message".
  std::vector<std::string> Told(const std::string& reason) const {
    std::vector<std::string> found;
    for (const EventPtr& event : node_->view.ListEvents()) {
      if (event->reason() == reason) {
        found.push_back(event->involvedobject().kind() + ": " + event->message());
      }
    }
    std::ranges::sort(found);
    return found;
  }

  GrowingPlugin plugin_;
  std::mutex mutex_;
  std::vector<std::string> patches_;
};

TEST_F(ClaimGrowthTest, ItsFileSystemGrowsAndItHasItsSize) {
  RunPod();
  EXPECT_THAT(Patches(), ElementsAre(HasSubstr("NodeResizeInProgress"),
                                     testing::AllOf(HasSubstr(R"("capacity":{"storage":"2Gi"})"),
                                                    HasSubstr(R"("resourceVersion":"8")"))));
  const std::string text = "MountVolume.NodeExpandVolume succeeded for volume \"pv1\" n1";
  EXPECT_THAT(Told("FileSystemResizeSuccessful"),
              ElementsAre("PersistentVolumeClaim: " + text, "Pod: " + text));
}

TEST_F(ClaimGrowthTest, OneThatCannotIsToldAndThePodRuns) {
  plugin_.problem = InvalidArgument("too large");
  RunPod();
  EXPECT_THAT(Patches(),
              ElementsAre(HasSubstr("NodeResizeInProgress"),
                          testing::AllOf(HasSubstr("failed to expand pvc with too large"),
                                         HasSubstr("NodeResizeInfeasible"))));
  EXPECT_THAT(Told("VolumeResizeFailed"),
              ElementsAre("Pod: NodeExpandVolume.NodeExpandVolume failed for volume \"pv1\" : too "
                          "large"));
}

TEST_F(ClaimGrowthTest, OneThatMayStillIsNotGivenUp) {
  plugin_.problem = Unavailable("later");
  RunPod();
  EXPECT_THAT(Patches(), ElementsAre(HasSubstr("NodeResizeInProgress")));
  EXPECT_EQ(Told("VolumeResizeFailed").size(), 1u);
}

TEST_F(ClaimGrowthTest, WhoOnlyReadsLetsNothingGrow) {
  RunPod(true);
  EXPECT_TRUE(Patches().empty());
}

}  // namespace
}  // namespace holdfast::agent
