// SPDX-License-Identifier: Apache-2.0
// Containers with block devices, with a real keeper: what they may do with theirs, and that nobody else's takes its number.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "holdfast/base/strings.h"
#include "tests/support/containers/runtime_test.h"
#include "tests/support/eventually.h"
#include "tests/support/loop_device.h"
#include "tests/support/text_file.h"

namespace holdfast::runtime {
namespace {

using test_support::Eventually;
using test_support::LoopDevice;
using test_support::ReadText;

class DevicesTest : public test_support::RuntimeTest {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    device_ = LoopDevice::Make("hello\n");
    other_ = LoopDevice::Make("secret\n");
    if (!device_ || !other_) GTEST_SKIP() << "kernel lacks loop devices for this test";
    RuntimeTest::SetUp();
  }

  static model::DeviceSpec Spec(const LoopDevice& device, const std::string& destination,
                                bool read_only = false) {
    return {{device.major(), device.minor(), 0660, 0, 6}, destination, read_only};
  }
  // What a container with these devices writes, to its end.
  std::string Run(std::vector<model::DeviceSpec> devices, const std::string& script) {
    const auto ensured = runtime_->EnsureSandbox(node_->Sandbox("pod1"));
    EXPECT_TRUE(ensured) << ensured.error().message();
    // On one stream: of two the logger may write the later line first.
    auto spec =
        node_->Container("pod1", "d", {"/bin/sh", "-c", "exec 2>&1; " + script + "; echo end"});
    spec.devices = std::move(devices);
    const auto started = runtime_->Start(spec);
    EXPECT_TRUE(started) << started.error().error.message();
    EXPECT_TRUE(Eventually([&] {
      return ReadText(spec.log.path).find(" F end\n") != std::string::npos;
    })) << ReadText(spec.log.path);
    std::string log = ReadText(spec.log.path);
    EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod1")));
    EXPECT_EQ(node_->Leftovers(), std::vector<std::string>{});
    return log;
  }
  Result<void> Hold(const std::string& volume) {
    const UniqueFd open(::open(device_->path().c_str(), O_RDONLY | O_CLOEXEC));
    return runtime_->HoldDevice(PodUid("pod1"), volume, open.get());
  }

  std::unique_ptr<LoopDevice> device_, other_;
};

TEST_F(DevicesTest, AContainerHasItsDeviceAndNoOther) {
  const std::string log =
      Run({Spec(*device_, "/dev/xvda")},
          StrCat("ls -ln /dev/xvda; head -n1 /dev/xvda; echo fresh > /dev/xvda; "
                 "mknod /other b ",
                 other_->major(), " ", other_->minor(),
                 "; head -n1 /other; echo x > /other; mknod /same b ", device_->major(), " ",
                 device_->minor(), "; head -n1 /same"));
  EXPECT_NE(log.find("brw-rw----    1 0        6"), std::string::npos) << log;
  EXPECT_NE(log.find(" F hello\n"), std::string::npos) << log;
  EXPECT_NE(log.find(" F fresh\n"), std::string::npos) << "its own by another name: " << log;
  EXPECT_NE(log.find("/other: Operation not permitted"), std::string::npos) << log;
  EXPECT_NE(log.find("can't create /other: Operation not permitted"), std::string::npos) << log;
  EXPECT_EQ(log.find("secret"), std::string::npos) << log;
  EXPECT_TRUE(Eventually([&] { return device_->Text(6) == "fresh\n"; })) << device_->Text(6);
  EXPECT_EQ(other_->Text(7), "secret\n");
}

TEST_F(DevicesTest, AReadOnlyDeviceIsOnlyRead) {
  const std::string log =
      Run({Spec(*device_, "/dev/xvda", true)}, "head -n1 /dev/xvda; echo fresh > /dev/xvda");
  EXPECT_NE(log.find(" F hello\n"), std::string::npos) << log;
  EXPECT_NE(log.find("can't create /dev/xvda: Operation not permitted"), std::string::npos) << log;
  EXPECT_EQ(device_->Text(6), "hello\n");
}

TEST_F(DevicesTest, ADeviceLiesWhereThePodWantsIt) {
  const std::string log = Run({Spec(*device_, "/data/disks/a"), Spec(*other_, "/dev/disks/b")},
                              "head -n1 /data/disks/a; head -n1 /dev/disks/b");
  EXPECT_NE(log.find(" F hello\n"), std::string::npos) << log;
  EXPECT_NE(log.find(" F secret\n"), std::string::npos) << log;
}

// The image's own file there stays what it is.
TEST_F(DevicesTest, ADeviceTakesNoFilesPlace) {
  ASSERT_TRUE(runtime_->EnsureSandbox(node_->Sandbox("pod1")));
  auto spec = node_->Container("pod1", "d", {"/bin/true"});
  spec.devices = {Spec(*device_, "/bin/busybox")};
  const auto started = runtime_->Start(spec);
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().error.message().find("/bin/busybox: something else is there"),
            std::string::npos)
      << started.error().error.message();
  EXPECT_TRUE(runtime_->RemoveSandbox(PodUid("pod1")));
}

TEST_F(DevicesTest, AHeldDeviceKeepsItsNumberUntilItIsLetGo) {
  EXPECT_EQ(runtime_->HeldDevice(PodUid("pod1"), "data").error().code(), Code::kNotFound);
  ASSERT_TRUE(Hold("data"));
  ASSERT_TRUE(Hold("data")) << "again";
  device_->Detach();
  runtime_ = node_->Open();  // another agent
  const auto held = runtime_->HeldDevice(PodUid("pod1"), "data");
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_EQ(held->major, device_->major());
  EXPECT_EQ(held->minor, device_->minor());
  EXPECT_TRUE(device_->IsAttached()) << "its number may be another's";
  EXPECT_TRUE(runtime_->LetGoOfDevice(PodUid("pod1"), "data"));
  EXPECT_TRUE(runtime_->LetGoOfDevice(PodUid("pod1"), "data")) << "again";
  EXPECT_TRUE(Eventually([&] { return !device_->IsAttached(); }));
}

TEST_F(DevicesTest, WhatIsNoBlockDeviceIsNotHeld) {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(runtime_->HoldDevice(PodUid("pod1"), "data", null.get()).error().code(),
            Code::kInvalidArgument);
  EXPECT_FALSE(runtime_->HeldDevice(PodUid("pod1"), "data"));
}

TEST_F(DevicesTest, TheAuditLetsGoOfWhatNoPodHas) {
  ASSERT_TRUE(Hold("data"));
  EXPECT_TRUE(runtime_->Audit({PodUid("pod1")}, true)->empty());
  EXPECT_TRUE(runtime_->HeldDevice(PodUid("pod1"), "data"));
  const auto found = runtime_->Audit({}, true);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().kind, "device");
  EXPECT_EQ(found->front().reason, "kept open for pod pod1, which is not wanted");
  EXPECT_FALSE(runtime_->HeldDevice(PodUid("pod1"), "data"));
}

}  // namespace
}  // namespace holdfast::runtime
