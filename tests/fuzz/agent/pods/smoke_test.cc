// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>

#include "agent/objects/kept_inputs.h"
#include "tests/fuzz/agent/pods/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

TEST(FuzzSmokeTest, EnvFile) {
  Replay(FuzzEnvFile, {"B\n# written by the first\nA='1'\n\nB='two\nlines' # end\r\nC=\n"},
         "'=#\n \t\r");
}

TEST(FuzzSmokeTest, ProbeRedirect) {
  Replay(FuzzProbeRedirect,
         {"c\n?z\n/x\nhttp://10.0.0.2/y#f\n//10.0.0.2:81?q\nhttps://u:p@10.0.0.2:443/a/./../b",
          "http://[fd00::1]:80/\n../../x"},
         "/:?#@[].\n%");
}

TEST(FuzzSmokeTest, ResolvConf) {
  Replay(FuzzResolvConf,
         {"# made by hand\nnameserver 192.0.2.53\nnameserver 2001:db8::53%eth0\nsearch a.test "
          "b.test.\n"
          "options ndots:5 edns0\ndomain c.test\n"},
         " \t\n#;.:");
}

TEST(FuzzSmokeTest, KeptInputs) {
  agent::KeptInputs kept;
  auto data = std::make_shared<agent::ObjectData>();
  data->values = {{"key", "value"}, {"bytes", std::string("\0\xff", 2)}};
  data->binary = {"bytes"};
  data->uid = "7e0dc9a1";
  kept.objects[{agent::ObjectKind::kConfigMap, "default", "a"}] = data;
  kept.absent.insert({agent::ObjectKind::kSecret, "default", "b"});
  kept.variables = {"A=1"};
  Replay(FuzzKeptInputs, {agent::EncodeKept(kept)}, "{}[]:,\"0-e.");
}

}  // namespace
}  // namespace holdfast::fuzz
