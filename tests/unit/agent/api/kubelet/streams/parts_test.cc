// SPDX-License-Identifier: Apache-2.0
// The pure parts: requests, protocols, statuses, channel messages, SPDY headers and frames.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "agent/api/kubelet/streams/command_status.h"
#include "agent/api/kubelet/streams/wire/channel_messages.h"
#include "agent/api/kubelet/streams/wire/protocols.h"
#include "agent/api/kubelet/streams/wire/spdy_frames.h"
#include "agent/api/kubelet/streams/wire/stream_request.h"
#include "tests/unit/agent/api/kubelet/streams/spdy_bytes.h"

namespace holdfast::agent::streams {
namespace {

using namespace std::string_literals;

TEST(StreamRequestTest, ReadsWhatAnApiServerSends) {
  const auto request = ParseStreamRequest(
      "/exec/default/web/app?command=sh&command=-c&command=echo+a%26b&error=1&input=1&output=1");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->pod_namespace, "default");
  EXPECT_EQ(request->pod, "web");
  EXPECT_EQ(request->container, "app");
  EXPECT_EQ(request->uid, "");
  EXPECT_EQ(request->command, (std::vector<std::string>{"sh", "-c", "echo a&b"}));
  EXPECT_TRUE(request->input && request->output && request->error);
  EXPECT_FALSE(request->tty);
}

TEST(StreamRequestTest, UidIsOptional) {
  EXPECT_EQ(ParseStreamRequest("/attach/ns/p/u/c?output=1")->uid, "u");
  EXPECT_EQ(ParseStreamRequest("/portForward/ns/p")->uid, "");
  EXPECT_EQ(ParseStreamRequest("/portForward/ns/p/u")->uid, "u");
}

TEST(StreamRequestTest, TerminalHasOneOutput) {
  const auto request = ParseStreamRequest("/exec/ns/p/c?tty=1&error=1&output=1");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->tty);
  EXPECT_FALSE(request->error);
}

TEST(StreamRequestTest, OnlyOneCounts) {
  EXPECT_EQ(ParseStreamRequest("/exec/ns/p/c?output=true").error(),
            (Refusal{400, "you must specify at least 1 of stdin, stdout, stderr"}));
}

TEST(StreamRequestTest, RefusesWhatIsNoPath) {
  for (const char* target :
       {"", "/", "/exec", "/exec/a/b", "/exec/a//c", "/exec/a/b/c/d/e", "/portForward/a",
        "/portForward/a/b/c/d", "/other/a/b/c", "/exec/a/%zz/c"}) {
    const auto request = ParseStreamRequest(target);
    ASSERT_FALSE(request) << target;
    EXPECT_EQ(request.error().status, 404u) << target;
  }
  EXPECT_EQ(ParseStreamRequest("/exec/a/b/c?command=%4&output=1").error().status, 400u);
}

TEST(StreamRequestTest, Ports) {
  EXPECT_EQ(*ParsePorts({"80,81", "65535"}), (std::vector<uint16_t>{80, 81, 65535}));
  EXPECT_EQ(ParsePorts({}).error().text, "query parameter \"port\" is required");
  EXPECT_EQ(ParsePorts({"80,"}).error().text, "query parameter \"port\" cannot be empty");
  EXPECT_EQ(ParsePorts({"0"}).error().text, "port \"0\" must be > 0");
  for (const char* bad : {"65536", "-1", "8x", " 8"}) EXPECT_FALSE(ParsePorts({bad})) << bad;
}

TEST(ProtocolsTest, FirstOfTheClientsThatIsKnown) {
  EXPECT_EQ(ChooseChannelProtocol({"v9", "v4.channel.k8s.io", "v5.channel.k8s.io"})->name,
            "v4.channel.k8s.io");
  EXPECT_TRUE(ChooseChannelProtocol({"v5.channel.k8s.io"})->closes_channels);
  EXPECT_EQ(ChooseChannelProtocol({})->name, "");
  EXPECT_FALSE(ChooseChannelProtocol({"v6.channel.k8s.io"}));
  EXPECT_TRUE(ChooseChannelProtocol({"v4.base64.channel.k8s.io"})->base64);
}

TEST(ProtocolsTest, V5IsNotTakenOverSpdy) {
  const auto chosen = ChooseSpdyProtocol({"v5.channel.k8s.io", "v4.channel.k8s.io"});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->name, "v4.channel.k8s.io");
  EXPECT_FALSE(ChooseSpdyProtocol({"v5.channel.k8s.io"}));
  EXPECT_FALSE(ChooseSpdyProtocol({"v2.channel.k8s.io"})->has_resize);
}

