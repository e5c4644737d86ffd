// SPDX-License-Identifier: Apache-2.0
// Statements as register machine code, in the exact form that nft itself makes, so that nft
// recognises and prints it.
// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>

#include <array>
#include <cstring>

#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

// ct state bits: established is 1 << 1, related 1 << 2 (NF_CT_STATE_BIT).
constexpr uint32_t kKnownStates = (1u << 1) | (1u << 2);

class Builder {
 public:
  Builder(nftnl_rule* rule, Family family) : rule_(rule), v6_(family == Family::kIp6) {}

  void operator()(const MatchInterface& m) {
    Meta(m.incoming ? NFT_META_IIFNAME : NFT_META_OIFNAME, NFT_REG_1);
    std::array<char, IFNAMSIZ> name{};
    const bool prefix = m.name.ends_with('*');
    const size_t length = prefix ? m.name.size() - 1 : m.name.size();
    std::memcpy(name.data(), m.name.data(), std::min(length, name.size() - 1));
    Compare(m.negate, name.data(), static_cast<uint32_t>(prefix ? length : name.size()));
  }

  void operator()(const MatchCidr& m) {
    Load(m.field, NFT_REG_1);
    std::array<uint8_t, 16> mask{};
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = Cidr::MaskByte(m.cidr.prefix, i);
    const auto size = static_cast<uint32_t>(m.cidr.network.size());
    if (m.cidr.prefix < m.cidr.network.MaxPrefix()) And(mask.data(), size);
    Compare(m.negate, m.cidr.network.bytes.data(), size);
  }

  void operator()(const MatchLocalDestination&) {
    Fib(NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR);
    CompareU32(false, 2);  // RTN_LOCAL
  }

  void operator()(const MatchSpoofedSource&) {
    Fib(NFT_FIB_RESULT_OIF, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF);
    CompareU32(false, 0);
  }

  void operator()(const MatchCtNew&) {
    Ct(NFT_CT_STATE);
    And(&kKnownStates, sizeof kKnownStates);
    CompareU32(false, 0);
  }

  void operator()(const MatchCtDnat& m) {
    Ct(NFT_CT_STATUS);
    const uint32_t bit = IPS_DST_NAT;
    And(&bit, sizeof bit);
    CompareU32(!m.negate, 0);
  }

  void operator()(const MatchSet& m) {
    LoadKey(m.key);
    Lookup(m.set, /*is_map=*/false);
  }

  void operator()(const DnatFromMap& m) {
    LoadKey(m.key);
    Lookup(m.map, /*is_map=*/true);
    nftnl_expr* e = Add("nat");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY,
                         ProtocolFamily(v6_ ? Family::kIp6 : Family::kIp));
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, RegisterAt(AddressSize()));
  }

  void operator()(const Masquerade&) {
    nftnl_expr* e = Add("masq");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
  }

  void operator()(const Jump& m) {
    nftnl_expr* e = Verdict(NFT_JUMP);
    ::nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, m.chain.c_str());
  }

  void operator()(const Drop&) { Verdict(NF_DROP); }

 private:
  uint32_t AddressSize() const { return v6_ ? 16 : 4; }

  // Where the part at `offset` of a key lies: NFT_REG_1 spans the first four 32-bit registers.
  static uint32_t RegisterAt(uint32_t offset) {
    return offset == 0 ? uint32_t{NFT_REG_1} : NFT_REG32_00 + offset / 4;
  }

  nftnl_expr* Add(const char* name) {
    nftnl_expr* e = ::nftnl_expr_alloc(name);  // owned by the rule
    ::nftnl_rule_add_expr(rule_, e);
    return e;
  }

  nftnl_expr* Verdict(int verdict) {
    nftnl_expr* e = Add("immediate");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(verdict));
    return e;
  }

  void Meta(uint32_t key, uint32_t to) {
    nftnl_expr* e = Add("meta");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, to);
  }

  void Ct(uint32_t key) {
    nftnl_expr* e = Add("ct");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, NFT_REG_1);
  }

  void Fib(uint32_t result, uint32_t flags) {
    nftnl_expr* e = Add("fib");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_DREG, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_RESULT, result);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_FLAGS, flags);
  }

  void Payload(uint32_t base, uint32_t offset, uint32_t length, uint32_t to) {
    nftnl_expr* e = Add("payload");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, length);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, to);
  }

  // Returns how much of a key the field takes.
  uint32_t Load(Field field, uint32_t to) {
    switch (field) {
      case Field::kSourceAddress:
        Payload(NFT_PAYLOAD_NETWORK_HEADER, v6_ ? 8 : 12, AddressSize(), to);
        return AddressSize();
      case Field::kDestinationAddress:
        Payload(NFT_PAYLOAD_NETWORK_HEADER, v6_ ? 24 : 16, AddressSize(), to);
        return AddressSize();
      case Field::kL4Protocol:
        Meta(NFT_META_L4PROTO, to);
        return 4;
      case Field::kDestinationPort:
        Payload(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, to);
        return 4;
    }
    return 0;
  }

  void LoadKey(const std::vector<Field>& key) {
    uint32_t offset = 0;
    for (Field field : key) offset += Load(field, RegisterAt(offset));
  }

  void Lookup(const std::string& set, bool is_map) {
    nftnl_expr* e = Add("lookup");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
    if (is_map) ::nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_1);
    ::nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set.c_str());
  }

  void And(const void* mask, uint32_t size) {
    const std::array<uint8_t, 16> zero{};
    nftnl_expr* e = Add("bitwise");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, size);
    ::nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, size);
    ::nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, zero.data(), size);
  }

  void Compare(bool negate, const void* data, uint32_t size) {
    nftnl_expr* e = Add("cmp");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, negate ? NFT_CMP_NEQ : NFT_CMP_EQ);
    ::nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, data, size);
  }

  void CompareU32(bool negate, uint32_t value) { Compare(negate, &value, sizeof value); }

  nftnl_rule* rule_;
  bool v6_;
};

}  // namespace

void AppendExpressions(nftnl_rule* rule, Family family, const Statement& statement) {
  std::visit(Builder(rule, family), statement);
}

}  // namespace holdfast::netproxy::nft
