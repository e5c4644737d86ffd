// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/encode.h"

// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstring>
#include <memory>
#include <utility>

#include "netproxy/nft/nftnl_internal.h"
#include "netproxy/nft/observe.h"

namespace holdfast::netproxy::nft {
namespace {

// nft's numbers for types of keys and values (its datatype.h); a concatenation shifts by six bits.
constexpr uint32_t kTypeInteger = 4;
constexpr uint32_t kTypeIpv4 = 7;
constexpr uint32_t kTypeIpv6 = 8;
constexpr uint32_t kTypeProtocol = 12;
constexpr uint32_t kTypeService = 13;
constexpr uint32_t kTypeMark = 19;
constexpr uint32_t kTypeBits = 6;

// A netlink attribute's length has 16 bits, and all elements of a message lie in one: a message
// ends where the longest element (a chain's name has up to 255 bytes) would still have had room.
constexpr size_t kElementsPerMessage = 400;
constexpr size_t kElementBytes = UINT16_MAX - 1024;
constexpr size_t kMessageBytes = 16 * 1024;

uint32_t TypeOf(Family family, Field field) {
  switch (field) {
    case Field::kSourceAddress:
    case Field::kDestinationAddress:
    case Field::kOriginalDestination:
      return family == Family::kIp6 ? kTypeIpv6 : kTypeIpv4;
    case Field::kL4Protocol:
      return kTypeProtocol;
    case Field::kDestinationPort:
    case Field::kOriginalPort:
      return kTypeService;
    case Field::kRandom:
      return kTypeInteger;
    case Field::kMark:
      return kTypeMark;
  }
  return 0;
}

struct Layout {
  uint32_t type = 0;
  uint32_t size = 0;
};

Layout LayoutOf(Family family, const Key& key) {
  Layout out;
  for (const KeyPart& part : key) {
    out.type = out.type << kTypeBits | TypeOf(family, part.field);
    out.size += SizeOf(family, part.field);
  }
  // Alone, a port is not padded.
  if (key.size() == 1 && out.type == kTypeService) out.size = 2;
  return out;
}

uint32_t HookNumber(Hook::Point point) {
  switch (point) {
    case Hook::Point::kPrerouting:
      return NF_INET_PRE_ROUTING;
    case Hook::Point::kInput:
      return NF_INET_LOCAL_IN;
    case Hook::Point::kOutput:
      return NF_INET_LOCAL_OUT;
    case Hook::Point::kPostrouting:
      return NF_INET_POST_ROUTING;
  }
  return 0;
}

// Appends one netlink message with nested attributes to a string.
class Writer {
 public:
  Writer(std::string& out, uint16_t type, uint16_t family, uint16_t flags, uint32_t sequence)
      : out_(out), begin_(out.size()) {
    nlmsghdr header{};
    header.nlmsg_type = static_cast<uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type);
    header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header.nlmsg_seq = sequence;
    Append(&header, sizeof header);
    const nfgenmsg generic{static_cast<uint8_t>(family), NFNETLINK_V0, 0};
    Append(&generic, sizeof generic);
  }
  void Put(uint16_t type, std::string_view data) {
    const nlattr head{static_cast<uint16_t>(sizeof(nlattr) + data.size()), type};
    Append(&head, sizeof head);
    Append(data.data(), data.size());
    out_.append(-data.size() % NLA_ALIGNTO, '\0');
  }
  // A zero behind the text, as libmnl does.
  void PutText(uint16_t type, const char* text) { Put(type, {text, std::strlen(text) + 1}); }
  size_t Open(uint16_t type) {
    const size_t at = out_.size();
    const nlattr head{sizeof(nlattr), static_cast<uint16_t>(type | NLA_F_NESTED)};
    Append(&head, sizeof head);
    return at;
  }
  void Close(size_t at) {
    reinterpret_cast<nlattr*>(out_.data() + at)->nla_len = static_cast<uint16_t>(out_.size() - at);
  }
  void Finish() {
    reinterpret_cast<nlmsghdr*>(out_.data() + begin_)->nlmsg_len =
        static_cast<uint32_t>(out_.size() - begin_);
  }

 private:
  void Append(const void* data, size_t size) { out_.append(static_cast<const char*>(data), size); }

  std::string& out_;
  size_t begin_;
};

class Encoder {
 public:
  Encoder() {
    ::nftnl_batch_begin(Buffer(), 0);
    Take();
  }

  void Encode(const Operation& operation, uint32_t sequence) {
    family_ = operation.family;
    table_ = operation.table.c_str();
    sequence_ = sequence;
    std::visit([this](const auto& change) { Put(change); }, operation.change);
  }

  std::string Finish() && {
    // The answer to the last message tells that all was committed.
    reinterpret_cast<nlmsghdr*>(out_.data() + last_)->nlmsg_flags |= NLM_F_ACK;
    ::nftnl_batch_end(Buffer(), sequence_ + 1);
    Take();
    return std::move(out_);
  }

