// SPDX-License-Identifier: Apache-2.0
// What a claim comes to, and what a kubelet says of one that comes to nothing.
#include "agent/pod/spec/claimed_volumes.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

template <class Object>
std::shared_ptr<Object> Parse(const std::string& text, const std::string& more = "") {
  auto object = std::make_shared<Object>();
  google::protobuf::TextFormat::Parser parser;
  EXPECT_TRUE(parser.ParseFromString(text, object.get())) << text;
  EXPECT_TRUE(parser.MergeFromString(more, object.get())) << more;
  return object;
}

constexpr char kClaimed[] = "persistentVolumeClaim { claimName: 'c' }";
constexpr char kBound[] =
    "metadata { name: 'c' uid: 'claim' } spec { volumeName: 'pv' } status { phase: 'Bound' }";
constexpr char kVolume[] =
    "metadata { name: 'pv' } spec { claimRef { uid: 'claim' } "
    "persistentVolumeSource { local { path: '/disk' } } }";

class ClaimedVolumesTest : public testing::Test {
 protected:
  ClaimedVolumesTest() {
    PutClaim(kBound);
    PutVolume(kVolume);
    SetVolume(kClaimed);
  }

  void PutClaim(const std::string& text, const std::string& more = "") {
    Put({ObjectKind::kClaim, "ns", "c"}, Parse<corev1::PersistentVolumeClaim>(text, more));
  }
  void PutVolume(const std::string& text, const std::string& more = "") {
    Put({ObjectKind::kVolume, "", "pv"}, Parse<corev1::PersistentVolume>(text, more));
  }
  void Put(const ObjectRef& ref, std::shared_ptr<const google::protobuf::Message> object) {
    auto data = std::make_shared<ObjectData>();
    data->object = std::move(object);
    inputs.objects[ref] = {InputState::kPresent, std::move(data), ""};
  }
  void SetVolume(const std::string& source) {
    pod = *Parse<corev1::Pod>(
        "metadata { name: 'web' namespace: 'ns' uid: 'u1' } spec { "
        "volumes { name: 'v' volumeSource { " +
        source +
        " } } "
        "containers { name: 'a' volumeMounts { name: 'v' } } }");
  }
  ClaimedVolumes Build() { return BuildClaimedVolumes(pod, inputs, "n1", labels, standing); }
  std::string Problem() {
    const ClaimedVolumes built = Build();
    EXPECT_EQ(built.volumes.size() + built.errors.size(), 1u);
    return built.errors.empty() ? "" : built.errors.at("v").message();
  }

  fakes::FakePodInputs inputs;
  corev1::Pod pod;
  std::map<std::string, std::string> labels = {{"disk", "fast"}};
  std::vector<std::string> standing;
  const std::string unprocessed =
      "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], "
      "failed to process volumes=[v]: error processing PVC ns/c: ";
};

TEST_F(ClaimedVolumesTest, AClaimIsTheVolumeThatItIsBoundTo) {
  SetVolume("persistentVolumeClaim { claimName: 'c' readOnly: true }");
  const ClaimedVolumes built = Build();
  ASSERT_EQ(built.errors.size(), 0u);
  const PersistentVolume& volume = built.volumes.at("v");
  EXPECT_EQ(volume.name, "pv");
  EXPECT_TRUE(volume.read_only);
  EXPECT_EQ(volume.spec.persistentvolumesource().local().path(), "/disk");
}

TEST_F(ClaimedVolumesTest, ADirectoryOfAServerThatThePodNamesItselfNeedsNobody) {
  inputs.objects.clear();
  SetVolume("nfs { server: 'files' path: '/exports/a' readOnly: true }");
  const ClaimedVolumes built = Build();
  ASSERT_EQ(built.errors.size(), 0u);
  const PersistentVolume& volume = built.volumes.at("v");
  EXPECT_EQ(volume.name, "v");
  EXPECT_TRUE(volume.read_only);
  EXPECT_EQ(volume.spec.persistentvolumesource().nfs().server(), "files");
  EXPECT_EQ(volume.spec.persistentvolumesource().nfs().path(), "/exports/a");
}

// What a PersistentVolume says of that, nobody reads; nor does a kubelet.
TEST_F(ClaimedVolumesTest, OfAClaimItIsTheClaimThatSaysReadOnly) {
  PutVolume(
      "metadata { name: 'pv' } spec { claimRef { uid: 'claim' } mountOptions: 'vers=4.1' "
      "persistentVolumeSource { nfs { server: 'files' path: '/a' readOnly: true } } }");
  const ClaimedVolumes built = Build();
  ASSERT_EQ(built.errors.size(), 0u);
  EXPECT_FALSE(built.volumes.at("v").read_only);
  EXPECT_EQ(built.volumes.at("v").spec.mountoptions(0), "vers=4.1");
}

