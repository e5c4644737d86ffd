// SPDX-License-Identifier: Apache-2.0
#include "runtime/cgroup/naming.h"

#include <gtest/gtest.h>

namespace holdfast::runtime {
namespace {

using model::QosClass;

const PodUid kUid("2f1c0a9e-7d2b-4a0f-9a53-0c2b7f6f0d11");
const ContainerId kId(std::string(64, 'a'));

TEST(NamingTest, CgroupfsNames) {
  EXPECT_EQ(PodsRootName(CgroupNaming::kCgroupfs), "kubepods");
  EXPECT_EQ(QosDirName(CgroupNaming::kCgroupfs, QosClass::kGuaranteed), "");
  EXPECT_EQ(QosDirName(CgroupNaming::kCgroupfs, QosClass::kBurstable), "burstable");
  EXPECT_EQ(QosDirName(CgroupNaming::kCgroupfs, QosClass::kBestEffort), "besteffort");
  EXPECT_EQ(PodDirName(CgroupNaming::kCgroupfs, QosClass::kBurstable, kUid), "pod" + kUid.value);
  EXPECT_EQ(ContainerDirName(CgroupNaming::kCgroupfs, kId), kId.value);
}

TEST(NamingTest, SystemdNames) {
  EXPECT_EQ(PodsRootName(CgroupNaming::kSystemd), "kubepods.slice");
  EXPECT_EQ(QosDirName(CgroupNaming::kSystemd, QosClass::kBurstable), "kubepods-burstable.slice");
  EXPECT_EQ(PodDirName(CgroupNaming::kSystemd, QosClass::kBestEffort, kUid),
            "kubepods-besteffort-pod2f1c0a9e_7d2b_4a0f_9a53_0c2b7f6f0d11.slice");
  EXPECT_EQ(PodDirName(CgroupNaming::kSystemd, QosClass::kGuaranteed, kUid),
            "kubepods-pod2f1c0a9e_7d2b_4a0f_9a53_0c2b7f6f0d11.slice");
  EXPECT_EQ(ContainerDirName(CgroupNaming::kSystemd, kId), "holdfast-" + kId.value + ".scope");
}

TEST(NamingTest, NamesParseBack) {
  for (const CgroupNaming naming : {CgroupNaming::kCgroupfs, CgroupNaming::kSystemd}) {
    for (const QosClass qos :
         {QosClass::kGuaranteed, QosClass::kBurstable, QosClass::kBestEffort}) {
      EXPECT_EQ(ParsePodDirName(naming, qos, PodDirName(naming, qos, kUid)), kUid);
    }
    EXPECT_EQ(ParseContainerDirName(naming, ContainerDirName(naming, kId)), kId);
  }
}

TEST(NamingTest, ForeignNamesDoNotParse) {
  for (const char* name : {"", "pod", "burstable", "besteffort", "mypod", "system.slice"}) {
    EXPECT_FALSE(ParsePodDirName(CgroupNaming::kCgroupfs, QosClass::kGuaranteed, name)) << name;
  }
  EXPECT_FALSE(
      ParsePodDirName(CgroupNaming::kSystemd, QosClass::kGuaranteed, "kubepods-burstable.slice"));
  for (const std::string& name :
       {std::string("init.scope"), std::string(63, 'a'), std::string(64, 'A'), std::string(65, 'a'),
        std::string(64, 'g')}) {
    EXPECT_FALSE(ParseContainerDirName(CgroupNaming::kCgroupfs, name)) << name;
  }
}

}  // namespace
}  // namespace holdfast::runtime
