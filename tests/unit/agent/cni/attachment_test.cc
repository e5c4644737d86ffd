// SPDX-License-Identifier: Apache-2.0
#include "agent/cni/attachment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "agent/cni/capabilities.h"
#include "tests/support/scripted_plugins.h"

namespace holdfast::agent::cni {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Attachment Example() {
  Attachment attachment;
  attachment.uid = PodUid("uid-1");
  attachment.pod_namespace = "default";
  attachment.pod_name = "web";
  attachment.attached.target = {"id1", "/run/netns/x", "eth0", "K8S_POD_NAME=web"};
  attachment.attached.capabilities = Json::parse(R"({"dns":{"servers":["10.0.0.1"]}})");
  attachment.network = *ParseNetworkList(
      R"({"cniVersion":"1.0.0","name":"pods","disableGC":true,"plugins":[{"type":"a","x":[1,2]}]})");
  return attachment;
}

class AttachmentStoreTest : public testing::Test {
 protected:
  std::string directory() const { return files_.file("cache"); }
  test_support::ScriptedPlugins files_;
};

TEST_F(AttachmentStoreTest, WhatWasSavedIsThereAgain) {
  Attachment attachment = Example();
  {
    const auto store = AttachmentStore::Open(directory());
    ASSERT_TRUE(store) << store.error().message();
    ASSERT_TRUE(store->Save(attachment));
    EXPECT_FALSE(store->Load()->attachments.at(0).IsAdded());
    attachment.result = Json::parse(R"({"cniVersion":"1.0.0","ips":[]})");
    attachment.detaching = true;
    ASSERT_TRUE(store->Save(attachment));
  }
  const auto store = AttachmentStore::Open(directory());
  const auto loaded = store->Load();
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_THAT(loaded->problems, IsEmpty());
  ASSERT_EQ(loaded->attachments.size(), 1u);
  const Attachment& again = loaded->attachments[0];
  EXPECT_TRUE(again.IsAdded());
  EXPECT_TRUE(again.detaching);
  EXPECT_EQ(EncodeAttachment(again), EncodeAttachment(attachment));
  EXPECT_EQ(again.uid, attachment.uid);
  EXPECT_EQ(again.network, attachment.network);
  struct stat st{};
  ASSERT_EQ(::stat((directory() + "/attachments/uid-1").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u) << "annotations may be anything";
  ASSERT_TRUE(store->Remove(attachment.uid));
  ASSERT_TRUE(store->Remove(attachment.uid)) << "gone already";
  EXPECT_THAT(store->Load()->attachments, IsEmpty());
}

TEST_F(AttachmentStoreTest, WhatCannotBeReadIsToldAndLeftAlone) {
  const auto store = AttachmentStore::Open(directory());
  ASSERT_TRUE(store);
  ASSERT_TRUE(store->Save(Example()));
  const std::string whole = EncodeAttachment(Example());
  std::ofstream(directory() + "/attachments/uid-0") << whole.substr(0, whole.size() / 2);
  std::ofstream(directory() + "/attachments/uid-2") << R"({"kind":"holdfast-cni-attachment 9"})";
  std::ofstream(directory() + "/attachments/uid-3") << R"({"kind":"holdfast-cni-attachment 1"})";
  const auto loaded = store->Load();
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->attachments.size(), 1u);
  EXPECT_THAT(loaded->problems, ElementsAre(HasSubstr("of pod uid-0: "),
                                            HasSubstr("of pod uid-2: of an unknown version"),
                                            HasSubstr("of pod uid-3: ")));
  EXPECT_TRUE(std::filesystem::exists(directory() + "/attachments/uid-0"));
}

TEST_F(AttachmentStoreTest, OneAgentAtATimeUsesADirectory) {
  const auto store = AttachmentStore::Open(directory());
  const auto second = AttachmentStore::Open(directory());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message(), "another agent uses " + directory());
  Attachment attachment = Example();
  attachment.uid = PodUid("../x");
  EXPECT_FALSE(store->Save(attachment));
}

TEST(CapabilitiesTest, WhatThereIsOfThePodIsToldByItsName) {
  PodNetworkRequest request;
  request.uid = PodUid("uid-1");
  request.pod_namespace = "default";
  request.pod_name = "web";
  EXPECT_EQ(ArgsOf(request, "id1"),
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;"
            "K8S_POD_INFRA_CONTAINER_ID=id1;K8S_POD_UID=uid-1");
  EXPECT_EQ(CapabilitiesOf(request, ""), Json::object());
  request.host_ports = {{"", 8080, 80, HostPort::Protocol::kTcp},
                        {"192.0.2.1", 53, 5353, HostPort::Protocol::kUdp}};
  request.bandwidth.egress = 10'000'000;
  request.dns = {{"10.96.0.10"}, {"svc.cluster.local"}, {"ndots:5"}};
  request.annotations = {{"example.com/a", "b"}};
  EXPECT_EQ(CapabilitiesOf(request, "/kubepods/poduid-1"), Json::parse(R"({
    "portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":""},
                    {"hostPort":53,"containerPort":5353,"protocol":"udp","hostIP":"192.0.2.1"}],
    "bandwidth":{"egressRate":10000000,"egressBurst":4294967295},
    "dns":{"servers":["10.96.0.10"],"searches":["svc.cluster.local"],"options":["ndots:5"]},
    "io.kubernetes.cri.pod-annotations":{"example.com/a":"b"},
    "cgroupPath":"/kubepods/poduid-1"})"));
}

}  // namespace
}  // namespace holdfast::agent::cni
