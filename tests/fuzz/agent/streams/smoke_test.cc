// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/api/kubelet/streams/wire/spdy_frames.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/replay.h"

namespace holdfast::fuzz {
namespace {

using namespace std::string_literals;
using agent::streams::SpdyWriter;

TEST(FuzzSmokeTest, Spdy) {
  agent::streams::SpdyHeaderWriter headers;
  const std::string block = *headers.Write({{"streamtype", "error"}});
  const std::string open = "\x80\x03\0\1\0\0\0"s + static_cast<char>(block.size() + 10) +
                           "\0\0\0\1\0\0\0\0\0\0"s + block;
  Replay(FuzzSpdy,
         {open + SpdyWriter::Data(1, "hello", true),
          SpdyWriter::Ping(1) + SpdyWriter::GoAway(0) +
              SpdyWriter::Reset(3, agent::streams::SpdyReset::kCancel)},
         "\x80\x03\x01");
}

TEST(FuzzSmokeTest, ChannelMessages) {
  Replay(FuzzChannelMessages,
         {"0\0hello"s, "10aGVsbG8="s, "0\xff\0"s, "0\4{\"Width\":80,\"Height\":24}\n"s},
         "{}\":=\xff");
}

TEST(FuzzSmokeTest, StreamRequest) {
  Replay(FuzzStreamRequest,
         {"/exec/default/web/app?command=sh&command=%2dc&input=1&output=1&tty=1",
          "/portForward/ns/pod/uid?port=80,81"},
         "/?&=%+,");
}

// A masked frame, as clients send it: the mask is zero.
std::string Frame(int first, const std::string& payload) {
  return static_cast<char>(first) + (static_cast<char>(0x80 | payload.size()) + "\0\0\0\0"s) +
         payload;
}

TEST(FuzzSmokeTest, WebSocket) {
  Replay(FuzzWebSocket,
         {"\3" + Frame(0x82, "\0hello"s) + Frame(0x89, "ping") + Frame(0x82, "\xff\0"s),
          "\0" + Frame(0x02, "\0he"s) + Frame(0x80, "llo") + Frame(0x88, "\x03\xe8"s),
          "\7" + Frame(0x81, "text") + Frame(0x82, "\4{\"Width\":80,\"Height\":24}"s)},
         "\x80\x81\x82\x88\x89\x8a\xff"s);
}

TEST(FuzzSmokeTest, HttpRequest) {
  const std::string upgrade =
      "GET /exec/ns/pod/c?command=id&output=1 HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\n";
  Replay(
      FuzzHttpRequest,
      {"\2" + upgrade +
           "Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
           "Sec-WebSocket-Version: 13\r\n"
           "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n\r\n",
       "\5" + upgrade + "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n",
       "\0POST /run/a/b/c?cmd=id HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"s,
       "\1POST / HTTP/1.0\r\nContent-Length: 257\r\n\r\n" + std::string(257, 'x')},
      "\r\n :;,/0123456789%");
}

}  // namespace
}  // namespace holdfast::fuzz
