// SPDX-License-Identifier: Apache-2.0
// Generic netlink through libnl-genl-3: one socket for one family of the kernel ("IPVS"). Bound to
// the network namespace of the thread that opened it. One thread at a time per object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"

struct nl_msg;
struct nl_sock;
struct nlattr;

namespace holdfast::sys {

// One request: a command with attributes.
class GenlMessage {
 public:
  explicit GenlMessage(uint8_t command);

  void Put(uint16_t attribute, std::string_view bytes);
  void PutU16(uint16_t attribute, uint16_t value);
  void PutU32(uint16_t attribute, uint32_t value);
  void PutText(uint16_t attribute, const std::string& text);
  // What is put until Close() lies within.
  nlattr* Open(uint16_t attribute);
  void Close(nlattr* nested);

 private:
  friend class GenlSocket;
  struct Free {
    void operator()(nl_msg* message) const;
  };
  uint8_t command_;
  std::unique_ptr<nl_msg, Free> message_;  // attributes only
};

// Calls `each` with type and payload of every attribute; stops at the first that is cut off.
void ForEachAttribute(std::string_view attributes,
                      const std::function<void(uint16_t type, std::string_view payload)>& each);
// 0 where the payload has another size.
uint16_t AttributeU16(std::string_view payload);
uint32_t AttributeU32(std::string_view payload);
std::string AttributeText(std::string_view payload);

class GenlSocket {
 public:
  // kNotFound when the kernel has no family of this name (now).
  static Result<GenlSocket> Open(const std::string& family, uint8_t version);

  // Sends all, many with one system call, and returns the errno of each, 0 for success. A refusal
  // of one does not keep the others from being done.
  Result<std::vector<int>> Send(std::span<const GenlMessage> messages);
  // Sends one request and calls `each` with the attributes of every answer; kNotFound and the like
  // when the kernel refuses it. kUnavailable: what was listed changed meanwhile.
  Result<void> Dump(const GenlMessage& request,
                    const std::function<void(std::string_view attributes)>& each);
  // A request with one answer.
  Result<void> Get(const GenlMessage& request,
                   const std::function<void(std::string_view attributes)>& each);

 private:
  struct SocketFree {
    void operator()(nl_sock* socket) const;
  };
  explicit GenlSocket(nl_sock* socket) : socket_(socket) {}
  void Append(std::string& out, const GenlMessage& message, uint16_t flags);
  Result<void> Write(std::string_view bytes);
  Result<void> SendChunk(std::span<const GenlMessage> messages, std::span<int> errors);
  Result<void> Ask(const GenlMessage& request, uint16_t flags,
                   const std::function<void(std::string_view attributes)>& each);

  std::unique_ptr<nl_sock, SocketFree> socket_;
  std::string family_;
  uint16_t type_ = 0;
  uint8_t version_ = 0;
  uint32_t sequence_ = 0;
};

}  // namespace holdfast::sys
