// SPDX-License-Identifier: Apache-2.0
// What a storage plugin is told about a pod's use of its volume.
#include "agent/pod/spec/csi_uses.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "agent/kube/csi_names.h"
#include "agent/pod/spec/input_values.h"
#include "k8s/storage/v1/csi.pb.h"
#include "tests/fakes/fake_pod_inputs.h"

namespace holdfast::agent {
namespace {

namespace storagev1 = ::k8s::io::api::storage::v1;

template <class Object>
Object Parsed(const std::string& text) {
  Object object;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &object)) << text;
  return object;
}

class CsiUsesTest : public testing::Test {
 protected:
  CsiUsesTest() {
    PutDriver("spec { attachRequired: false }");
    volume.name = "pv";
    SetSource("driver: 'disk.example' volumeHandle: 'h1'");
  }

  template <class Object>
  void Put(const ObjectRef& ref, const std::string& text) {
    auto data = std::make_shared<ObjectData>();
    data->object = std::make_shared<Object>(Parsed<Object>(text));
    inputs.objects[ref] = {InputState::kPresent, std::move(data), ""};
  }
  void PutDriver(const std::string& text) {
    Put<storagev1::CSIDriver>({ObjectKind::kCsiDriver, "", "disk.example"}, text);
  }
  void PutAttachment(const std::string& text) {
    Put<storagev1::VolumeAttachment>(attachment, text);
  }
  void SetSource(const std::string& text) {
    *volume.spec.mutable_persistentvolumesource()->mutable_csi() =
        Parsed<corev1::CSIPersistentVolumeSource>(text);
  }
  std::string Problem() {
    const auto filled = FillCsiUse(pod, inputs, "n1", volume);
    if (filled) return "";
    const std::string prefix = "MountVolume.SetUp failed for volume \"pv\" : ";
    EXPECT_EQ(filled.error().message().substr(0, prefix.size()), prefix);
    return filled.error().message().substr(prefix.size());
  }

  fakes::FakePodInputs inputs;
  corev1::Pod pod = Parsed<corev1::Pod>(
      "metadata { name: 'web' namespace: 'ns' uid: 'u1' } spec { serviceAccountName: 'sa' }");
  PersistentVolume volume;
  const ObjectRef attachment{ObjectKind::kAttachment, "",
                             kube::AttachmentName("disk.example", "h1", "n1")};
};

TEST_F(CsiUsesTest, NamesAreThoseOfTheControlPlane) {
  // printf h1disk.examplen1 | sha256sum
  EXPECT_EQ(attachment.name.substr(0, 4), "csi-");
  EXPECT_EQ(attachment.name.size(), 68u);
  EXPECT_EQ(kube::HandleDirectory("h1"),
            "33112ee14ee469c3eb52fe90322ec81dd404a0093d565a6d71ce77cbc8124e3b");
  EXPECT_EQ(kube::UniqueVolumeName("disk.example", "h1"), "kubernetes.io/csi/disk.example^h1");
  const auto own = EphemeralCsiVolume(
      pod, Parsed<corev1::Volume>("name: 'v' volumeSource { csi { driver: 'd' readOnly: true "
                                  "nodePublishSecretRef { name: 's' } } }"));
  const auto& source = own.spec.persistentvolumesource().csi();
  EXPECT_EQ(source.volumehandle(), kube::EphemeralHandle("u1", "v"));
  EXPECT_EQ(source.nodepublishsecretref().namespace_(), "ns");
  EXPECT_TRUE(own.read_only);
  EXPECT_TRUE(own.csi.ephemeral);
}

TEST_F(CsiUsesTest, ThePodIsToldWhereTheDriverAsks) {
  EXPECT_EQ(Problem(), "");
  EXPECT_TRUE(volume.csi.pod_info.empty());
  EXPECT_EQ(volume.csi.fs_group_policy, "ReadWriteOnceWithFSType");
  EXPECT_FALSE(volume.csi.takes_selinux_label);
  PutDriver(
      "spec { attachRequired: false podInfoOnMount: true fsGroupPolicy: 'File' seLinuxMount: true "
      "}");
  EXPECT_EQ(Problem(), "");
  EXPECT_THAT(volume.csi.pod_info,
              testing::ElementsAre(testing::Pair("csi.storage.k8s.io/ephemeral", "false"),
                                   testing::Pair("csi.storage.k8s.io/pod.name", "web"),
                                   testing::Pair("csi.storage.k8s.io/pod.namespace", "ns"),
                                   testing::Pair("csi.storage.k8s.io/pod.uid", "u1"),
                                   testing::Pair("csi.storage.k8s.io/serviceAccount.name", "sa")));
  EXPECT_EQ(volume.csi.fs_group_policy, "File");
  EXPECT_TRUE(volume.csi.takes_selinux_label);
}

