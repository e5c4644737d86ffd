// SPDX-License-Identifier: Apache-2.0
#include <libmnl/libmnl.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <vector>

#include "holdfast/base/strings.h"
#include "holdfast/sys/nfnl.h"
#include "runtime/sys/netlink/conntrack_internal.h"

namespace holdfast::sys {
namespace {

// Bits of CTA_FILTER_ORIG_FLAGS: the kernel has them in net/netfilter/nf_internals.h only.
constexpr uint32_t kFilterProtocol = 1u << 3;
constexpr uint32_t kFilterDestinationPort = 1u << 5;

using Attributes = std::vector<const nlattr*>;

// Attributes of one level by type; entries of absent types are null.
Attributes Split(const nlattr* begin, size_t bytes, size_t types) {
  Attributes out(types + 1, nullptr);
  const char* end = reinterpret_cast<const char*>(begin) + bytes;
  for (const nlattr* a = begin;
       ::mnl_attr_ok(a, static_cast<int>(end - reinterpret_cast<const char*>(a)));
       a = ::mnl_attr_next(a)) {
    const uint16_t type = ::mnl_attr_get_type(a);
    if (type <= types) out[type] = a;
  }
  return out;
}

Attributes SplitNested(const nlattr* outer, size_t types) {
  if (outer == nullptr) return Attributes(types + 1, nullptr);
  return Split(static_cast<const nlattr*>(::mnl_attr_get_payload(outer)),
               ::mnl_attr_get_payload_len(outer), types);
}

bool Holds(const nlattr* attribute, size_t bytes) {
  return attribute != nullptr && ::mnl_attr_get_payload_len(attribute) >= bytes;
}

IpAddress AddressOf(const nlattr* attribute, bool v6) {
  IpAddress none;
  none.v6 = v6;
  if (!Holds(attribute, none.size())) return none;
  return IpAddress::FromBytes(v6, ::mnl_attr_get_payload(attribute));
}

uint16_t PortOf(const nlattr* attribute) {
  return Holds(attribute, sizeof(uint16_t)) ? ntohs(::mnl_attr_get_u16(attribute)) : uint16_t{0};
}

class Message {
 public:
  Message(uint16_t type, uint16_t flags, bool v6)
      : buffer_(4096), header_(::mnl_nlmsg_put_header(buffer_.data())) {
    header_->nlmsg_type = static_cast<uint16_t>((NFNL_SUBSYS_CTNETLINK << 8) | type);
    header_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    header_->nlmsg_seq = 1;
    auto* nf = static_cast<nfgenmsg*>(::mnl_nlmsg_put_extra_header(header_, sizeof(nfgenmsg)));
    nf->nfgen_family = v6 ? AF_INET6 : AF_INET;
    nf->version = NFNETLINK_V0;
  }
  nlmsghdr* get() { return header_; }
  std::string_view bytes() const { return {buffer_.data(), header_->nlmsg_len}; }

