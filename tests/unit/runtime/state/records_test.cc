// SPDX-License-Identifier: Apache-2.0
#include "runtime/state/records.h"

#include <gtest/gtest.h>

#include "holdfast/base/crc32c.h"

namespace holdfast::runtime {
namespace {

ContainerRecord FullRecord() {
  ContainerRecord record;
  record.created_at.since_epoch = std::chrono::nanoseconds(1234567890123456789);
  model::ContainerSpec& spec = record.spec;
  spec.id = ContainerId(std::string(64, 'a'));
  spec.pod_uid = PodUid("uid-1");
  spec.pod_namespace = "ns";
  spec.pod_name = "pod";
  spec.name = "web";
  spec.attempt = 7;
  spec.root_fs = {{"/a", "/b"}, "/scratch", true};
  model::MountSpec mount;
  mount.kind = model::MountSpec::Kind::kTmpfs;
  mount.source = "/s";
  mount.sub_path = "x/y";
  mount.destination = "/d";
  mount.read_only = true;
  mount.propagation = model::MountPropagation::kBidirectional;
  mount.size_bytes = 1ull << 40;
  spec.mounts = {mount, {}};
  spec.argv = {"a", "", std::string("nul\0inside", 10)};
  spec.env = {"A=1"};
  spec.working_dir = "/w";
  spec.hostname = "h";
  spec.user.image_user = "u:g";
  spec.user.run_as_user = -1;
  spec.user.supplemental_groups = {1, 2};
  spec.security.privileged = true;
  spec.security.add_capabilities = {"NET_ADMIN"};
  spec.security.seccomp = model::SecuritySpec::Seccomp::kLocalhost;
  spec.security.app_armor_profile = "profile";
  spec.namespaces.pid = model::NamespaceMode::kHost;
  spec.resources.cpu_milli_limit = 500;
  spec.resources.oom_score_adj = -997;
  spec.resources.swap_limit_bytes = 1;
  spec.resources.memory_min_bytes = 2;
  spec.resources.memory_low_bytes = 3;
  spec.resources.memory_high_bytes = 4;
  spec.qos = model::QosClass::kBurstable;
  spec.rlimits = {{"RLIMIT_NOFILE", 1, UINT64_MAX}};
  spec.log = {"/log", 5, 6};
  spec.tty = true;
  spec.stop_signal = 15;
  spec.devices = {{{7, 5, 0660, 0, 6}, "/dev/xvda", true}, {}};
  return record;
}

TEST(RecordsTest, ContainerSurvivesTheRoundTrip) {
  auto read = DecodeContainer(EncodeRecord(FullRecord()));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, FullRecord());
}

TEST(RecordsTest, SandboxAndBriefSurviveTheRoundTrip) {
  SandboxRecord record;
  record.spec.uid = PodUid("u");
  record.spec.sysctls = {{"net.core.somaxconn", "1024"}, {"kernel.shm_rmid_forced", "1"}};
  record.spec.share_process_namespace = true;
  record.spec.resources.pids_limit = 9;
  record.spec.selinux = {"u", "r", "t", "s0"};
  record.selinux_level = "s0:c1,c2";
  auto read = DecodeSandbox(EncodeRecord(record));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, record);
  const ContainerBrief brief = BriefOf(FullRecord().spec);
  EXPECT_FALSE(brief.own_pid_namespace);
  EXPECT_EQ(*DecodeBrief(EncodeRecord(brief)), brief);
}

TEST(RecordsTest, EveryChangedByteIsNoticed) {
  const std::string good = EncodeRecord(FullRecord());
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    EXPECT_FALSE(DecodeContainer(bad)) << "byte " << i;
  }
}

TEST(RecordsTest, EveryTruncationIsNoticed) {
  const std::string good = EncodeRecord(FullRecord());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_FALSE(DecodeContainer(good.substr(0, size))) << "length " << size;
  }
  EXPECT_FALSE(DecodeContainer(good + "x"));
  EXPECT_FALSE(DecodeContainer(std::string(good.size(), '\0')));
}

TEST(RecordsTest, AnotherKindIsRefused) { EXPECT_FALSE(DecodeSandbox(EncodeRecord(FullRecord()))); }

// The record of a release whose last struct had fewer fields, and of one that has more.
TEST(RecordsTest, MissingTailIsDefaultAndSurplusTailIsSkipped) {
  auto with_body = [](std::string body) {
    std::string text = "HFB\x01";
    for (const uint32_t number : {static_cast<uint32_t>(body.size()), Crc32c(body)}) {
      for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(number >> 8 * i & 0xff));
    }
    return text + body;
  };
  const std::string uid_only = std::string("\x05\0\0\0\x01\0\0\0u", 9);
  auto old = DecodeBrief(with_body(uid_only));
  ASSERT_TRUE(old) << old.error().message();
  EXPECT_EQ(old->pod_uid, PodUid("u"));
  EXPECT_TRUE(old->own_pid_namespace);

  std::string full = EncodeRecord(ContainerBrief{}).substr(12);
  full += "future";
  full[0] = static_cast<char>(full[0] + 6);
  EXPECT_TRUE(DecodeBrief(with_body(full)));
}

TEST(RecordsTest, ChecksumIsCastagnolis) { EXPECT_EQ(Crc32c("123456789"), 0xe3069283u); }

}  // namespace
}  // namespace holdfast::runtime
