// SPDX-License-Identifier: Apache-2.0
#include "netproxy/nft/encode.h"

// Before the kernel's headers, which leave out what libc defined.
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <utility>

#include "netproxy/nft/nftnl_internal.h"

namespace holdfast::netproxy::nft {
namespace {

// nft's numbers for types of keys and values (its datatype.h); a concatenation shifts by six bits.
constexpr uint32_t kTypeIpv4 = 7;
constexpr uint32_t kTypeIpv6 = 8;
constexpr uint32_t kTypeProtocol = 12;
constexpr uint32_t kTypeService = 13;
constexpr uint32_t kTypeBits = 6;

// A netlink attribute's length has 16 bits, and all elements of a message lie in one.
constexpr size_t kElementsPerMessage = 400;
constexpr size_t kMessageBytes = 128 * 1024;

uint32_t TypeOf(Family family, Field field) {
  switch (field) {
    case Field::kSourceAddress:
    case Field::kDestinationAddress:
      return family == Family::kIp6 ? kTypeIpv6 : kTypeIpv4;
    case Field::kL4Protocol:
      return kTypeProtocol;
    case Field::kDestinationPort:
      return kTypeService;
  }
  return 0;
}

struct Layout {
  uint32_t type = 0;
  uint32_t size = 0;
};

Layout LayoutOf(Family family, const std::vector<Field>& fields) {
  Layout out;
  for (Field field : fields) {
    const uint32_t type = TypeOf(family, field);
    out.type = out.type << kTypeBits | type;
    out.size += type == kTypeIpv6 ? 16 : 4;
  }
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

class Encoder {
 public:
  Encoder() : buffer_(kMessageBytes) {
    ::nftnl_batch_begin(buffer_.data(), 0);
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
    ::nftnl_batch_end(buffer_.data(), sequence_ + 1);
    Take();
    return std::move(out_);
  }

 private:
  nlmsghdr* Header(uint16_t type, uint16_t flags) {
    return ::nftnl_nlmsg_build_hdr(buffer_.data(), type, ProtocolFamily(family_), flags, sequence_);
  }

  // Moves the finished message from the buffer to the batch.
  void Take() {
    last_ = out_.size();
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer_.data());
    out_.append(buffer_.data(), MNL_ALIGN(header->nlmsg_len));
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

  void Put(const AddSet& c) {
    const Layout key = LayoutOf(family_, c.set.key);
    NftnlPtr<nftnl_set> set(::nftnl_set_alloc());
    ::nftnl_set_set_str(set.get(), NFTNL_SET_TABLE, table_);
    ::nftnl_set_set_str(set.get(), NFTNL_SET_NAME, c.set.name.c_str());
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_ID, sequence_);  // unique within the batch
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_FLAGS, c.set.to_endpoint ? NFT_SET_MAP : 0);
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_TYPE, key.type);
    ::nftnl_set_set_u32(set.get(), NFTNL_SET_KEY_LEN, key.size);
    if (c.set.to_endpoint) {
      const Layout value = LayoutOf(family_, {Field::kDestinationAddress, Field::kDestinationPort});
      ::nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_TYPE, value.type);
      ::nftnl_set_set_u32(set.get(), NFTNL_SET_DATA_LEN, value.size);
    }
    ::nftnl_set_nlmsg_build_payload(Header(NFT_MSG_NEWSET, NLM_F_CREATE), set.get());
    Take();
  }

  void PutElements(const Set& set, uint16_t type, uint16_t flags) {
    for (auto it = set.elements.begin(); it != set.elements.end();) {
      NftnlPtr<nftnl_set> part(::nftnl_set_alloc());
      ::nftnl_set_set_str(part.get(), NFTNL_SET_TABLE, table_);
      ::nftnl_set_set_str(part.get(), NFTNL_SET_NAME, set.name.c_str());
      for (size_t n = 0; n < kElementsPerMessage && it != set.elements.end(); ++n, ++it) {
        nftnl_set_elem* element = ::nftnl_set_elem_alloc();  // owned by `part` once added
        ::nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, it->first.data(),
                             static_cast<uint32_t>(it->first.size()));
        if (set.to_endpoint) {
          ::nftnl_set_elem_set(element, NFTNL_SET_ELEM_DATA, it->second.data(),
                               static_cast<uint32_t>(it->second.size()));
        }
        ::nftnl_set_elem_add(part.get(), element);
      }
      ::nftnl_set_elems_nlmsg_build_payload(Header(type, flags), part.get());
      Take();
    }
  }
  void Put(const AddElements& c) { PutElements(c.set, NFT_MSG_NEWSETELEM, NLM_F_CREATE); }
  void Put(const DeleteElements& c) { PutElements(c.set, NFT_MSG_DELSETELEM, 0); }

  std::vector<char> buffer_;  // one message
  std::string out_;
  size_t last_ = 0;  // where in out_ the last message starts
  Family family_ = Family::kIp;
  const char* table_ = "";
  uint32_t sequence_ = 0;
};

}  // namespace

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
