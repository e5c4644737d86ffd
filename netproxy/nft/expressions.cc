// SPDX-License-Identifier: Apache-2.0
// Statements as register machine code, in the exact form that nft itself makes, so that nft
// recognises and prints it.
// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>

#include <array>
#include <cstring>
#include <optional>

#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

// ct state bits: established is 1 << 1, related 1 << 2 (NF_CT_STATE_BIT).
constexpr uint32_t kKnownStates = (1u << 1) | (1u << 2);

class ExpressionBuilder {
 public:
  ExpressionBuilder(nftnl_rule* rule, Family family) : rule_(rule), v6_(family == Family::kIp6) {}

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
    const std::array<uint8_t, 16> mask = MaskOf(m.cidr.prefix);
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
    LoadKey(m.key, NFT_REG_1);
    Lookup(m.set, NFT_REG_1, std::nullopt);
  }

  void operator()(const MatchLocalSource&) {
    Fib(NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_SADDR);
    CompareU32(false, 2);  // RTN_LOCAL
  }

  void operator()(const MatchProtocol& m) {
    Meta(NFT_META_L4PROTO, NFT_REG_1);
    Compare(false, &m.protocol, 1);
  }

  void operator()(const MatchHasPort& m) {
    (*this)(MatchProtocol{m.protocol});
    Load(Field::kDestinationPort, NFT_REG_1);
    const uint16_t none = 0;
    Compare(true, &none, sizeof none);
  }

  void operator()(const MatchMark& m) {
    Meta(NFT_META_MARK, NFT_REG_1);
    And(&m.bits, sizeof m.bits);
    CompareU32(true, 0);
  }

  void operator()(const SetMark& m) {
    Meta(NFT_META_MARK, NFT_REG_1);
    const uint32_t keep = ~m.bits;
    const uint32_t flip = m.set ? m.bits : 0;
    Bitwise(NFT_REG_1, &keep, &flip, sizeof keep);
    StoreMark();
  }

  void operator()(const SetMarkFromMap& m) {
    LoadKey(m.key, NFT_REG_1);
    Lookup(m.map, NFT_REG_1, NFT_REG_1);
    StoreMark();
  }

  void operator()(const DnatFromMap& m) {
    LoadKey(m.key, NFT_REG_1);
    Lookup(m.map, NFT_REG_1, NFT_REG_1);
    Dnat(RegisterAt(AddressSize()));
  }

  void operator()(const DnatFromTwoMaps& m) {
    LoadKey(m.key, NFT_REG_1);
    Lookup(m.address_map, NFT_REG_1, NFT_REG_1);
    LoadKey(m.key, NFT_REG_2);
    Lookup(m.port_map, NFT_REG_2, NFT_REG_2);
    Dnat(NFT_REG_2);
  }

  void operator()(const VerdictFromMap& m) {
    LoadKey(m.key, NFT_REG_1);
    Lookup(m.map, NFT_REG_1, NFT_REG_VERDICT);
  }

  void operator()(const UpdateMap& m) {
    const uint32_t value = RegisterAt((LoadKey(m.key, NFT_REG_1) + 15) / 16 * 16);
    Load(m.value, value);
    nftnl_expr* e = Add("dynset");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_KEY, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_SREG_DATA, value);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_DYNSET_OP, NFT_DYNSET_OP_UPDATE);
    ::nftnl_expr_set_u64(e, NFTNL_EXPR_DYNSET_TIMEOUT,
                         static_cast<uint64_t>(std::chrono::milliseconds(m.timeout).count()));
    ::nftnl_expr_set_str(e, NFTNL_EXPR_DYNSET_SET_NAME, m.map.c_str());
  }

  void operator()(const Masquerade&) {
    nftnl_expr* e = Add("masq");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
  }

  void operator()(const Jump& m) {
    ::nftnl_expr_set_str(Verdict(NFT_JUMP), NFTNL_EXPR_IMM_CHAIN, m.chain.c_str());
  }
  void operator()(const Goto& m) {
    ::nftnl_expr_set_str(Verdict(NFT_GOTO), NFTNL_EXPR_IMM_CHAIN, m.chain.c_str());
  }
  void operator()(const Return&) { Verdict(NFT_RETURN); }
  void operator()(const Drop&) { Verdict(NF_DROP); }

  void operator()(const Reject&) {
    nftnl_expr* e = Add("reject");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    // ICMP_PORT_UNREACH and ICMPV6_PORT_UNREACH
    ::nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, v6_ ? 4 : 3);
  }

 private:
  uint32_t AddressSize() const { return v6_ ? 16 : 4; }

  // Where the part at `offset` of a key lies, seen from NFT_REG_1, in the kernel's own words: a
  // multiple of 16 bytes has a name of its own.
  static uint32_t RegisterAt(uint32_t offset) {
    return offset % 16 == 0 ? NFT_REG_1 + offset / 16 : NFT_REG32_00 + offset / 4;
  }
  static uint32_t OffsetOf(uint32_t reg) {
    return reg < NFT_REG32_00 ? (reg - NFT_REG_1) * 16 : (reg - NFT_REG32_00) * 4;
  }

  void Dnat(uint32_t port_register) {
    nftnl_expr* e = Add("nat");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_FAMILY,
                         ProtocolFamily(v6_ ? Family::kIp6 : Family::kIp));
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG_1);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NAT_REG_PROTO_MIN, port_register);
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

  void StoreMark() {
    nftnl_expr* e = Add("meta");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, NFT_META_MARK);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_META_SREG, NFT_REG_1);
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

  void Load(const KeyPart& part, uint32_t to) {
    switch (part.field) {
      case Field::kSourceAddress:
        Payload(NFT_PAYLOAD_NETWORK_HEADER, v6_ ? 8 : 12, AddressSize(), to);
        break;
      case Field::kDestinationAddress:
        Payload(NFT_PAYLOAD_NETWORK_HEADER, v6_ ? 24 : 16, AddressSize(), to);
        break;
      case Field::kL4Protocol:
        Meta(NFT_META_L4PROTO, to);
        break;
      case Field::kDestinationPort:
        Payload(NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, to);
        break;
      case Field::kRandom:
        Random(part.modulus, to);
        break;
      case Field::kOriginalDestination:
        CtOriginal(v6_ ? NFT_CT_DST_IP6 : NFT_CT_DST_IP, to);
        break;
      case Field::kOriginalPort:
        CtOriginal(NFT_CT_PROTO_DST, to);
        break;
      case Field::kMark:
        Meta(NFT_META_MARK, to);
        break;
    }
    if (!part.prefix) return;
    const std::array<uint8_t, 16> mask = MaskOf(*part.prefix);
    const std::array<uint8_t, 16> zero{};
    Bitwise(to, mask.data(), zero.data(), AddressSize());
  }

  // Returns how many bytes the key takes.
  uint32_t LoadKey(const Key& key, uint32_t first) {
    const uint32_t begin = OffsetOf(first);
    uint32_t offset = begin;
    for (const KeyPart& part : key) {
      Load(part, RegisterAt(offset));
      offset += SizeOf(v6_ ? Family::kIp6 : Family::kIp, part.field);
    }
    return offset - begin;
  }

  void Lookup(const std::string& set, uint32_t from, std::optional<uint32_t> to) {
    nftnl_expr* e = Add("lookup");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, from);
    if (to) ::nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_DREG, *to);
    ::nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set.c_str());
  }

  void Random(uint32_t modulus, uint32_t to) {
    nftnl_expr* e = Add("numgen");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NG_DREG, to);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NG_MODULUS, modulus);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM);
  }

  void CtOriginal(uint32_t key, uint32_t to) {
    nftnl_expr* e = Add("ct");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CT_KEY, key);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_CT_DREG, to);
    ::nftnl_expr_set_u8(e, NFTNL_EXPR_CT_DIR, 0);  // IP_CT_DIR_ORIGINAL
  }

  static std::array<uint8_t, 16> MaskOf(uint8_t prefix) {
    std::array<uint8_t, 16> mask{};
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = Cidr::MaskByte(prefix, i);
    return mask;
  }

  void And(const void* mask, uint32_t size) {
    const std::array<uint8_t, 16> zero{};
    Bitwise(NFT_REG_1, mask, zero.data(), size);
  }

  void Bitwise(uint32_t reg, const void* keep, const void* flip, uint32_t size) {
    nftnl_expr* e = Add("bitwise");
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, reg);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, reg);
    ::nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, size);
    ::nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, keep, size);
    ::nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, flip, size);
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
  std::visit(ExpressionBuilder(rule, family), statement);
}

}  // namespace holdfast::netproxy::nft
