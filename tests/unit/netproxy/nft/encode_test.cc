// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/encode.h"

#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netlink.h>

#include <cstring>
#include <string>
#include <string_view>

#include "holdfast/base/strings.h"

namespace holdfast::netproxy::nft {
namespace {

constexpr size_t kLongestName = 255;  // NFT_NAME_MAXLEN less its zero

// Elements of a message, of which `attributes` is what stands behind its headers: each attribute
// must end where the next one, or what it lies in, begins.
size_t CountElements(std::string_view attributes) {
  size_t count = 0;
  while (!attributes.empty()) {
    nlattr head{};
    std::memcpy(&head, attributes.data(), sizeof head);
    EXPECT_GE(head.nla_len, sizeof head);
    EXPECT_LE(head.nla_len, attributes.size());
    if (head.nla_len < sizeof head || head.nla_len > attributes.size()) return count;
    const int type = head.nla_type & NLA_TYPE_MASK;
    if (type == NFTA_SET_ELEM_LIST_ELEMENTS) {
      std::string_view list = attributes.substr(sizeof head, head.nla_len - sizeof head);
      while (!list.empty()) {
        std::memcpy(&head, list.data(), sizeof head);
        EXPECT_LE(head.nla_len, list.size());
        if (head.nla_len < sizeof head || head.nla_len > list.size()) return count;
        ++count;
        list.remove_prefix(head.nla_len);
      }
      return count;
    }
    attributes.remove_prefix(NLMSG_ALIGN(head.nla_len));
  }
  return count;
}

TEST(EncodeTest, ElementsWithTheLongestNamesFitIntoTheirAttribute) {
  Set set;
  set.name = "services";
  set.key = {KeyPart{Field::kDestinationAddress}, KeyPart{Field::kL4Protocol},
             KeyPart{Field::kDestinationPort}};
  set.to = MapTo::kVerdict;
  AddElements add{set, {}};
  constexpr size_t kElements = 1000;
  for (size_t i = 0; i < kElements; ++i) {
    Element element;
    const auto number = static_cast<uint32_t>(i);
    element.key = std::string_view(reinterpret_cast<const char*>(&number), sizeof number);
    element.chain = StrCat(number, "/", std::string(kLongestName, 'c')).substr(0, kLongestName);
    add.elements.push_back(element);
  }
  Transaction transaction;
  transaction.operations.push_back({Family::kIp6, "t", add});
  const std::string batch = EncodeBatch(transaction);
  size_t elements = 0;
  for (std::string_view rest = batch; !rest.empty();) {
    nlmsghdr header{};
    ASSERT_GE(rest.size(), sizeof header);
    std::memcpy(&header, rest.data(), sizeof header);
    ASSERT_LE(header.nlmsg_len, rest.size());
    if ((header.nlmsg_type & 0xff) == NFT_MSG_NEWSETELEM) {
      elements += CountElements(rest.substr(0, header.nlmsg_len).substr(sizeof header + 4));
    }
    rest.remove_prefix(NLMSG_ALIGN(header.nlmsg_len));
  }
  EXPECT_EQ(elements, kElements);
}

}  // namespace
}  // namespace holdfast::netproxy::nft