TEST_F(ClaimedVolumesTest, AVolumeOfThePodsOwnIsAClaimThatItOwns) {
  SetVolume("ephemeral {}");
  inputs.PutAbsent({ObjectKind::kClaim, "ns", "web-v"});
  EXPECT_EQ(Problem().substr(Problem().rfind("error")),
            "error processing PVC ns/web-v: failed to fetch PVC from API server: "
            "persistentvolumeclaims \"web-v\" not found");
  const auto own = [this](const std::string& uid) {
    Put({ObjectKind::kClaim, "ns", "web-v"},
        Parse<corev1::PersistentVolumeClaim>(
            kBound, " metadata { ownerReferences { controller: true uid: '" + uid + "' } }"));
  };
  own("another");
  EXPECT_EQ(Problem().substr(Problem().rfind("error")),
            "error processing PVC ns/web-v: PVC ns/web-v was not created for pod ns/web (pod is "
            "not owner)");
  own("u1");
  EXPECT_EQ(Problem(), "");
}

TEST_F(ClaimedVolumesTest, WhatIsWrongWithAClaim) {
  const struct {
    const char* claim;
    const char* says;
  } rows[] = {
      {"status { phase: 'Pending' }", "PVC is not bound"},
      {"status { phase: 'Bound' }", "PVC has empty pvc.Spec.VolumeName"},
      {"metadata { deletionTimestamp {} } spec { volumeName: 'pv' } status { phase: 'Bound' }",
       "PVC is being deleted"},
      {"metadata { uid: 'other' } spec { volumeName: 'pv' } status { phase: 'Bound' }",
       "found PV object pv but its pv.Spec.ClaimRef.UID claim does not point to claim.UID other"},
      {"spec { volumeName: 'none' } status { phase: 'Bound' }",
       "failed to fetch PV none from API server: it has not been read yet"},
  };
  for (const auto& row : rows) {
    PutClaim(row.claim);
    EXPECT_EQ(Problem(), unprocessed + row.says);
  }
  inputs.PutAbsent({ObjectKind::kClaim, "ns", "c"});
  EXPECT_EQ(Problem(), unprocessed +
                           "failed to fetch PVC from API server: "
                           "persistentvolumeclaims \"c\" not found");
}

TEST_F(ClaimedVolumesTest, ADeletedClaimDoesNotMatterToWhatIsMounted) {
  PutClaim(kBound, " metadata { deletionTimestamp {} }");
  EXPECT_NE(Problem(), "");
  standing = {"v"};
  EXPECT_EQ(Problem(), "");
}

TEST_F(ClaimedVolumesTest, WhatIsWrongWithAVolume) {
  PutVolume("metadata { name: 'pv' }");
  EXPECT_EQ(Problem(), unprocessed +
                           "found PV object pv but it has a nil pv.Spec.ClaimRef "
                           "indicating it is not yet bound to the claim");
  PutVolume(kVolume, " spec { volumeMode: 'Block' }");
  EXPECT_EQ(Problem(),
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached "
            "volumes=[], failed to process volumes=[v]: volume v has volumeMode Block, "
            "but is specified in volumeMounts");
}

TEST_F(ClaimedVolumesTest, ABlockDeviceIsForVolumeDevices) {
  auto& container = *pod.mutable_spec()->mutable_containers(0);
  container.clear_volumemounts();
  container.add_volumedevices()->set_name("v");
  EXPECT_EQ(Problem(),
            "Unable to attach or mount volumes: unmounted volumes=[v], unattached "
            "volumes=[], failed to process volumes=[v]: volume v has volumeMode Filesystem, "
            "but is specified in volumeDevices");
  PutVolume(kVolume, " spec { volumeMode: 'Block' }");
  EXPECT_EQ(Problem(), "");
  EXPECT_TRUE(IsBlock(Build().volumes.at("v")));
  PutVolume(kVolume,
            " spec { volumeMode: 'Block' nodeAffinity { required { nodeSelectorTerms { "
            "matchExpressions { key: 'disk' operator: 'In' values: 'slow' } } } } }");
  EXPECT_EQ(Problem(),
            "MapVolume.NodeAffinity check failed for volume \"pv\" : no matching "
            "NodeSelectorTerms");
}

TEST_F(ClaimedVolumesTest, ABlockDeviceOfThePodsOwn) {
  SetVolume("ephemeral {}");
  auto& container = *pod.mutable_spec()->mutable_containers(0);
  container.clear_volumemounts();
  container.add_volumedevices()->set_name("v");
  PutVolume(kVolume, " spec { volumeMode: 'Block' }");
  Put({ObjectKind::kClaim, "ns", "web-v"},
      Parse<corev1::PersistentVolumeClaim>(
          kBound, " metadata { ownerReferences { controller: true uid: 'u1' } }"));
  EXPECT_EQ(Problem(), "");
}

TEST_F(ClaimedVolumesTest, AVolumeOfOtherNodesIsNotUsed) {
  const auto on = [this](const std::string& value) {
    PutVolume(kVolume,
              " spec { nodeAffinity { required { nodeSelectorTerms { matchExpressions { "
              "key: 'disk' operator: 'In' values: '" +
                  value + "' } } } } }");
  };
  on("slow");
  EXPECT_EQ(Problem(),
            "MountVolume.NodeAffinity check failed for volume \"pv\" : no matching "
            "NodeSelectorTerms");
  on("fast");
  EXPECT_EQ(Problem(), "");
}

}  // namespace
}  // namespace holdfast::agent