TEST(CommandStatusTest, AsAClientReadsThem) {
  EXPECT_EQ(CommandStatus({model::ExitReport{}, {}}, "x", true),
            R"({"metadata":{},"status":"Success"})");
  model::ExitReport seven;
  seven.exit_code = 7;
  EXPECT_EQ(CommandStatus({seven, {}}, "x", true),
            R"({"metadata":{},"status":"Failure","message":"command terminated with non-zero exit )"
            R"(code: exit status 7","reason":"NonZeroExitCode","details":{"causes":[{"reason":)"
            R"("ExitCode","message":"7"}]}})");
  EXPECT_EQ(CommandStatus({{}, NotFound("no \"x\"\n")}, "executing command in container", true),
            R"({"metadata":{},"status":"Failure","message":"Internal error occurred: error )"
            R"(executing command in container: no \"x\"\u000a","reason":"InternalError","details":)"
            R"({"causes":[{"message":"error executing command in container: no \"x\"\u000a"}]},)"
            R"("code":500})");
}

TEST(CommandStatusTest, BeforeV4OnlyFailuresAreSaid) {
  EXPECT_EQ(CommandStatus({model::ExitReport{}, {}}, "x", false), "");
  EXPECT_EQ(CommandStatus({{}, NotFound("gone")}, "doing it", false),
            "Internal error occurred: error doing it: gone");
}

class Recorder final : public ChannelEvents {
 public:
  void OnInput(std::string_view bytes) override { input += bytes; }
  void OnInputEnd() override { ++ends; }
  void OnSize(TerminalSize size) override { sizes.push_back(size); }
  std::string input;
  int ends = 0;
  std::vector<TerminalSize> sizes;
};

TEST(ChannelMessagesTest, InputComesInPieces) {
  ChannelReader reader(false, true);
  Recorder seen;
  EXPECT_TRUE(reader.Read("\0he"s, false, seen));
  EXPECT_TRUE(reader.Read("ll", false, seen));
  EXPECT_TRUE(reader.Read("o", true, seen));
  EXPECT_TRUE(reader.Read("\0"s, true, seen));  // empty is no end
  EXPECT_EQ(seen.input, "hello");
  EXPECT_EQ(seen.ends, 0);
  EXPECT_TRUE(reader.Read("\xff\0"s, true, seen));
  EXPECT_EQ(seen.ends, 1);
}

TEST(ChannelMessagesTest, CloseIsOfV5AndNamesOneChannel) {
  Recorder seen;
  EXPECT_FALSE(ChannelReader(false, false).Read("\xff\0"s, true, seen));
  EXPECT_FALSE(ChannelReader(false, true).Read("\xff"s, true, seen));
  EXPECT_FALSE(ChannelReader(false, true).Read("\xff\0\0"s, true, seen));
  EXPECT_FALSE(ChannelReader(false, true).Read("\xff\x05"s, true, seen));
  EXPECT_TRUE(ChannelReader(false, true).Read("\xff\x04"s, true, seen));
  EXPECT_EQ(seen.ends, 0);
}

TEST(ChannelMessagesTest, SizesAreAStreamOfObjects) {
  ChannelReader reader(false, true);
  Recorder seen;
  EXPECT_TRUE(reader.Read("\x04{\"Width\":80,\"Hei", true, seen));
  EXPECT_TRUE(reader.Read("\x04ght\":24}\n{\"Width\":0,\"Height\":0}\n", true, seen));
  EXPECT_TRUE(reader.Read("\x04{\"height\":1,\"width\":2}\n", true, seen));
  EXPECT_EQ(seen.sizes, (std::vector<TerminalSize>{{0, 0}, {1, 2}}));
  EXPECT_FALSE(reader.Read("\x04" + std::string(2000, '{'), true, seen));
}

TEST(ChannelMessagesTest, Base64) {
  ChannelReader reader(true, false);
  Recorder seen;
  EXPECT_TRUE(reader.Read("0aGV", false, seen));
  EXPECT_TRUE(reader.Read("sbG8=", true, seen));
  EXPECT_EQ(seen.input, "hello");
  EXPECT_FALSE(reader.Read("0aGV", true, seen) && reader.Read("0a", true, seen));
  EXPECT_FALSE(ChannelReader(true, false).Read("xaGVs", true, seen));
  EXPECT_EQ(ChannelMessage(kStdoutChannel, "hello", true), "1aGVsbG8=");
  EXPECT_EQ(ChannelMessage(kStderrChannel, "x", false), "\x02x");
}

