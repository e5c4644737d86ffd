// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/ipvs/kernel.h"

#include <arpa/inet.h>
#include <linux/ip_vs.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "holdfast/sys/pause_point.h"

namespace holdfast::netproxy::ipvs {
namespace {

using Kind = Operation::Kind;
using sys::AttributeU16;
using sys::AttributeU32;
using sys::ForEachAttribute;
using sys::GenlMessage;

constexpr uint32_t kWantedFlags =
    IP_VS_SVC_F_PERSISTENT | IP_VS_SVC_F_SCHED1 | IP_VS_SVC_F_SCHED2 | IP_VS_SVC_F_SCHED3;
constexpr int kTries = 5;

std::string_view BytesOf(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// IPVS takes 16 bytes for both families.
void PutAddress(GenlMessage& message, uint16_t attribute, const IpAddress& address) {
  message.Put(attribute, BytesOf(address.bytes.data(), address.bytes.size()));
}

void PutPort(GenlMessage& message, uint16_t attribute, uint16_t port) {
  message.PutU16(attribute, htons(port));
}

void PutConfig(GenlMessage& message, const VirtualKey& key, const VirtualConfig& config) {
  message.PutText(IPVS_SVC_ATTR_SCHED_NAME, config.scheduler);
  const ip_vs_flags flags{config.flags, kWantedFlags};
  message.Put(IPVS_SVC_ATTR_FLAGS, BytesOf(&flags, sizeof flags));
  message.PutU32(IPVS_SVC_ATTR_TIMEOUT, config.timeout);
  // Each client by itself: a mask for IPv4, a prefix length for IPv6.
  message.PutU32(IPVS_SVC_ATTR_NETMASK, key.v6 ? 128 : 0xffffffff);
}

void PutVirtual(GenlMessage& message, const VirtualKey& key, const VirtualConfig* config) {
  nlattr* nested = message.Open(IPVS_CMD_ATTR_SERVICE);
  message.PutU16(IPVS_SVC_ATTR_AF, key.v6 ? AF_INET6 : AF_INET);
  if (key.mark != 0) {
    message.PutU32(IPVS_SVC_ATTR_FWMARK, key.mark);
  } else {
    message.PutU16(IPVS_SVC_ATTR_PROTOCOL, key.protocol);
    PutAddress(message, IPVS_SVC_ATTR_ADDR, key.address);
    PutPort(message, IPVS_SVC_ATTR_PORT, key.port);
  }
  if (config != nullptr) PutConfig(message, key, *config);
  message.Close(nested);
}

void PutReal(GenlMessage& message, const Operation& operation, bool whole) {
  nlattr* nested = message.Open(IPVS_CMD_ATTR_DEST);
  PutAddress(message, IPVS_DEST_ATTR_ADDR, operation.real.ip);
  PutPort(message, IPVS_DEST_ATTR_PORT, operation.real.port);
  message.PutU16(IPVS_DEST_ATTR_ADDR_FAMILY, operation.key.v6 ? AF_INET6 : AF_INET);
  if (whole) {
    message.PutU32(IPVS_DEST_ATTR_FWD_METHOD, IP_VS_CONN_F_MASQ);
    message.PutU32(IPVS_DEST_ATTR_WEIGHT, operation.weight);
    message.PutU32(IPVS_DEST_ATTR_U_THRESH, 0);
    message.PutU32(IPVS_DEST_ATTR_L_THRESH, 0);
  }
  message.Close(nested);
}

uint8_t CommandOf(Kind kind) {
  switch (kind) {
    case Kind::kNewVirtual:
      return IPVS_CMD_NEW_SERVICE;
    case Kind::kSetVirtual:
      return IPVS_CMD_SET_SERVICE;
    case Kind::kDeleteVirtual:
      return IPVS_CMD_DEL_SERVICE;
    case Kind::kNewReal:
      return IPVS_CMD_NEW_DEST;
    case Kind::kSetReal:
      return IPVS_CMD_SET_DEST;
    case Kind::kDeleteReal:
      return IPVS_CMD_DEL_DEST;
  }
  return IPVS_CMD_UNSPEC;
}

GenlMessage Encode(const Operation& operation) {
  GenlMessage message(CommandOf(operation.kind));
  const bool with_config =
      operation.kind == Kind::kNewVirtual || operation.kind == Kind::kSetVirtual;
  PutVirtual(message, operation.key, with_config ? &operation.config : nullptr);
  if (operation.kind == Kind::kNewReal || operation.kind == Kind::kSetReal) {
    PutReal(message, operation, true);
  } else if (operation.kind == Kind::kDeleteReal) {
    PutReal(message, operation, false);
  }
  return message;
}

uint16_t Port(std::string_view payload) { return ntohs(AttributeU16(payload)); }

IpAddress Address(bool v6, std::string_view payload) {
  IpAddress out;
  out.v6 = v6;
  if (payload.size() >= out.size()) std::memcpy(out.bytes.data(), payload.data(), out.size());
  return out;
}

std::pair<VirtualKey, VirtualConfig> ParseVirtual(std::string_view attributes) {
  VirtualKey key;
  VirtualConfig config;
  std::string_view address;
  ForEachAttribute(attributes, [&](uint16_t type, std::string_view payload) {
    if (type == IPVS_SVC_ATTR_AF) key.v6 = AttributeU16(payload) == AF_INET6;
    if (type == IPVS_SVC_ATTR_PROTOCOL) key.protocol = static_cast<uint8_t>(AttributeU16(payload));
    if (type == IPVS_SVC_ATTR_ADDR) address = payload;
    if (type == IPVS_SVC_ATTR_PORT) key.port = Port(payload);
    if (type == IPVS_SVC_ATTR_FWMARK) key.mark = AttributeU32(payload);
    if (type == IPVS_SVC_ATTR_SCHED_NAME) config.scheduler = sys::AttributeText(payload);
    if (type == IPVS_SVC_ATTR_FLAGS) config.flags = AttributeU32(payload) & kWantedFlags;
    if (type == IPVS_SVC_ATTR_TIMEOUT) config.timeout = AttributeU32(payload);
  });
  if (key.mark != 0) {
    key.protocol = 0;
    key.port = 0;
    address = {};
  }
  key.address = Address(key.v6, address);
  // A server that keeps no clients still has a time: the kernel's default.
  if ((config.flags & IP_VS_SVC_F_PERSISTENT) == 0) config.timeout = 0;
  return {key, config};
}

void ParseReal(bool v6, std::string_view attributes, ObservedServer& server) {
  model::Endpoint endpoint;
  RealServer real;
  ForEachAttribute(attributes, [&](uint16_t type, std::string_view payload) {
    if (type == IPVS_DEST_ATTR_ADDR) endpoint.ip = Address(v6, payload);
    if (type == IPVS_DEST_ATTR_PORT) endpoint.port = Port(payload);
    if (type == IPVS_DEST_ATTR_WEIGHT) real.weight = AttributeU32(payload);
    if (type == IPVS_DEST_ATTR_ACTIVE_CONNS || type == IPVS_DEST_ATTR_INACT_CONNS) {
      real.connections += AttributeU32(payload);
    }
  });
  server.reals[endpoint] = real;
}

// Again while others change what is listed.
Result<void> DumpPersistently(sys::GenlSocket& socket, const GenlMessage& request,
                              const std::function<void()>& begin,
                              const std::function<void(std::string_view)>& each) {
  for (int i = 1;; ++i) {
    begin();
    auto done = socket.Dump(request, each);
    if (done || done.error().code() != Code::kUnavailable || i == kTries) return done;
  }
}

}  // namespace

Result<IpvsKernel> IpvsKernel::Open() {
  ASSIGN_OR_RETURN(sys::GenlSocket socket,
                   sys::GenlSocket::Open(IPVS_GENL_NAME, IPVS_GENL_VERSION));
  return IpvsKernel(std::move(socket));
}

Result<std::vector<int>> IpvsKernel::Send(std::span<const Operation> operations) {
  if (operations.empty()) return std::vector<int>();
  std::vector<GenlMessage> messages;
  messages.reserve(operations.size());
  for (const Operation& operation : operations) messages.push_back(Encode(operation));
  HOLDFAST_PAUSE_POINT("ipvs.send.before");
  auto done = socket_.Send(messages);
  HOLDFAST_PAUSE_POINT("ipvs.send.after");
  return done;
}

Result<Observed> IpvsKernel::ListVirtuals() {
  const auto same = [](const auto& a, const auto& b) {
    return a.first == b.first && a.second.config == b.second.config;
  };
  ASSIGN_OR_RETURN(Observed before, ListOnce());
  for (int i = 1; i < kTries; ++i) {
    ASSIGN_OR_RETURN(Observed now, ListOnce());
    if (std::equal(before.begin(), before.end(), now.begin(), now.end(), same)) return now;
    before = std::move(now);
  }
  return Unavailable("ipvs: virtual servers change faster than they can be listed");
}

Result<Observed> IpvsKernel::ListOnce() {
  Observed out;
  RETURN_IF_ERROR(DumpPersistently(
      socket_, GenlMessage(IPVS_CMD_GET_SERVICE), [&] { out.clear(); },
      [&](std::string_view attributes) {
        ForEachAttribute(attributes, [&](uint16_t type, std::string_view payload) {
          if (type != IPVS_CMD_ATTR_SERVICE) return;
          auto [key, config] = ParseVirtual(payload);
          out[key].config = std::move(config);
        });
      }));
  return out;
}

Result<void> IpvsKernel::ListReals(Observed& observed) {
  for (auto it = observed.begin(); it != observed.end();) {
    const auto& key = it->first;
    auto& server = it->second;
    GenlMessage request(IPVS_CMD_GET_DEST);
    PutVirtual(request, key, nullptr);
    auto done = DumpPersistently(
        socket_, request, [&server] { server.reals.clear(); },
        [&](std::string_view attributes) {
          ForEachAttribute(attributes, [&](uint16_t type, std::string_view payload) {
            if (type == IPVS_CMD_ATTR_DEST) ParseReal(key.v6, payload, server);
          });
        });
    if (!done && done.error().code() != Code::kNotFound) return done;
    it = done ? std::next(it) : observed.erase(it);
  }
  return {};
}

Result<Timeouts> IpvsKernel::GetTimeouts() {
  Timeouts out;
  RETURN_IF_ERROR(socket_.Get(GenlMessage(IPVS_CMD_GET_CONFIG), [&](std::string_view attributes) {
    ForEachAttribute(attributes, [&](uint16_t type, std::string_view payload) {
      if (type == IPVS_CMD_ATTR_TIMEOUT_TCP) out.tcp = AttributeU32(payload);
      if (type == IPVS_CMD_ATTR_TIMEOUT_TCP_FIN) out.tcp_fin = AttributeU32(payload);
      if (type == IPVS_CMD_ATTR_TIMEOUT_UDP) out.udp = AttributeU32(payload);
    });
  }));
  return out;
}

Result<void> IpvsKernel::SetTimeouts(const Timeouts& timeouts) {
  GenlMessage request(IPVS_CMD_SET_CONFIG);
  request.PutU32(IPVS_CMD_ATTR_TIMEOUT_TCP, timeouts.tcp);
  request.PutU32(IPVS_CMD_ATTR_TIMEOUT_TCP_FIN, timeouts.tcp_fin);
  request.PutU32(IPVS_CMD_ATTR_TIMEOUT_UDP, timeouts.udp);
  return socket_.Get(request, [](std::string_view) {});
}

}  // namespace holdfast::netproxy::ipvs
