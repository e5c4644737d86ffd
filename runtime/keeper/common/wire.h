// SPDX-License-Identifier: Apache-2.0
// Wire: the keeper's packets, and the encoding of payloads and record files.
//
// A packet is one SOCK_SEQPACKET message: a fixed header {magic, version, type, payload length}, a
// payload of at most 60 KiB and at most 64 descriptors. Anything longer travels as a sealed memfd.
// Numbers are little-endian as the machine has them: both ends are on one machine, but they may be
// of different builds (in-place upgrade), so every packet and record names its version.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "holdfast/base/unique_fd.h"

namespace holdfast::runtime::keeper {

inline constexpr uint32_t kMagic = 0x504b4648;  // "HFKP"
inline constexpr uint16_t kWireVersion = 1;
inline constexpr size_t kMaxPayload = 60 * 1024;
inline constexpr size_t kMaxFdsPerKey = 64;

enum class MessageType : uint16_t {
  // Answers.
  kOk = 1,
  kError = 2,  // u16 Code, i32 errno, text

  // To every keeper process.
  kPing = 10,     // -> kOk: u32 how often the process was upgraded in place
  kUpgrade = 11,  // + fd of the new binary -> kOk, then the process re-executes itself
  kReady = 12,    // launcher or logger to holder: serving; no answer

  // Descriptor store: holder and launcher (and, reading only, logger).
  kPut = 20,          // key, + fds; replaces
  kGet = 21,          // key -> kOk + fds
  kDrop = 22,         // key
  kDropPrefix = 23,   // prefix
  kListKeys = 24,     // -> kOk + memfd with a list of strings
  kPutQuiet = 25,     // like kPut, without an answer
  kDropQuiet = 26,    // like kDrop, without an answer
  kRenameQuiet = 27,  // prefix, another: keys that begin so begin with that one then; no answer

  // Holder.
  kAwaitsExit = 30,  // id of a process that is over -> kOk: u8, 1: its exit record is still to come

  // Launcher.
  kLaunch = 40,  // LaunchRequest, + plan, + fds -> kLaunched + pidfd | kLaunchFailed
  // pod uid[, id of the member to take if it is there: it gets the plan's host name], + plan, + fds -> kOk: names, + fds
  // | kLaunchFailed
  kMakeSandbox = 41,
  // A newer generation takes over: finish, start nothing more; u8, 1: keep the descriptors until kLetGo
  kRetire = 42,
  kLaunched = 43,
  kLaunchFailed = 44,
  kMakeMember = 46,  // its id, + plan -> as kMakeSandbox
  kFindLaunch = 45,  // id -> as kLaunch, or kError with kNotFound: no such launch is under way
  kLetGo = 47,       // the newer generation has the descriptors; no answer

  // Logger.
  kLogRegister = 60,    // id, spec, is_tty, + read ends
  kLogUnregister = 61,  // id
  kLogStatus = 62,      // id -> kOk: LogStatus
  kLogRotate = 63,      // id
  kLogAttach = 64,      // id, u8 bits (1 stdout, 2 stderr), + write ends of pipes, non-blocking
  kLogList = 65,        // -> kOk + memfd with a list of ids
};

// Says something and is never answered.
bool IsQuiet(MessageType type);

struct Message {
  MessageType type = MessageType::kOk;
  std::string payload;
  std::vector<UniqueFd> fds;
};

// Appends fixed-size numbers and length-prefixed strings.
class Encoder {
 public:
  Encoder& U8(uint8_t v) { return Raw(&v, sizeof v); }
  Encoder& U16(uint16_t v) { return Raw(&v, sizeof v); }
  Encoder& U32(uint32_t v) { return Raw(&v, sizeof v); }
  Encoder& I32(int32_t v) { return Raw(&v, sizeof v); }
  Encoder& U64(uint64_t v) { return Raw(&v, sizeof v); }
  Encoder& I64(int64_t v) { return Raw(&v, sizeof v); }
  Encoder& Text(std::string_view v);
  std::string Take() { return std::move(out_); }

 private:
  Encoder& Raw(const void* data, size_t size) {
    out_.append(static_cast<const char*>(data), size);
    return *this;
  }
  std::string out_;
};

// Reads what Encoder wrote. Past the end every getter gives zero or "" and ok() turns false.
class Decoder {
 public:
  explicit Decoder(std::string_view data) : rest_(data) {}
  uint8_t U8() { return Number<uint8_t>(); }
  uint16_t U16() { return Number<uint16_t>(); }
  uint32_t U32() { return Number<uint32_t>(); }
  int32_t I32() { return Number<int32_t>(); }
  uint64_t U64() { return Number<uint64_t>(); }
  int64_t I64() { return Number<int64_t>(); }
  std::string Text();
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  template <class T>
  T Number() {
    T v{};
    Bytes(&v, sizeof v);
    return v;
  }
  void Bytes(void* out, size_t size);
  std::string_view rest_;
  bool ok_ = true;
};

std::string EncodeError(const Error& error);
Error DecodeError(std::string_view payload);

Result<void> SendMessage(int socket, MessageType type, std::string_view payload = {},
                         std::span<const int> fds = {});
// The next message is there and of a quiet type; it stays there.
bool QuietIsNext(int socket);
// kUnavailable at end-of-file; kUnsupported for another version, kInvalidArgument for bytes that
// are no packet of ours.
Result<Message> ReceiveMessage(int socket);

struct Request {
  MessageType type = MessageType::kPing;
  std::string payload;
  std::vector<int> fds;  // borrowed
};

// Requests on a connection, handled in their order; all but the last are of the quiet types. Nobody waits longer than
// `limit`, for the answer neither.
Result<void> SendRequests(int socket, std::span<const Request> requests,
                          std::chrono::milliseconds limit);
// The answer to the last. A kError answer becomes the Error. kDeadlineExceeded when the peer does not answer in time; `path`
// and `limit` are for its text.
Result<Message> ReceiveAnswer(int socket, const std::string& path, std::chrono::milliseconds limit);
// Both for one request on a fresh connection to `path`.
Result<Message> Call(const std::string& path, MessageType type, std::string_view payload,
                     std::span<const int> fds, std::chrono::milliseconds limit);

// Lists of strings in a memfd, for answers that may be longer than a packet.
Result<UniqueFd> ListToMemfd(const std::vector<std::string>& list);
Result<std::vector<std::string>> ListFromMemfd(int fd);

}  // namespace holdfast::runtime::keeper
