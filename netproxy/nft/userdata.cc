// SPDX-License-Identifier: Apache-2.0
// The description of a set by expressions ("typeof"), as nft writes it for itself into the set's
// user data: needed where a part of the key is no data type of nft's, or nft could not print it.
// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter/nf_tables.h>

#include <algorithm>

#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

// nft's own numbers (its expression.h, proto.h and set user data).
constexpr uint8_t kSetKeyByteOrder = 0;
constexpr uint8_t kSetDataByteOrder = 1;
constexpr uint8_t kSetKeyTypeof = 3;
constexpr uint8_t kSetDataTypeof = 4;
constexpr uint8_t kSetDataInterval = 6;
constexpr uint8_t kTypeofExpression = 0;
constexpr uint8_t kTypeofData = 1;
constexpr uint32_t kPayload = 7;
constexpr uint32_t kMeta = 9;
constexpr uint32_t kConcatenation = 13;
constexpr uint32_t kNumgen = 23;

constexpr size_t kRoom = 255;  // a part's length has eight bits

using Buffer = NftnlPtr<nftnl_udata_buf>;
Buffer NewBuffer() { return Buffer(::nftnl_udata_buf_alloc(kRoom)); }

void PutNested(nftnl_udata_buf* to, uint8_t type, const Buffer& inner) {
  ::nftnl_udata_put(to, type, ::nftnl_udata_buf_len(inner.get()),
                    ::nftnl_udata_buf_data(inner.get()));
}

struct Description {
  uint32_t expression = 0;
  std::vector<uint32_t> numbers;
};

Description Describe(Family family, const KeyPart& part) {
  const bool v6 = family == Family::kIp6;
  switch (part.field) {
    case Field::kSourceAddress:
      return v6 ? Description{kPayload, {13, 8}} : Description{kPayload, {12, 11}};
    case Field::kDestinationAddress:
    case Field::kOriginalDestination:
      return v6 ? Description{kPayload, {13, 9}} : Description{kPayload, {12, 12}};
    case Field::kL4Protocol:
      return {kMeta, {16}};
    case Field::kDestinationPort:
    case Field::kOriginalPort:
      return {kPayload, {11, 2}};
    case Field::kRandom:
      return {kNumgen, {1, part.modulus, 0}};
    case Field::kMark:
      return {kMeta, {3}};
  }
  return {};
}

Buffer DescribePart(Family family, const KeyPart& part) {
  const Description description = Describe(family, part);
  Buffer data = NewBuffer();
  for (size_t i = 0; i < description.numbers.size(); ++i) {
    ::nftnl_udata_put_u32(data.get(), static_cast<uint8_t>(i), description.numbers[i]);
  }
  Buffer out = NewBuffer();
  ::nftnl_udata_put_u32(out.get(), kTypeofExpression, description.expression);
  PutNested(out.get(), kTypeofData, data);
  return out;
}

Buffer DescribeKey(Family family, const Key& key) {
  if (key.size() == 1) return DescribePart(family, key[0]);
  Buffer parts = NewBuffer();
  for (size_t i = 0; i < key.size(); ++i) {
    PutNested(parts.get(), static_cast<uint8_t>(i), DescribePart(family, key[i]));
  }
  Buffer out = NewBuffer();
  ::nftnl_udata_put_u32(out.get(), kTypeofExpression, kConcatenation);
  PutNested(out.get(), kTypeofData, parts);
  return out;
}

}  // namespace

bool NeedsTypeof(const Set& set) {
  return std::any_of(set.key.begin(), set.key.end(),
                     [](const KeyPart& part) { return part.field == Field::kRandom; });
}

NftnlPtr<nftnl_udata_buf> TypeofUserData(Family family, const Set& set) {
  Buffer out(::nftnl_udata_buf_alloc(NFT_USERDATA_MAXLEN));
  const bool map = set.to != MapTo::kNothing;
  ::nftnl_udata_put_u32(out.get(), kSetKeyByteOrder, 0);
  if (map) ::nftnl_udata_put_u32(out.get(), kSetDataByteOrder, 0);
  PutNested(out.get(), kSetKeyTypeof, DescribeKey(family, set.key));
  if (map) {
    PutNested(out.get(), kSetDataTypeof, DescribeKey(family, ValueOf(set.to)));
    ::nftnl_udata_put_u32(out.get(), kSetDataInterval, 0);
  }
  return out;
}

}  // namespace holdfast::netproxy::nft
