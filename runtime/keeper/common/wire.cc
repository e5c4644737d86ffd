// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/common/wire.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cstring>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/socket.h"

namespace holdfast::runtime::keeper {
namespace {

struct Header {
  uint32_t magic;
  uint16_t version;
  uint16_t type;
  uint32_t length;
};
static_assert(sizeof(Header) == 12);

constexpr size_t kMaxListBytes = 64u << 20;

Result<void> SetTimeLimit(int socket, std::chrono::milliseconds limit) {
  timeval tv{};
  tv.tv_sec = limit.count() / 1000;
  tv.tv_usec = limit.count() % 1000 * 1000;
  if (::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv) != 0) {
    return Error::FromErrno(errno, "setsockopt SO_RCVTIMEO");
  }
  return {};
}

}  // namespace

Encoder& Encoder::Text(std::string_view v) {
  U32(static_cast<uint32_t>(v.size()));
  out_.append(v);
  return *this;
}

std::string Decoder::Text() {
  const uint32_t size = U32();
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return {};
  }
  std::string out(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return out;
}

void Decoder::Bytes(void* out, size_t size) {
  if (!ok_ || size > rest_.size()) {
    ok_ = false;
    return;
  }
  std::memcpy(out, rest_.data(), size);
  rest_.remove_prefix(size);
}

std::string EncodeError(const Error& error) {
  return Encoder()
      .U16(static_cast<uint16_t>(error.code()))
      .I32(error.sys_errno())
      .Text(error.message())
      .Take();
}

Error DecodeError(std::string_view payload) {
  Decoder in(payload);
  const uint16_t code = in.U16();
  (void)in.I32();  // the text already names it
  std::string text = in.Text();
  if (!in.ok() || code > static_cast<uint16_t>(Code::kInternal)) {
    return Internal("keeper: unreadable error answer");
  }
  return Error(static_cast<Code>(code), std::move(text));
}

Result<void> SendMessage(int socket, MessageType type, std::string_view payload,
                         std::span<const int> fds) {
  if (payload.size() > kMaxPayload) {
    return Error(Code::kResourceExhausted,
                 StrCat("send to keeper: payload of ", payload.size(), " bytes is too long"));
  }
  const Header header{kMagic, kWireVersion, static_cast<uint16_t>(type),
                      static_cast<uint32_t>(payload.size())};
  std::string packet(reinterpret_cast<const char*>(&header), sizeof header);
  packet.append(payload);
  return sys::SendPacket(socket, packet, fds);
}

bool IsQuiet(MessageType type) {
  switch (type) {
    case MessageType::kReady:
    case MessageType::kPutQuiet:
    case MessageType::kDropQuiet:
    case MessageType::kRenameQuiet:
    case MessageType::kLetGo:
      return true;
    default:
      return false;
  }
}

bool QuietIsNext(int socket) {
  Header header{};
  return ::recv(socket, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT) == sizeof header &&
         header.magic == kMagic && IsQuiet(static_cast<MessageType>(header.type));
}

Result<Message> ReceiveMessage(int socket) {
  ASSIGN_OR_RETURN(sys::Packet packet, sys::ReceivePacket(socket));
  if (packet.data.empty()) return Unavailable("receive from keeper: connection closed");
  Header header{};
  if (packet.data.size() < sizeof header) return InvalidArgument("receive: packet is too short");
  std::memcpy(&header, packet.data.data(), sizeof header);
  if (header.magic != kMagic) return InvalidArgument("receive: not a keeper packet");
  if (header.version != kWireVersion) {
    return Unsupported(StrCat("receive: keeper packet of version ", header.version,
                              ", this program speaks version ", kWireVersion));
  }
  if (header.length != packet.data.size() - sizeof header) {
    return InvalidArgument("receive: keeper packet with a wrong length");
  }
  Message message;
  message.type = static_cast<MessageType>(header.type);
  message.payload = packet.data.substr(sizeof header);
  message.fds = std::move(packet.fds);
  return message;
}

Result<Message> Call(const std::string& path, MessageType type, std::string_view payload,
                     std::span<const int> fds, std::chrono::milliseconds limit) {
  const Request request{type, std::string(payload), {fds.begin(), fds.end()}};
  ASSIGN_OR_RETURN(const UniqueFd socket, sys::ConnectSeqpacket(path));
  RETURN_IF_ERROR(SendRequests(socket.get(), std::span(&request, 1), limit));
  return ReceiveAnswer(socket.get(), path, limit);
}

Result<void> SendRequests(int socket, std::span<const Request> requests,
                          std::chrono::milliseconds limit) {
  RETURN_IF_ERROR(SetTimeLimit(socket, limit));
  for (const Request& request : requests) {
    RETURN_IF_ERROR(SendMessage(socket, request.type, request.payload, request.fds));
  }
  return {};
}

Result<Message> ReceiveAnswer(int socket, const std::string& path,
                              std::chrono::milliseconds limit) {
  auto answer = ReceiveMessage(socket);
  if (!answer) {
    if (answer.error().sys_errno() == EAGAIN) {
      return Error(Code::kDeadlineExceeded, StrCat("call ", path, ": no answer in ",
                                                   static_cast<long>(limit.count()), " ms"));
    }
    return std::move(answer.error()).Wrap(StrCat("call ", path));
  }
  if (answer->type == MessageType::kError) return DecodeError(answer->payload);
  return std::move(*answer);
}

Result<UniqueFd> ListToMemfd(const std::vector<std::string>& list) {
  Encoder out;
  out.U32(static_cast<uint32_t>(list.size()));
  for (const std::string& item : list) out.Text(item);
  return sys::SealedMemfd("holdfast-list", out.Take());
}

Result<std::vector<std::string>> ListFromMemfd(int fd) {
  ASSIGN_OR_RETURN(const std::string data, sys::ReadFd(fd, kMaxListBytes));
  Decoder in(data);
  std::vector<std::string> list;
  for (uint32_t left = in.U32(); left > 0 && in.ok(); --left) list.push_back(in.Text());
  if (!in.AtEnd()) return InvalidArgument("list from keeper: unreadable");
  return list;
}

}  // namespace holdfast::runtime::keeper
