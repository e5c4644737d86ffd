// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/cni/attachment.h"
#include "tests/fuzz/agent/cni/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

constexpr char kJsonMarks[] = "{}[]:,\"0-e.n";
constexpr char kNetwork[] =
    R"({"cniVersion":"1.1.0","cniVersions":["0.4.0","1.0.0"],"name":"pods","disableGC":true,"plugins":[)"
    R"({"type":"bridge","capabilities":{"portMappings":true},"ipam":{"type":"host-local"}},{"type":"portmap"}]})";

TEST(FuzzSmokeTest, CniConfig) {
  Replay(FuzzCniConfig,
         {kNetwork, R"({"cniVersion":"0.3.1","name":"pods","type":"ptp","ipMasq":true})"},
         kJsonMarks);
}

TEST(FuzzSmokeTest, CniResult) {
  Replay(
      FuzzCniResult,
      {R"({"cniVersion":"1.1.0","interfaces":[{"name":"veth1"},{"name":"eth0","sandbox":"/n","mtu":1400}],)"
       R"("ips":[{"address":"10.0.0.5/24","interface":1},{"address":"fd00::5/64","gateway":"fd00::1"}],)"
       R"("routes":[{"dst":"0.0.0.0/0","table":7}],"dns":{"nameservers":["10.0.0.53"]}})",
       R"({"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.5/24"}]})"},
      kJsonMarks);
}

TEST(FuzzSmokeTest, CniAttachment) {
  agent::cni::Attachment attachment;
  attachment.pod_name = "web";
  attachment.attached.target = {"id1", "/run/netns/x", "eth0", "K8S_POD_NAME=web"};
  attachment.network = *agent::cni::ParseNetworkList(kNetwork);
  attachment.result = {{"cniVersion", "1.0.0"}};
  Replay(FuzzCniAttachment, {agent::cni::EncodeAttachment(attachment)}, kJsonMarks);
}

}  // namespace
}  // namespace holdfast::fuzz