// ---- SPDY ------------------------------------------------------------------------------------

class SpdyRecorder final : public SpdyEvents {
 public:
  void OnOpen(uint32_t stream, SpdyHeaders headers, bool last) override {
    log += "open " + std::to_string(stream) + (last ? " last" : "");
    for (const auto& [name, value] : headers) log += " " + name + "=" + value;
    log += "\n";
  }
  void OnData(uint32_t stream, std::string_view bytes, bool last) override {
    data[stream] += bytes;
    if (last) log += "end " + std::to_string(stream) + "\n";
  }
  void OnReset(uint32_t stream) override { log += "reset " + std::to_string(stream) + "\n"; }
  void OnPing(uint32_t id) override { log += "ping " + std::to_string(id) + "\n"; }
  void OnGoAway() override { log += "goaway\n"; }
  std::string log;
  std::map<uint32_t, std::string> data;
};

std::string Conversation() {
  SpdyHeaderWriter headers;
  const std::string first = SynStream(headers, 1, {{"streamtype", "error"}}, true);
  const std::string second = SynStream(headers, 3, {{"streamtype", "data"}, {"port", "80"}});
  return first + second + SpdyWriter::Data(3, "hello", false) + SpdyWriter::Ping(1) +
         SpdyWriter::Data(3, "", true) + SpdyWriter::Reset(1, SpdyReset::kCancel) +
         SpdyWriter::GoAway(3);
}

TEST(SpdyFramesTest, FramesHoweverTheyAreCut) {
  const std::string bytes = Conversation();
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, bytes.size()}) {
    SpdyReader reader;
    SpdyRecorder seen;
    for (size_t at = 0; at < bytes.size(); at += step) {
      ASSERT_TRUE(reader.Read(std::string_view(bytes).substr(at, step), seen));
    }
    EXPECT_EQ(seen.log,
              "open 1 last streamtype=error\nopen 3 port=80 streamtype=data\nping 1\nend 3\n"
              "reset 1\ngoaway\n");
    EXPECT_EQ(seen.data[3], "hello");
  }
}

// Captured from a kubectl: control-plane 7.5.
TEST(SpdyFramesTest, DictionaryIsTheProtocols) {
  SpdyHeaderWriter writer;
  const std::string block = *writer.Write({{"streamtype", "error"}});
  EXPECT_EQ(block.substr(2, 4), "\xe3\xc6\xa7\xc2"s);
  EXPECT_EQ(block.substr(block.size() - 4), "\0\0\xff\xff"s);
}

TEST(SpdyFramesTest, RefusesWhatBreaksTheProtocol) {
  SpdyHeaderWriter headers;
  const std::string two = SynStream(headers, 3, {{"a", "b"}});
  const std::vector<std::string> bad{
      Number(0x80020001) + Number(0),              // version 2
      Number(0x80030001) + Number(0x10001),        // a control frame of more than 64 KiB
      Number(0x80030001) + Number(4) + Number(1),  // cut short
      Number(0x80030002) + Number(4) + Number(1),  // a reply
      Number(0x80030003) + Number(0),              // a reset of nothing
      Number(0x80030001) + Number(10) + Number(2) + Number(0) + "\0\0"s,      // an even stream
      Number(0x80030001) + Number(14) + Number(1) + Number(0) + "\0\0abcd"s,  // no zlib
  };
  for (const std::string& bytes : bad) {
    SpdyReader reader;
    SpdyRecorder seen;
    EXPECT_FALSE(reader.Read(bytes, seen));
    EXPECT_EQ(seen.log, "");
  }
  SpdyReader reader;
  SpdyRecorder seen;
  EXPECT_TRUE(reader.Read(two, seen));
  EXPECT_FALSE(reader.Read(two, seen));  // a stream twice
}

TEST(SpdyFramesTest, BombIsNotUnpacked) {
  SpdyHeaderWriter writer;
  const std::string block = *writer.Write({{"bomb", std::string(20 << 20, 'x')}});
  ASSERT_LT(block.size(), SpdyReader::kMaxControl);
  SpdyHeaderReader reader;
  const auto read = reader.Read(block);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message(), "SPDY headers: more than 256 KiB");
}

TEST(SpdyFramesTest, CountsOfHeadersAreBounded) {
  SpdyHeaders many;
  for (int i = 0; i < 300; ++i) many["h" + std::to_string(i)] = "";
  SpdyHeaderWriter writer;
  EXPECT_FALSE(SpdyHeaderReader().Read(*writer.Write(many)));
}

}  // namespace
}  // namespace holdfast::agent::streams
