// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include <string>

#include "tests/fuzz/runtime/netlink/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

std::string Bytes(const void* data, size_t size) { return {static_cast<const char*>(data), size}; }

std::string Attribute(uint16_t type, const std::string& payload) {
  const nlattr head{static_cast<uint16_t>(sizeof(nlattr) + payload.size()), type};
  std::string out = Bytes(&head, sizeof head) + payload;
  out.resize(NLA_ALIGN(out.size()));
  return out;
}

std::string Nested(uint16_t type, const std::string& payload) {
  return Attribute(type | NLA_F_NESTED, payload);
}

std::string Notification(uint16_t message, const std::string& attributes) {
  const nfgenmsg family{AF_INET, 0, 0};
  nlmsghdr header{};
  header.nlmsg_len =
      static_cast<uint32_t>(NLMSG_HDRLEN + NLMSG_ALIGN(sizeof family) + attributes.size());
  header.nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message);
  return Bytes(&header, sizeof header) + Bytes(&family, sizeof family) + attributes;
}

std::string Tuple(uint16_t type, const std::string& source, const std::string& destination) {
  const std::string addresses =
      Attribute(CTA_IP_V4_SRC, source) + Attribute(CTA_IP_V4_DST, destination);
  const std::string ports = Attribute(CTA_PROTO_NUM, std::string(1, IPPROTO_UDP)) +
                            Attribute(CTA_PROTO_SRC_PORT, std::string("\x12\x34", 2)) +
                            Attribute(CTA_PROTO_DST_PORT, std::string("\x00\x35", 2));
  return Nested(type, Nested(CTA_TUPLE_IP, addresses) + Nested(CTA_TUPLE_PROTO, ports));
}

TEST(FuzzSmokeTest, Notification) {
  const std::string table = Attribute(NFTA_TABLE_NAME, std::string("holdfast\0", 9));
  const std::string chain = Attribute(NFTA_CHAIN_NAME, std::string("input\0", 6));
  Replay(FuzzNotification,
         {Notification(NFT_MSG_NEWTABLE, table) + Notification(NFT_MSG_NEWCHAIN, table + chain) +
          Notification(NFT_MSG_DELRULE, table + chain)});
}

TEST(FuzzSmokeTest, TrackedFlow) {
  const nfgenmsg family{AF_INET, 0, 0};
  const std::string client("\x0a\x58\x00\x02", 4);
  const std::string service("\x0a\x60\x00\x0a", 4);
  Replay(FuzzTrackedFlow,
         {std::string(1, '\0') + Bytes(&family, sizeof family) +
          Tuple(CTA_TUPLE_ORIG, client, service) + Tuple(CTA_TUPLE_REPLY, service, client) +
          Attribute(CTA_ID, std::string(4, '\7'))});
}

TEST(FuzzSmokeTest, GenlAnswer) {
  Replay(FuzzGenlAnswer, {Nested(1, Attribute(1, "ab") + Attribute(2, std::string("rr\0", 3))) +
                          Attribute(3, "abcd")});
}

}  // namespace
}  // namespace holdfast::fuzz