TEST_F(CsiUsesTest, OfABlockDeviceTheStepIsAnother) {
  volume.spec.set_volumemode("Block");
  PutDriver("");
  PutAttachment("status { attached: false }");
  EXPECT_EQ(FillCsiUse(pod, inputs, "n1", volume).error().message(),
            "MapVolume.SetUpDevice failed for volume \"pv\" : Volume not attached according to "
            "node status for volume \"pv\" (UniqueName: "
            "\"kubernetes.io/csi/disk.example^h1\")");
}

TEST_F(CsiUsesTest, SecretsOfTheVolume) {
  SetSource(
      "driver: 'disk.example' volumeHandle: 'h1' nodeStageSecretRef { name: 'a' namespace: 'x' } "
      "nodePublishSecretRef { name: 'b' namespace: 'x' }");
  inputs.Put({ObjectKind::kSecret, "x", "a"}, {{"key", "1"}});
  inputs.PutAbsent({ObjectKind::kSecret, "x", "b"});
  EXPECT_EQ(Problem(), "fetching NodePublishSecretRef x/b failed: secret \"b\" not found");
  inputs.Put({ObjectKind::kSecret, "x", "b"}, {{"key", "2"}});
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(volume.csi.stage_secrets->at("key"), "1");
  EXPECT_EQ(volume.csi.publish_secrets->at("key"), "2");
}

TEST_F(CsiUsesTest, AnAttachmentIsNeededUnlessTheDriverSaysOtherwise) {
  const std::string detached =
      "Volume not attached according to node status for volume \"pv\" "
      "(UniqueName: \"kubernetes.io/csi/disk.example^h1\")";
  PutDriver("spec {}");
  inputs.PutAbsent(attachment);
  EXPECT_EQ(Problem(), detached);
  PutAttachment("status { attached: false }");
  EXPECT_EQ(Problem(), detached);
  PutAttachment("metadata { deletionTimestamp {} } status { attached: true }");
  EXPECT_EQ(Problem(), detached);
  PutAttachment("status { attached: true attachmentMetadata { key: 'device' value: 'vdb' } }");
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(volume.csi.publish_context.at("device"), "vdb");
  inputs.PutAbsent({ObjectKind::kCsiDriver, "", "disk.example"});
  inputs.PutAbsent(attachment);
  EXPECT_EQ(Problem(), detached) << "a plugin without a CSIDriver";
}

TEST_F(CsiUsesTest, WhatTheDriverIsNotFor) {
  PutDriver("spec { volumeLifecycleModes: 'Ephemeral' }");
  EXPECT_EQ(Problem(), "volume mode \"Persistent\" not supported by driver disk.example");
  volume.csi.ephemeral = true;
  EXPECT_EQ(Problem(), "");
  PutDriver("spec {}");
  EXPECT_EQ(Problem(), "volume mode \"Ephemeral\" not supported by driver disk.example");
  inputs.PutAbsent({ObjectKind::kCsiDriver, "", "disk.example"});
  EXPECT_EQ(Problem(),
            "volume mode \"Ephemeral\" not supported by driver disk.example (no "
            "CSIDriver object)");
}

TEST_F(CsiUsesTest, TokensOfThePodsAccountWhereTheDriverAsks) {
  const std::string tokens =
      "attachRequired: false requiresRepublish: true tokenRequests { audience: 'vault' "
      "expirationSeconds: 600 } tokenRequests {}";
  PutDriver("spec { " + tokens + " }");
  inputs.PutToken({"", std::chrono::hours(1)}, "t2", {std::chrono::seconds(1'800'003'600)});
  EXPECT_EQ(Problem(),
            "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: "
            "it has not been read yet");
  inputs.tokens[{"vault", std::chrono::minutes(10)}] = {
      InputState::kUnavailable, nullptr, "failed to fetch token: no", {}};
  EXPECT_EQ(Problem(),
            "kubernetes.io/csi: mounter.SetUpAt failed to get service accoount token attributes: "
            "failed to fetch token: no");
  inputs.PutToken({"vault", std::chrono::minutes(10)}, "t1", {std::chrono::seconds(1'800'000'600)});
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(volume.csi.tokens,
            "{\"\":{\"expirationTimestamp\":\"2027-01-15T09:00:00Z\",\"token\":\"t2\"},"
            "\"vault\":{\"expirationTimestamp\":\"2027-01-15T08:10:00Z\",\"token\":\"t1\"}}");
  EXPECT_FALSE(volume.csi.tokens_are_secret);
  EXPECT_TRUE(volume.csi.republished);
  PutDriver("spec { serviceAccountTokenInSecrets: true " + tokens + " }");
  EXPECT_EQ(Problem(), "");
  EXPECT_TRUE(volume.csi.tokens_are_secret);

  volume.csi = {};
  volume.spec.set_volumemode("Block");
  EXPECT_EQ(Problem(), "");
  EXPECT_EQ(volume.csi.tokens, "") << "not of a block device, as by a kubelet";
}

}  // namespace
}  // namespace holdfast::agent
