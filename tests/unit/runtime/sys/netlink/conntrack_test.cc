// SPDX-License-Identifier: Apache-2.0
// What is read of one entry of the connection table, and that nothing is read that is not there, as
// it once was: a fuzz target found it. Each message lies in memory of exactly its size.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/sys/netlink/conntrack_internal.h"

namespace holdfast::sys {
namespace {

constexpr uint8_t kTcp = 6;

std::string Attribute(uint16_t type, const std::string& payload) {
  nlattr header{};
  header.nla_type = type;
  header.nla_len = static_cast<uint16_t>(NLA_HDRLEN + payload.size());
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out += payload;
  out.resize(NLA_ALIGN(out.size()), '\x7f');  // no zeros that would hide what is read too far
  return out;
}

std::string Word16(uint16_t value) {
  value = htons(value);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Word32(uint32_t value) {
  value = htonl(value);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string Address(const std::string& ip) {
  in_addr address{};
  EXPECT_EQ(::inet_pton(AF_INET, ip.c_str(), &address), 1);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

std::string Tuple(uint16_t type, const std::string& source, const std::string& destination,
                  const std::string& ports) {
  return Attribute(type,
                   Attribute(CTA_TUPLE_IP, Attribute(CTA_IP_V4_SRC, Address(source)) +
                                               Attribute(CTA_IP_V4_DST, Address(destination))) +
                       Attribute(CTA_TUPLE_PROTO, ports));
}

std::string Ports(const std::string& protocol, const std::string& source,
                  const std::string& destination) {
  return Attribute(CTA_PROTO_NUM, protocol) + Attribute(CTA_PROTO_SRC_PORT, source) +
         Attribute(CTA_PROTO_DST_PORT, destination);
}

const std::string kTcpNumber(1, '\x06');

std::string Tuples(const std::string& ports) {
  return Tuple(CTA_TUPLE_ORIG, "10.60.0.2", "10.96.0.10", ports) +
         Tuple(CTA_TUPLE_REPLY, "10.88.0.2", "10.60.0.2",
               Ports(kTcpNumber, Word16(8080), Word16(40000)));
}

// `body` behind the message's header, family's header included.
std::optional<TrackedFlow> Parse(const std::string& body) {
  std::vector<char> message(NLMSG_HDRLEN + body.size());
  auto* header = reinterpret_cast<nlmsghdr*>(message.data());
  header->nlmsg_len = static_cast<uint32_t>(message.size());
  std::memcpy(message.data() + NLMSG_HDRLEN, body.data(), body.size());
  return ParseTrackedFlow(header, false, kTcp);
}

std::optional<TrackedFlow> ParseEntry(const std::string& attributes) {
  return Parse(std::string(sizeof(nfgenmsg), '\0') + attributes);
}

TEST(TrackedFlowTest, IsReadAsTheKernelWritesIt) {
  const std::string tuples = Tuples(Ports(kTcpNumber, Word16(40000), Word16(80)));
  auto entry = ParseEntry(tuples + Attribute(CTA_ID, Word32(7)));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->flow.original_source.ToString(), "10.60.0.2");
  EXPECT_EQ(entry->flow.original_destination.ToString(), "10.96.0.10");
  EXPECT_EQ(entry->flow.original_destination_port, 80);
  EXPECT_EQ(entry->flow.reply_source.ToString(), "10.88.0.2");
  EXPECT_EQ(entry->flow.reply_source_port, 8080);
  EXPECT_EQ(entry->id, std::optional(htonl(7)));
  EXPECT_TRUE(entry->flow.answered) << "where the kernel does not say";
  for (const uint32_t more : {0u, uint32_t{IPS_CONFIRMED | IPS_DST_NAT}}) {
    EXPECT_FALSE(ParseEntry(tuples + Attribute(CTA_STATUS, Word32(more)))->flow.answered);
    EXPECT_TRUE(
        ParseEntry(tuples + Attribute(CTA_STATUS, Word32(more | IPS_SEEN_REPLY)))->flow.answered);
  }
}

TEST(TrackedFlowTest, AMessageThatEndsWithinItsHeadersIsNone) {
  for (size_t bytes = 0; bytes <= sizeof(nfgenmsg); ++bytes) {
    EXPECT_FALSE(Parse(std::string(bytes, '\x7f'))) << bytes;
  }
}

TEST(TrackedFlowTest, AnAttributeThatIsTooShortIsNotReadBeyondItsEnd) {
  const std::string none;
  const std::string byte = "\x7f";
  EXPECT_FALSE(ParseEntry(Tuples(Ports(none, Word16(40000), Word16(80))))) << "no protocol";
  const auto port = ParseEntry(Tuples(Ports(kTcpNumber, Word16(40000), byte)));
  ASSERT_TRUE(port);
  EXPECT_EQ(port->flow.original_destination_port, 0);
  const std::string tuples = Tuples(Ports(kTcpNumber, Word16(40000), Word16(80)));
  for (const std::string& short_one : {none, byte, Word16(1)}) {
    const auto entry =
        ParseEntry(tuples + Attribute(CTA_STATUS, short_one) + Attribute(CTA_ID, short_one));
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->id, std::nullopt);
    EXPECT_TRUE(entry->flow.answered);
  }
}

TEST(TrackedFlowTest, AnEntryThatIsCutAnywhereIsReadOnlyAsFarAsItGoes) {
  const std::string whole = Tuples(Ports(kTcpNumber, Word16(40000), Word16(80))) +
                            Attribute(CTA_STATUS, Word32(IPS_SEEN_REPLY)) +
                            Attribute(CTA_ID, Word32(7));
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto entry = ParseEntry(whole.substr(0, bytes));
    EXPECT_FALSE(entry && entry->id) << bytes;
  }
}

}  // namespace
}  // namespace holdfast::sys