 private:
  std::vector<char> buffer_;
  nlmsghdr* header_;
};

void PutPortFilter(nlmsghdr* header, uint8_t protocol, uint16_t port) {
  nlattr* tuple = ::mnl_attr_nest_start(header, CTA_TUPLE_ORIG);
  nlattr* l4 = ::mnl_attr_nest_start(header, CTA_TUPLE_PROTO);
  ::mnl_attr_put_u8(header, CTA_PROTO_NUM, protocol);
  ::mnl_attr_put_u16(header, CTA_PROTO_DST_PORT, htons(port));
  ::mnl_attr_nest_end(header, l4);
  ::mnl_attr_nest_end(header, tuple);
  nlattr* filter = ::mnl_attr_nest_start(header, CTA_FILTER);
  ::mnl_attr_put_u32(header, CTA_FILTER_ORIG_FLAGS, kFilterProtocol | kFilterDestinationPort);
  ::mnl_attr_put_u32(header, CTA_FILTER_REPLY_FLAGS, 0);
  ::mnl_attr_nest_end(header, filter);
}

Result<void> DeleteEntry(NfSocket& socket, bool v6, const TrackedFlow& entry) {
  Message message(IPCTNL_MSG_CT_DELETE, NLM_F_ACK, v6);
  ::mnl_attr_put(message.get(), CTA_TUPLE_ORIG | NLA_F_NESTED, entry.original.size(),
                 entry.original.data());
  if (entry.id) ::mnl_attr_put_u32(message.get(), CTA_ID, *entry.id);
  auto done = socket.Request(message.bytes(), "delete a conntrack entry");
  if (!done && done.error().code() == Code::kNotFound) return {};  // timed out meanwhile
  return done;
}

}  // namespace

std::optional<TrackedFlow> ParseTrackedFlow(const nlmsghdr* header, bool v6, uint8_t protocol) {
  if (::mnl_nlmsg_get_payload_len(header) < MNL_ALIGN(sizeof(nfgenmsg))) return std::nullopt;
  const auto* begin =
      static_cast<const nlattr*>(::mnl_nlmsg_get_payload_offset(header, sizeof(nfgenmsg)));
  const size_t bytes = ::mnl_nlmsg_get_payload_len(header) - MNL_ALIGN(sizeof(nfgenmsg));
  const Attributes top = Split(begin, bytes, CTA_MAX);
  if (top[CTA_TUPLE_ORIG] == nullptr || top[CTA_TUPLE_REPLY] == nullptr) return std::nullopt;
  const Attributes original = SplitNested(top[CTA_TUPLE_ORIG], CTA_TUPLE_MAX);
  const Attributes reply = SplitNested(top[CTA_TUPLE_REPLY], CTA_TUPLE_MAX);
  const Attributes original_ip = SplitNested(original[CTA_TUPLE_IP], CTA_IP_MAX);
  const Attributes reply_ip = SplitNested(reply[CTA_TUPLE_IP], CTA_IP_MAX);
  const Attributes original_l4 = SplitNested(original[CTA_TUPLE_PROTO], CTA_PROTO_MAX);
  const Attributes reply_l4 = SplitNested(reply[CTA_TUPLE_PROTO], CTA_PROTO_MAX);
  const nlattr* number = original_l4[CTA_PROTO_NUM];
  if (!Holds(number, 1) || ::mnl_attr_get_u8(number) != protocol) return std::nullopt;

  TrackedFlow entry;
  const size_t source = v6 ? CTA_IP_V6_SRC : CTA_IP_V4_SRC;
  const size_t destination = v6 ? CTA_IP_V6_DST : CTA_IP_V4_DST;
  entry.flow.original_source = AddressOf(original_ip[source], v6);
  entry.flow.original_destination = AddressOf(original_ip[destination], v6);
  entry.flow.reply_source = AddressOf(reply_ip[source], v6);
  entry.flow.original_destination_port = PortOf(original_l4[CTA_PROTO_DST_PORT]);
  entry.flow.reply_source_port = PortOf(reply_l4[CTA_PROTO_SRC_PORT]);
  const nlattr* status = top[CTA_STATUS];
  if (Holds(status, sizeof(uint32_t))) {
    entry.flow.answered = (ntohl(::mnl_attr_get_u32(status)) & IPS_SEEN_REPLY) != 0;
  }
  const nlattr* tuple = top[CTA_TUPLE_ORIG];
  entry.original.assign(static_cast<const char*>(::mnl_attr_get_payload(tuple)),
                        ::mnl_attr_get_payload_len(tuple));
  if (Holds(top[CTA_ID], sizeof(uint32_t))) entry.id = ::mnl_attr_get_u32(top[CTA_ID]);
  return entry;
}

Result<size_t> DeleteFlows(NfSocket& socket, bool v6, uint8_t protocol, uint16_t destination_port,
                           const std::function<bool(const Flow&)>& unwanted) {
  Message dump(IPCTNL_MSG_CT_GET, NLM_F_DUMP, v6);
  if (destination_port != 0) PutPortFilter(dump.get(), protocol, destination_port);
  std::vector<TrackedFlow> doomed;
  RETURN_IF_ERROR(socket.Dump(dump.bytes(), [&](const nlmsghdr* header) -> Result<void> {
    auto entry = ParseTrackedFlow(header, v6, protocol);
    if (!entry) return {};
    const uint16_t port = entry->flow.original_destination_port;
    if ((destination_port == 0 || port == destination_port) && unwanted(entry->flow)) {
      doomed.push_back(std::move(*entry));
    }
    return {};
  }));
  for (const TrackedFlow& entry : doomed) RETURN_IF_ERROR(DeleteEntry(socket, v6, entry));
  return doomed.size();
}

}  // namespace holdfast::sys