 private:
  // For what libnftnl builds: no such message is long.
  char* Buffer() {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kMessageBytes);
    return buffer_.get();
  }

  nlmsghdr* Header(uint16_t type, uint16_t flags) {
    return ::nftnl_nlmsg_build_hdr(Buffer(), type, ProtocolFamily(family_), flags, sequence_);
  }

  // Moves the finished message from the buffer to the batch.
  void Take() {
    last_ = out_.size();
    const auto* header = reinterpret_cast<const nlmsghdr*>(Buffer());
    out_.append(Buffer(), MNL_ALIGN(header->nlmsg_len));
  }

  void PutTable(uint16_t type, uint16_t flags) {
    NftnlPtr<nftnl_table> t(::nftnl_table_alloc());
    ::nftnl_table_set_str(t.get(), NFTNL_TABLE_NAME, table_);
    ::nftnl_table_nlmsg_build_payload(Header(type, flags), t.get());
    Take();
  }
  void Put(const AddTable&) { PutTable(NFT_MSG_NEWTABLE, NLM_F_CREATE); }
  void Put(const DeleteTable&) { PutTable(NFT_MSG_DELTABLE, 0); }

  void Put(const AddChain& c) {
    NftnlPtr<nftnl_chain> chain(::nftnl_chain_alloc());
    ::nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TABLE, table_);
    ::nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_NAME, c.name.c_str());
    if (c.hook) {
      ::nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_HOOKNUM, HookNumber(c.hook->point));
      ::nftnl_chain_set_s32(chain.get(), NFTNL_CHAIN_PRIO, c.hook->priority);
      ::nftnl_chain_set_str(chain.get(), NFTNL_CHAIN_TYPE,
                            c.hook->type == Hook::Type::kNat ? "nat" : "filter");
      ::nftnl_chain_set_u32(chain.get(), NFTNL_CHAIN_POLICY, NF_ACCEPT);
    }
    ::nftnl_chain_nlmsg_build_payload(Header(NFT_MSG_NEWCHAIN, NLM_F_CREATE), chain.get());
    Take();
  }

  void PutChainName(uint16_t type, const std::string& name) {
    Writer message(out_, type, ProtocolFamily(family_), 0, StartMessage());
    const bool rules = type == NFT_MSG_DELRULE;
    message.PutText(rules ? uint16_t{NFTA_RULE_TABLE} : uint16_t{NFTA_CHAIN_TABLE}, table_);
    message.PutText(rules ? uint16_t{NFTA_RULE_CHAIN} : uint16_t{NFTA_CHAIN_NAME}, name.c_str());
    message.Finish();
  }
  void Put(const FlushChain& c) { PutChainName(NFT_MSG_DELRULE, c.name); }
  void Put(const DeleteChain& c) { PutChainName(NFT_MSG_DELCHAIN, c.name); }

  void Put(const DeleteSet& c) {
    Writer message(out_, NFT_MSG_DELSET, ProtocolFamily(family_), 0, StartMessage());
    message.PutText(NFTA_SET_TABLE, table_);
    message.PutText(NFTA_SET_NAME, c.set.name.c_str());
    message.Finish();
  }

  void Put(const AddRule& c) {
    NftnlPtr<nftnl_rule> rule(::nftnl_rule_alloc());
    ::nftnl_rule_set_str(rule.get(), NFTNL_RULE_TABLE, table_);
    ::nftnl_rule_set_str(rule.get(), NFTNL_RULE_CHAIN, c.chain.c_str());
    for (const Statement& s : c.rule.statements) AppendExpressions(rule.get(), family_, s);
    NftnlPtr<nftnl_udata_buf> comment(::nftnl_udata_buf_alloc(NFT_USERDATA_MAXLEN));
    ::nftnl_udata_put_strz(comment.get(), NFTNL_UDATA_RULE_COMMENT, c.rule.comment.c_str());
    ::nftnl_rule_set_data(rule.get(), NFTNL_RULE_USERDATA, ::nftnl_udata_buf_data(comment.get()),
                          ::nftnl_udata_buf_len(comment.get()));
    ::nftnl_rule_nlmsg_build_payload(Header(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND),
                                     rule.get());
    Take();
  }

  static uint32_t FlagsOf(const Set& set) {
    uint32_t flags = set.to == MapTo::kNothing ? 0 : NFT_SET_MAP;
    if (set.timeout.count() != 0) flags |= NFT_SET_TIMEOUT | NFT_SET_EVAL;
    return flags;
  }

  void PutValueType(nftnl_set* set, MapTo to) {
    if (to == MapTo::kNothing) return;
    const Layout value = LayoutOf(family_, ValueOf(to));
    ::nftnl_set_set_u32(set, NFTNL_SET_DATA_TYPE,
                        to == MapTo::kVerdict ? NFT_DATA_VERDICT : value.type);
    ::nftnl_set_set_u32(set, NFTNL_SET_DATA_LEN, value.size);
  }

  void Put(const AddSet& c) {
    const Layout key = LayoutOf(family_, c.set.key);
    NftnlPtr<nftnl_set> set(::nftnl_set_alloc());
    ::nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table_);
    ::nftnl_set_set_str(set.get(), NFTNL_SET_NAME, c.set.name.c_str());
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_ID, sequence_);  // unique within the batch
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_FLAGS, FlagsOf(c.set));
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_TYPE, key.type);
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_LEN, key.size);
    PutValueType(set.get(), c.set.to);
    if (c.set.size != 0) ::nftnl_set_set_u32(set.get(), NFTNL_SET_DESC_SIZE, c.set.size);
    if (c.set.timeout.count() != 0) {
      ::nftnl_set_set_u64(set.get(), NFTNL_SET_TIMEOUT,
                          static_cast<uint64_t>(std::chrono::milliseconds(c.set.timeout).count()));
    }
    if (NeedsTypeof(c.set)) {
      const NftnlPtr<nftnl_udata_buf> description = TypeofUserData(family_, c.set);
      ::nftnl_set_set_data(set.get(), NFTNL_SET_USERDATA, ::nftnl_udata_buf_data(description.get()),
                           ::nftnl_udata_buf_len(description.get()));
    }
    ::nftnl_set_nlmsg_build_payload(Header(NFT_MSG_NEWSET, NLM_F_CREATE), set.get());
    Take();
  }

  static void PutElement(Writer& message, const Set& set, const Element& element) {
    const size_t one = message.Open(NFTA_LIST_ELEM);
    const size_t key = message.Open(NFTA_SET_ELEM_KEY);
    message.Put(NFTA_DATA_VALUE, element.key.view());
    message.Close(key);
    if (set.to != MapTo::kNothing) {
      const size_t data = message.Open(NFTA_SET_ELEM_DATA);
      if (set.to == MapTo::kVerdict) {
        const size_t verdict = message.Open(NFTA_DATA_VERDICT);
        const uint32_t code = htonl(static_cast<uint32_t>(NFT_JUMP));
        message.Put(NFTA_VERDICT_CODE, {reinterpret_cast<const char*>(&code), sizeof code});
        message.PutText(NFTA_VERDICT_CHAIN, element.chain.c_str());
        message.Close(verdict);
      } else {
        message.Put(NFTA_DATA_VALUE, element.value.view());
      }
      message.Close(data);
    }
    message.Close(one);
  }

  void PutElements(const Set& set, const std::vector<Element>& elements, uint16_t type,
                   uint16_t flags) {
    for (size_t at = 0; at < elements.size();) {
      Writer message(out_, type, ProtocolFamily(family_), flags, StartMessage());
      message.PutText(NFTA_SET_ELEM_LIST_TABLE, table_);
      message.PutText(NFTA_SET_ELEM_LIST_SET, set.name.c_str());
      const size_t list = message.Open(NFTA_SET_ELEM_LIST_ELEMENTS);
      for (size_t n = 0;
           n < kElementsPerMessage && at < elements.size() && out_.size() - list < kElementBytes;
           ++n, ++at) {
        PutElement(message, set, elements[at]);
      }
      message.Close(list);
      message.Finish();
    }
  }
  void Put(const AddElements& c) {
    PutElements(c.set, c.elements, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
  }
  void Put(const DeleteElements& c) { PutElements(c.set, c.elements, NFT_MSG_DELSETELEM, 0); }

  // The message that begins here is the last one so far.
  uint32_t StartMessage() {
    last_ = out_.size();
    return sequence_;
  }

  std::unique_ptr<char[]> buffer_;
  std::string out_;
  size_t last_ = 0;
  Family family_ = Family::kIp;
  const char* table_ = "";
  uint32_t sequence_ = 0;
};

}  // namespace

SetShape ShapeOf(Family family, const Set& set) {
  SetShape shape;
  shape.key_type = LayoutOf(family, set.key).type;
  if (set.to == MapTo::kVerdict)
    shape.data_type = NFT_DATA_VERDICT;
  else if (set.to != MapTo::kNothing)
    shape.data_type = LayoutOf(family, ValueOf(set.to)).type;
  shape.size = set.size;
  shape.timeout_ms = static_cast<uint64_t>(std::chrono::milliseconds(set.timeout).count());
  return shape;
}

uint16_t ProtocolFamily(Family family) {
  return family == Family::kIp6 ? NFPROTO_IPV6 : NFPROTO_IPV4;
}

std::string EncodeBatch(const Transaction& transaction) {
  Encoder encoder;
  uint32_t sequence = 0;
  for (const Operation& operation : transaction.operations) encoder.Encode(operation, ++sequence);
  return std::move(encoder).Finish();
}

}  // namespace holdfast::netproxy::nft
