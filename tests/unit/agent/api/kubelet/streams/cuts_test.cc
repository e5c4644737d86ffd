// SPDX-License-Identifier: Apache-2.0
// Clients that are cut in every state of every protocol: after each thing that they say, and in the middle of it.
#include "tests/unit/agent/api/kubelet/streams/spdy_bytes.h"
#include "tests/unit/agent/api/kubelet/streams/streams_fixture.h"

namespace holdfast::agent::streams {
namespace {

using namespace std::string_literals;

// All that a client says, thing by thing; it hears nothing.
using Script = std::vector<std::string>;

std::string Head(const std::string& target, const std::string& upgrade, const std::string& more) {
  return "POST " + target +
         " HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: " + upgrade + "\r\n" + more +
         "\r\n";
}
std::string SpdyHead(const std::string& target, const std::string& protocol) {
  return Head(target, "SPDY/3.1",
              "Content-Length: 0\r\nX-Stream-Protocol-Version: " + protocol + "\r\n");
}
std::string WebHead(const std::string& target, const std::string& protocol) {
  std::string head =
      Head(target, "websocket",
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
           "Sec-WebSocket-Protocol: " +
               protocol + "\r\n");
  return head.replace(0, 4, "GET");
}

// Masked, as a client's; the mask is zero.
std::string Message(const std::string& text) {
  return "\x82" + std::string(1, static_cast<char>(0x80 | text.size())) + "\0\0\0\0"s + text;
}

Script WebExec() {
  return {WebHead("/exec/default/web/app?command=cat&input=1&output=1", "v5.channel.k8s.io"),
          Message("\4{\"Width\":80,\"Height\":24}"), Message("\0some input"s), Message("\xff\0"s),
          "\x88\x82\0\0\0\0\x03\xe8"s};
}
Script WebExecOfOneThatIsNotRead() {
  return {WebHead("/exec/default/web/app?command=yes&output=1", "v4.channel.k8s.io")};
}
Script WebExecOnATerminal() {
  return {
      WebHead("/exec/default/web/app?command=cat&input=1&output=1&tty=1", "base64.channel.k8s.io"),
      Message("0c29tZQ==")};
}
Script WebForward(const std::string& port) {
  return {WebHead("/portForward/default/web?port=" + port, "v4.channel.k8s.io"),
          Message("\0hello"s)};
}
Script SpdyExec() {
  SpdyHeaderWriter headers;
  return {SpdyHead("/exec/default/web/app?command=cat&input=1&output=1", "v4.channel.k8s.io"),
          SynStream(headers, 1, {{"streamtype", "error"}}),
          SynStream(headers, 3, {{"streamtype", "stdin"}}),
          SynStream(headers, 5, {{"streamtype", "stdout"}}),
          SpdyWriter::Data(3, "some input", false),
          SpdyWriter::Ping(1),
          SpdyWriter::Data(3, "", true),
          SpdyWriter::GoAway(0)};
}
Script SpdyPairs(const std::string& port) {
  SpdyHeaderWriter headers;
  const auto named = [&port](const char* type) {
    return SpdyHeaders{{"streamtype", type}, {"port", port}, {"requestid", "0"}};
  };
  return {SynStream(headers, 1, named("error"), true), SynStream(headers, 3, named("data")),
          SpdyWriter::Data(3, "hello", false), SpdyWriter::Data(3, "", true),
          SpdyWriter::Reset(3, SpdyReset::kCancel)};
}
Script SpdyForward(const std::string& port) {
  Script script = SpdyPairs(port);
  script.insert(script.begin(), SpdyHead("/portForward/default/web", "portforward.k8s.io"));
  return script;
}
Script Tunnel(const std::string& port) {
  Script script{WebHead("/portForward/default/web", "SPDY/3.1+portforward.k8s.io")};
  for (const std::string& frame : SpdyPairs(port)) script.push_back(Message(frame));
  return script;
}
Script RunOnce() {
  return {"POST /run/default/web/app?cmd=sleep+1000 HTTP/1.1\r\nHost: node\r\n\r\n"};
}

class CutsTest : public StreamsFixture {
 protected:
  // One that stops after so many bytes.
  std::unique_ptr<TlsClient> Say(const std::string& bytes) {
    auto client = Connect();
    asio::write(*client, asio::buffer(bytes));
    return client;
  }

  // As many clients as the script has places where one may be cut.
  void Begin(const Script& script) {
    std::string said;
    for (const std::string& thing : script) {
      clients_.push_back(Say(said + thing.substr(0, thing.size() / 2)));
      said += thing;
      clients_.push_back(Say(said));
    }
  }

  std::vector<std::unique_ptr<TlsClient>> clients_;
};

TEST_F(CutsTest, NothingIsLeftASecondAfterAnyCut) {
  Open("/exec/default/web/app?command=true&output=1")->ReceiveAll();  // what is made once is made
  ASSERT_TRUE(Eventually([this] { return Connections() == 0; }));
  asio::ip::tcp::acceptor listens(client_io_, {asio::ip::address_v4::loopback(), 0});
  CloseOnExec(listens);
  const std::string port = std::to_string(listens.local_endpoint().port());
  const size_t before = OpenDescriptors();
  const size_t threads = Threads();
  for (const Script& script :
       {WebExec(), WebExecOfOneThatIsNotRead(), WebExecOnATerminal(), WebForward(port), SpdyExec(),
        SpdyForward(port), Tunnel(port), RunOnce()}) {
    Begin(script);
  }
  EXPECT_TRUE(Eventually([] { return Children() >= 10; })) << "programs run";
  // Until each waits for what it never gets.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_GT(Connections(), 20u);
  const auto cut = std::chrono::steady_clock::now();
  for (auto& client : clients_) beast::get_lowest_layer(*client).close();
  EXPECT_TRUE(Eventually([this] { return Children() == 0 && Connections() == 0; }));
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before; }));
  EXPECT_LT(std::chrono::steady_clock::now() - cut, std::chrono::seconds(1));
  EXPECT_LE(Threads(), threads + 16) << "those that what blocks is done on";
}

}  // namespace
}  // namespace holdfast::agent::streams
