// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "agent/api/kubelet/streams/spdy_frames.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/fuzz.h"

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

}  // namespace
}  // namespace holdfast::fuzz
