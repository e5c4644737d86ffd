// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/genl.h"

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <netlink/attr.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <netlink/socket.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "holdfast/base/strings.h"
#include "runtime/sys/netlink/nl_internal.h"

namespace holdfast::sys {
namespace {

// Each refusal is an answer, and all answers of a chunk must fit the socket's receive buffer.
constexpr size_t kMessagesPerChunk = 64;

template <class T>
T Number(std::string_view payload) {
  T value = 0;
  if (payload.size() >= sizeof value) payload.copy(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

// Calls `each` with every netlink message of a datagram, until it returns false.
bool ForEachMessage(const char* data, size_t size,
                    const std::function<bool(const nlmsghdr*, std::string_view)>& each) {
  int left = static_cast<int>(size);
  const auto* header = reinterpret_cast<const nlmsghdr*>(data);
  for (; NLMSG_OK(header, static_cast<unsigned>(left)); header = NLMSG_NEXT(header, left)) {
    const std::string_view payload(static_cast<const char*>(NLMSG_DATA(header)),
                                   header->nlmsg_len - NLMSG_HDRLEN);
    if (!each(header, payload)) return false;
  }
  return true;
}

int ErrorOf(std::string_view payload) { return -static_cast<int>(Number<int32_t>(payload)); }

}  // namespace

void GenlMessage::Free::operator()(nl_msg* message) const { ::nlmsg_free(message); }
void GenlSocket::SocketFree::operator()(nl_sock* socket) const { ::nl_socket_free(socket); }

GenlMessage::GenlMessage(uint8_t command) : command_(command), message_(::nlmsg_alloc()) {}

void GenlMessage::Put(uint16_t attribute, std::string_view bytes) {
  ::nla_put(message_.get(), attribute, static_cast<int>(bytes.size()), bytes.data());
}
void GenlMessage::PutU16(uint16_t attribute, uint16_t value) {
  ::nla_put_u16(message_.get(), attribute, value);
}
void GenlMessage::PutU32(uint16_t attribute, uint32_t value) {
  ::nla_put_u32(message_.get(), attribute, value);
}
void GenlMessage::PutText(uint16_t attribute, const std::string& text) {
  ::nla_put_string(message_.get(), attribute, text.c_str());
}
nlattr* GenlMessage::Open(uint16_t attribute) {
  return ::nla_nest_start(message_.get(), attribute | NLA_F_NESTED);
}
void GenlMessage::Close(nlattr* nested) { ::nla_nest_end(message_.get(), nested); }

void ForEachAttribute(std::string_view attributes,
                      const std::function<void(uint16_t, std::string_view)>& each) {
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr head{};
    std::memcpy(&head, attributes.data(), sizeof head);
    if (head.nla_len < sizeof head || head.nla_len > attributes.size()) return;
    each(static_cast<uint16_t>(head.nla_type & NLA_TYPE_MASK),
         attributes.substr(sizeof head, head.nla_len - sizeof head));
    attributes.remove_prefix(std::min<size_t>(NLA_ALIGN(head.nla_len), attributes.size()));
  }
}

uint16_t AttributeU16(std::string_view payload) { return Number<uint16_t>(payload); }
uint32_t AttributeU32(std::string_view payload) { return Number<uint32_t>(payload); }
std::string AttributeText(std::string_view payload) {
  return std::string(payload.substr(0, payload.find('\0')));
}

Result<GenlSocket> GenlSocket::Open(const std::string& family, uint8_t version) {
  GenlSocket out(::nl_socket_alloc());
  if (!out.socket_) return Error::FromErrno(ENOMEM, "generic netlink socket");
  RETURN_IF_ERROR(ConnectNl(out.socket_.get(), NETLINK_GENERIC, "connect to generic netlink"));
  const int type = ::genl_ctrl_resolve(out.socket_.get(), family.c_str());
  if (type < 0) {
    return NotFound(StrCat("generic netlink: the kernel has no family ", family));
  }
  out.family_ = family;
  out.type_ = static_cast<uint16_t>(type);
  out.version_ = version;
  return out;
}

void GenlSocket::Append(std::string& out, const GenlMessage& message, uint16_t flags) {
  const nlmsghdr* built = ::nlmsg_hdr(message.message_.get());
  const std::string_view attributes(static_cast<const char*>(NLMSG_DATA(built)),
                                    built->nlmsg_len - NLMSG_HDRLEN);
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(NLMSG_LENGTH(GENL_HDRLEN) + attributes.size());
  header.nlmsg_type = type_;
  header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  header.nlmsg_seq = ++sequence_;
  const genlmsghdr generic{message.command_, version_, 0};
  out.append(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(reinterpret_cast<const char*>(&generic), sizeof generic);
  out.append(attributes);
  out.append(NLMSG_ALIGN(header.nlmsg_len) - header.nlmsg_len, '\0');
}

Result<void> GenlSocket::Write(std::string_view bytes) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t sent = ::sendto(::nl_socket_get_fd(socket_.get()), bytes.data(), bytes.size(), 0,
                                reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
  if (sent < 0) return Error::FromErrno(errno, StrCat("send to generic netlink ", family_));
  return {};
}

Result<std::vector<int>> GenlSocket::Send(std::span<const GenlMessage> messages) {
  std::vector<int> errors(messages.size(), 0);
  for (size_t at = 0; at < messages.size(); at += kMessagesPerChunk) {
    const size_t count = std::min(kMessagesPerChunk, messages.size() - at);
    RETURN_IF_ERROR(
        SendChunk(messages.subspan(at, count), std::span<int>(errors).subspan(at, count)));
  }
  return errors;
}

// The kernel works within sendto(2), and answers what it refuses and what asks for an answer: the
// last message does.
Result<void> GenlSocket::SendChunk(std::span<const GenlMessage> messages, std::span<int> errors) {
  std::string bytes;
  const uint32_t first = sequence_ + 1;
  for (size_t i = 0; i < messages.size(); ++i) {
    Append(bytes, messages[i], i + 1 == messages.size() ? NLM_F_ACK : 0);
  }
  RETURN_IF_ERROR(Write(bytes));
  const uint32_t last = sequence_;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  for (bool done = false; !done;) {
    const ssize_t n = ::recv(::nl_socket_get_fd(socket_.get()), buffer.get(), kReceiveBytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, StrCat("receive from generic netlink ", family_));
    ForEachMessage(buffer.get(), static_cast<size_t>(n),
                   [&](const nlmsghdr* header, std::string_view payload) {
                     const uint32_t index = header->nlmsg_seq - first;
                     if (header->nlmsg_type != NLMSG_ERROR || index >= errors.size()) return true;
                     errors[index] = ErrorOf(payload);
                     done |= header->nlmsg_seq == last;
                     return true;
                   });
  }
  return {};
}

Result<void> GenlSocket::Ask(const GenlMessage& request, uint16_t flags,
                             const std::function<void(std::string_view)>& each) {
  std::string bytes;
  Append(bytes, request, flags);
  RETURN_IF_ERROR(Write(bytes));
  const auto buffer = std::make_unique_for_overwrite<char[]>(kReceiveBytes);
  bool disturbed = false;
  std::optional<int> outcome;
  while (!outcome) {
    const ssize_t n = ::recv(::nl_socket_get_fd(socket_.get()), buffer.get(), kReceiveBytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, StrCat("receive from generic netlink ", family_));
    ForEachMessage(buffer.get(), static_cast<size_t>(n),
                   [&](const nlmsghdr* header, std::string_view payload) {
                     if (header->nlmsg_seq != sequence_) return true;
                     disturbed |= (header->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
                     if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_type == NLMSG_DONE) {
                       outcome = ErrorOf(payload);
                       return false;
                     }
                     if (payload.size() >= GENL_HDRLEN) each(payload.substr(GENL_HDRLEN));
                     return true;
                   });
  }
  if (*outcome != 0) return Error::FromErrno(*outcome, StrCat("ask generic netlink ", family_));
  if (disturbed) return Unavailable(StrCat("generic netlink ", family_, ": changed meanwhile"));
  return {};
}

Result<void> GenlSocket::Dump(const GenlMessage& request,
                              const std::function<void(std::string_view)>& each) {
  return Ask(request, NLM_F_DUMP, each);
}

Result<void> GenlSocket::Get(const GenlMessage& request,
                             const std::function<void(std::string_view)>& each) {
  return Ask(request, NLM_F_ACK, each);
}

}  // namespace holdfast::sys
