// SPDX-License-Identifier: Apache-2.0
#include "netproxy/podnet/pod_veth.h"

#include <gtest/gtest.h>

namespace holdfast::netproxy {
namespace {

sys::Link LinkOf(const std::string& name, const std::string& alias) {
  sys::Link link;
  link.name = name;
  link.kind = "veth";
  link.alias = alias;
  link.mac = kNodeMac;
  return link;
}

const PodUid kUid("8f8b3f0e-0000-4000-8000-000000000001");
const std::string kName = InterfaceName("hf", kUid);

TEST(PodVethTest, APodsLinkIsKnownByItsNameOrByWhatItSays) {
  EXPECT_EQ(PodInterface("hf", LinkOf(kName, "")), kName);
  const std::string alias = InterfaceAlias("default", "web", kUid);
  EXPECT_EQ(alias, "default/web " + kUid.value);
  EXPECT_EQ(PodInterface("hf", LinkOf("hfp6f0001234", alias)), kName);
  EXPECT_EQ(PodInterface("hf", LinkOf("hfp4f0001234", alias)), kName);
}

TEST(PodVethTest, OtherLinksAreNoPods) {
  EXPECT_EQ(PodInterface("hf", LinkOf("hfp6f0001234", "")), "") << "it lies ready";
  const std::string alias = InterfaceAlias("default", "web", kUid);
  for (const char* name :
       {"eth0", "hf", "hfp5f0001234", "hfp6f000123", "hg01234567890", "hf0123456789g"}) {
    EXPECT_EQ(PodInterface("hf", LinkOf(name, alias)), "") << name;
  }
  sys::Link link = LinkOf(kName, alias);
  link.mac[5] = 9;
  EXPECT_EQ(PodInterface("hf", link), "");
  link = LinkOf(kName, alias);
  link.kind = "dummy";
  EXPECT_EQ(PodInterface("hf", link), "");
}

// The kernel takes 255 bytes with the 0 at the end.
TEST(PodVethTest, AnAliasThatIsCutKeepsTheUid) {
  const std::string alias = InterfaceAlias(std::string(63, 'n'), std::string(253, 'p'), kUid);
  EXPECT_EQ(alias.size(), 254u);
  EXPECT_TRUE(alias.starts_with(std::string(63, 'n') + "/pp"));
  EXPECT_TRUE(alias.ends_with("p " + kUid.value));
  EXPECT_EQ(PodInterface("hf", LinkOf("hfp6f0001234", alias)), kName);
}

}  // namespace
}  // namespace holdfast::netproxy
