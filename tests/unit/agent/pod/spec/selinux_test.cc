// SPDX-License-Identifier: Apache-2.0
// seLinuxOptions of pods and containers, and the volumes that are mounted with a label.
#include "agent/pod/spec/selinux.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "agent/pod/spec/container_spec_builder.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent {
namespace {

corev1::Pod PodOf(const std::string& spec) {
  corev1::Pod pod;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(StrCat("spec { ", spec, " }"), &pod))
      << spec;
  return pod;
}

std::string Container(const std::string& name, const std::string& options,
                      const std::string& volume = "data") {
  return StrCat("containers { name: '", name, "' volumeMounts { name: '", volume,
                "' } securityContext { ", options, " } } ");
}

TEST(SelinuxOptionsTest, AContainersOwnTakeThePlaceOfAllOfThePods) {
  const corev1::Pod pod =
      PodOf("securityContext { seLinuxOptions { user: 'u' type: 'pods_t' level: 's0:c1,c2' } } " +
            Container("a", "") + Container("b", "seLinuxOptions { type: 'own_t' }"));
  EXPECT_EQ(SelinuxOptionsOf(pod, pod.spec().containers(0).securitycontext()),
            (model::SelinuxOptions{"u", "", "pods_t", "s0:c1,c2"}));
  EXPECT_EQ(SelinuxOptionsOf(pod, pod.spec().containers(1).securitycontext()),
            (model::SelinuxOptions{"", "", "own_t", ""}));
  EXPECT_EQ(BuildSandboxSpec(pod, NodeEnvironment()).selinux.type, "pods_t");
}

class MountLabelTest : public testing::Test {
 protected:
  MountLabelTest() {
    volume_.csi.takes_selinux_label = true;
    *volume_.spec.add_accessmodes() = "ReadWriteOncePod";
    *volume_.spec.add_mountoptions() = "noatime";
  }
  // The options that the volume is mounted with.
  std::string Options(const corev1::Pod& pod) {
    PersistentVolume volume = volume_;
    const auto given = MountWithLabel(pod, "data", node_, volume);
    if (!given) return given.error().message();
    std::string all;
    for (const std::string& option : volume.spec.mountoptions()) all += " " + option;
    return all;
  }

  std::optional<model::SelinuxContexts> node_ = model::SelinuxContexts{
      "system_u:system_r:container_t:s0", "system_u:object_r:container_file_t:s0"};
  PersistentVolume volume_;
  const std::string level_ = "seLinuxOptions { level: 's0:c1,c2' }";
  const std::string labelled_ = " noatime context=\"system_u:object_r:container_file_t:s0:c1,c2\"";
};

TEST_F(MountLabelTest, OfOneThatAskedForItAndIsOnePodsAlone) {
  const corev1::Pod pod = PodOf(StrCat("securityContext { ", level_, " } ", Container("a", "")));
  EXPECT_EQ(Options(pod), labelled_);
  node_.reset();
  EXPECT_EQ(Options(pod), " noatime") << "a node without SELinux";
}

TEST_F(MountLabelTest, OthersAreLabelledFileByFile) {
  const std::string pods = StrCat("securityContext { ", level_, " } ");
  const corev1::Pod pod = PodOf(pods + Container("a", ""));
  EXPECT_EQ(Options(PodOf(StrCat("securityContext { seLinuxChangePolicy: 'Recursive' ", level_,
                                 " } ", Container("a", "")))),
            " noatime");
  EXPECT_EQ(Options(PodOf(StrCat("securityContext { seLinuxChangePolicy: 'MountOption' ", level_,
                                 " } ", Container("a", "")))),
            labelled_);
  EXPECT_EQ(Options(PodOf(Container("a", ""))), " noatime") << "nothing is asked for";
  EXPECT_EQ(Options(PodOf(Container("a", "seLinuxOptions { type: 'spc_t' }"))), " noatime")
      << "the level is chosen later";
  EXPECT_EQ(
      Options(PodOf(Container("a", level_) + Container("b", "seLinuxOptions { type: 'spc_t' }"))),
      " noatime")
      << "of one of them";
  EXPECT_EQ(Options(PodOf(pods + Container("a", "", "other"))), " noatime");
  volume_.csi.takes_selinux_label = false;
  EXPECT_EQ(Options(pod), " noatime");
  volume_.csi.takes_selinux_label = true;
  volume_.csi.ephemeral = true;
  EXPECT_EQ(Options(pod), " noatime");
  volume_.csi.ephemeral = false;
  volume_.spec.set_volumemode("Block");
  EXPECT_EQ(Options(pod), " noatime");
  volume_.spec.set_volumemode("Filesystem");
  *volume_.spec.add_accessmodes() = "ReadWriteOnce";
  EXPECT_EQ(Options(pod), " noatime");
  volume_.spec.clear_accessmodes();
  *volume_.spec.add_accessmodes() = "ReadWriteMany";
  EXPECT_EQ(Options(pod), " noatime");
}

TEST_F(MountLabelTest, AllContainersThatHaveItMustNameTheSame) {
  const std::string other = "seLinuxOptions { level: 's0:c3,c4' }";
  EXPECT_EQ(Options(PodOf(Container("a", level_) + Container("b", level_) + Container("c", ""))),
            labelled_);
  EXPECT_EQ(Options(PodOf(Container("a", level_) + Container("b", other, "elsewhere"))), labelled_);
  EXPECT_EQ(Options(PodOf(Container("a", level_) + Container("b", other))),
            "multiple SELinux labels found: system_u:object_r:container_file_t:s0:c1,c2,"
            "system_u:object_r:container_file_t:s0:c3,c4");
  EXPECT_EQ(Options(PodOf(Container("a", "seLinuxOptions { level: 'c1' }"))),
            "the format of 'level' \"c1\" is not correct");
}

}  // namespace
}  // namespace holdfast::agent
