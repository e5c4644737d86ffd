// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/wanted.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/support/ip.h"

namespace holdfast::netproxy::announce {
namespace {

using model::EndpointList;
using model::FrontendKind;

using test_support::Ip;

std::set<IpAddress> Ips(const std::vector<std::string>& texts) {
  std::set<IpAddress> out;
  for (const std::string& text : texts) out.insert(Ip(text));
  return out;
}

struct Row {
  std::string name;
  std::vector<std::pair<FrontendKind, std::string>> frontends;
  bool local_policy = false;
  bool here = false;  // has an endpoint on this node
};

model::ServicePortRowPtr Make(const Row& row) {
  auto out = std::make_shared<model::ServicePortRow>();
  out->key.name = row.name;
  for (const auto& [kind, address] : row.frontends) {
    model::Frontend frontend;
    frontend.kind = kind;
    frontend.address = Ip(address);
    frontend.outside = row.local_policy ? EndpointList::kLocal : EndpointList::kCluster;
    out->frontends.push_back(frontend);
  }
  out->cluster = {{Ip("10.88.0.1"), 80}};
  if (row.here) out->local = out->cluster;
  return out;
}

model::ServiceChange Change(bool complete, const std::vector<Row>& rows,
                            const std::vector<std::string>& removed = {}) {
  model::ServiceChange change;
  change.complete = complete;
  for (const Row& row : rows) change.rows.push_back(Make(row));
  for (const std::string& name : removed) change.removed.push_back({name, false});
  return change;
}

constexpr auto kLb = FrontendKind::kLoadBalancerIp;
constexpr auto kExternal = FrontendKind::kExternalIp;

TEST(WantedTest, KnowsWhoseAnAddressIs) {
  WantedAddresses wanted;
  wanted.Apply(Change(true, {{"default/a:x", {{kLb, "192.0.2.1"}}},
                             {"default/b", {{kExternal, "192.0.2.1"}, {kLb, "192.0.2.2"}}}}),
               {});
  EXPECT_EQ(wanted.UsersOf(Ip("192.0.2.1")), (std::set<std::string>{"default/a:x", "default/b"}));
  EXPECT_EQ(wanted.UsersOf(Ip("192.0.2.2")), std::set<std::string>{"default/b"});
  EXPECT_EQ(wanted.UsersOf(Ip("192.0.2.3")), std::set<std::string>{});
  wanted.Apply(Change(false, {}, {"default/b"}), {});
  EXPECT_EQ(wanted.UsersOf(Ip("192.0.2.1")), std::set<std::string>{"default/a:x"});
}

TEST(WantedTest, OnlyAddressesForTheOutsideCount) {
  WantedAddresses wanted;
  EXPECT_TRUE(wanted.Apply(Change(true, {{"default/web",
                                          {{FrontendKind::kClusterIp, "10.96.0.1"},
                                           {kExternal, "198.51.100.1"},
                                           {kLb, "198.51.100.2"},
                                           {FrontendKind::kNodePort, "0.0.0.0"}}}}),
                           {}));
  EXPECT_EQ(wanted.addresses(), Ips({"198.51.100.1", "198.51.100.2"}));
}

TEST(WantedTest, WithPolicyLocalSomebodyMustBeHere) {
  WantedAddresses wanted;
  Row row = {"default/web", {{kLb, "198.51.100.2"}}, true, false};
  EXPECT_FALSE(wanted.Apply(Change(true, {row}), {}));
  row.here = true;
  EXPECT_TRUE(wanted.Apply(Change(false, {row}), {}));
  EXPECT_EQ(wanted.addresses(), Ips({"198.51.100.2"}));
  EXPECT_FALSE(wanted.Apply(Change(false, {row}), {})) << "nothing new";
  row.here = false;
  EXPECT_TRUE(wanted.Apply(Change(false, {row}), {}));
  EXPECT_EQ(wanted.addresses(), Ips({}));
}

TEST(WantedTest, AnAddressGoesWithTheLastPortThatHasIt) {
  WantedAddresses wanted;
  const Row http = {"default/web:http", {{kLb, "198.51.100.2"}}};
  const Row https = {"default/web:https", {{kLb, "198.51.100.2"}}};
  EXPECT_TRUE(wanted.Apply(Change(true, {http, https}), {}));
  EXPECT_FALSE(wanted.Apply(Change(false, {}, {"default/web:http"}), {}));
  EXPECT_TRUE(wanted.Apply(Change(false, {}, {"default/web:https"}), {}));
  EXPECT_FALSE(wanted.Apply(Change(false, {}, {"default/web:https"}), {}));
}

TEST(WantedTest, WhatTheKernelRefusedIsNotAnnounced) {
  WantedAddresses wanted;
  const Row row = {"default/web", {{kLb, "198.51.100.2"}}};
  ServiceApplied applied;
  applied.refused = {{{"default/web", false}, "no room"}};
  wanted.Apply(Change(true, {row}), applied);
  EXPECT_EQ(wanted.addresses(), Ips({}));
  EXPECT_TRUE(wanted.Apply(Change(false, {row}), {}));
  EXPECT_EQ(wanted.addresses(), Ips({"198.51.100.2"}));
}

TEST(WantedTest, ACompleteChangeForgetsWhatItDoesNotName) {
  WantedAddresses wanted;
  const Row web = {"default/web", {{kLb, "198.51.100.2"}}};
  const Row dns = {"default/dns", {{kExternal, "198.51.100.3"}}};
  wanted.Apply(Change(true, {web, dns}), {});
  EXPECT_FALSE(wanted.Apply(Change(true, {web, dns}), {})) << "the same once more";
  EXPECT_TRUE(wanted.Apply(Change(true, {dns}), {}));
  EXPECT_EQ(wanted.addresses(), Ips({"198.51.100.3"}));
}

}  // namespace
}  // namespace holdfast::netproxy::announce
