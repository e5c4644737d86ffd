// SPDX-License-Identifier: Apache-2.0
// exec and port-forward over SPDY/3.1, bare and as the bytes of a WebSocket.
#include "tests/unit/agent/api/kubelet/streams/spdy_bytes.h"
#include "tests/unit/agent/api/kubelet/streams/streams_fixture.h"

namespace holdfast::agent::streams {
namespace {

using namespace std::string_literals;

// What a server sends.
class SpdyClientReader {
 public:
  struct Stream {
    bool replied = false;
    bool ended = false;
    bool reset = false;
    std::string data;
  };

  void Read(std::string_view bytes) {
    rest_ += bytes;
    while (rest_.size() >= 8) {
      const size_t size = Number(5, 3);
      if (rest_.size() < 8 + size) return;
      Frame(rest_.substr(8, size));
      rest_.erase(0, 8 + size);
    }
  }
  std::map<uint32_t, Stream> streams;
  std::vector<uint32_t> pings;
  bool goaway = false;

 private:
  uint32_t Number(size_t at, size_t size) const {
    uint32_t value = 0;
    for (size_t i = 0; i < size; ++i) value = value << 8 | static_cast<uint8_t>(rest_[at + i]);
    return value;
  }
  void Frame(const std::string& body) {
    const bool last = (rest_[4] & 1) != 0;
    if ((rest_[0] & 0x80) == 0) {
      Stream& stream = streams[Number(0, 4)];
      stream.data += body;
      stream.ended = stream.ended || last;
      return;
    }
    const uint32_t id = Number(8, 4);
    switch (Number(2, 2)) {
      case 2:
        streams[id].replied = true;
        break;
      case 3:
        streams[id].reset = true;
        break;
      case 6:
        pings.push_back(id);
        break;
      case 7:
        goaway = true;
        break;
    }
  }
  std::string rest_;
};

class SpdyTest : public StreamsFixture {
 protected:
  // A connection after 101.
  void Upgrade(const std::string& target, const std::string& protocol) {
    client_ = Connect();
    const std::string request =
        "POST " + target + " HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n" +
        "Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v5.channel.k8s.io\r\n" +
        "X-Stream-Protocol-Version: " + protocol + "\r\nContent-Length: 0\r\n\r\n";
    asio::write(*client_, asio::buffer(request));
    beast::flat_buffer buffer;
    http::response_parser<http::empty_body> parser;
    http::read_header(*client_, buffer, parser);
    ASSERT_EQ(parser.get().result_int(), 101u);
    EXPECT_EQ(parser.get()["X-Stream-Protocol-Version"], protocol);
    EXPECT_EQ(parser.get()[http::field::upgrade], "SPDY/3.1");
    const std::string early = beast::buffers_to_string(buffer.data());
    seen_.Read(early);
  }

  virtual void Send(const std::string& bytes) { asio::write(*client_, asio::buffer(bytes)); }
  // False at the end.
  virtual bool Receive() {
    char piece[65536];
    boost::system::error_code error;
    const size_t size = client_->read_some(asio::buffer(piece), error);
    seen_.Read({piece, size});
    return !error;
  }
  void ReceiveUntil(const std::function<bool()>& holds) {
    while (!holds()) ASSERT_TRUE(Receive());
  }

  void OpenStream(uint32_t id, const SpdyHeaders& headers, bool last = false) {
    Send(SynStream(headers_, id, headers, last));
    ReceiveUntil([&] { return seen_.streams[id].replied || seen_.streams[id].reset; });
  }
  void OpenPair(uint32_t id, uint16_t port, const std::string& request) {
    OpenStream(id,
               {{"streamtype", "error"}, {"port", std::to_string(port)}, {"requestid", request}},
               true);
    OpenStream(id + 2,
               {{"streamtype", "data"}, {"port", std::to_string(port)}, {"requestid", request}});
  }

  std::unique_ptr<TlsClient> client_;
  SpdyHeaderWriter headers_;
  SpdyClientReader seen_;
};

TEST_F(SpdyTest, ExecWithInputAndExitCode) {
  Upgrade(
      "/exec/default/web/app?command=sh&command=-c&command=cat%3Becho%20e%20%3E%262%3Bexit%209&"
      "input=1&output=1&error=1",
      "v4.channel.k8s.io");
  OpenStream(1, {{"streamtype", "error"}});
  OpenStream(3, {{"streamtype", "stdin"}});
  OpenStream(5, {{"streamtype", "stdout"}});
  OpenStream(7, {{"streamtype", "stderr"}});
  Send(SpdyWriter::Ping(1));
  Send(SpdyWriter::Data(3, "some input", false));
  Send(SpdyWriter::Data(3, "", true));
  while (Receive()) {
  }
  EXPECT_EQ(seen_.streams[5].data, "some input");
  EXPECT_EQ(seen_.streams[7].data, "e\n");
  EXPECT_NE(seen_.streams[1].data.find(R"("message":"9")"), std::string::npos);
  for (const uint32_t id : {1, 5, 7}) EXPECT_TRUE(seen_.streams[id].ended) << id;
  EXPECT_EQ(seen_.pings, std::vector<uint32_t>{1});
  EXPECT_TRUE(seen_.goaway);
}

TEST_F(SpdyTest, TerminalIsResizedByItsStream) {
  Upgrade("/exec/default/web/app?command=stty&command=size&input=1&output=1&tty=1",
          "v3.channel.k8s.io");
  OpenStream(1, {{"streamtype", "error"}});
  OpenStream(3, {{"streamtype", "stdin"}});
  OpenStream(5, {{"streamtype", "stdout"}});
  OpenStream(7, {{"streamtype", "resize"}});
  Send(SpdyWriter::Data(7, "{\"Width\":101,\"Height\":33}\n", false));
  while (Receive()) {
  }
  EXPECT_EQ(seen_.streams[5].data, "33 101\r\n");
  EXPECT_EQ(seen_.streams[1].data, "");  // v3 says nothing of success
}

TEST_F(SpdyTest, StreamsThatNobodyAskedForAreRefused) {
  Upgrade("/exec/default/web/app?command=true&output=1", "v4.channel.k8s.io");
  OpenStream(1, {{"streamtype", "stdin"}});
  EXPECT_TRUE(seen_.streams[1].reset);
  OpenStream(3, {{"nothing", ""}});
  EXPECT_TRUE(seen_.streams[3].reset);
}

TEST_F(SpdyTest, MuchOutputIsComplete) {
  Upgrade(
      "/exec/default/web/app?command=head&command=-c&command=30000000&command=/dev/zero&output=1",
      "v4.channel.k8s.io");
  OpenStream(1, {{"streamtype", "error"}});
  OpenStream(3, {{"streamtype", "stdout"}});
  while (Receive()) {
  }
  EXPECT_EQ(seen_.streams[3].data.size(), 30'000'000u);
  EXPECT_NE(seen_.streams[1].data.find("Success"), std::string::npos);
}

TEST_F(SpdyTest, BrokenFramesAndFloodsEndTheConnection) {
  Upgrade("/exec/default/web/app?command=sleep&command=1000&output=1", "v4.channel.k8s.io");
  Send(Number(0x80030001) + Number(4) + Number(1));
  while (Receive()) {
  }
  EXPECT_TRUE(Eventually([this] { return Connections() == 0; }));
}

TEST_F(SpdyTest, PingsThatNobodyFetchesEndTheConnection) {
  Upgrade("/exec/default/web/app?command=sleep&command=1000&output=1", "v4.channel.k8s.io");
  std::string flood;
  for (int i = 0; i < 5000; ++i) flood += SpdyWriter::Ping(1);
  boost::system::error_code error;
  for (int i = 0; i < 2000 && !error; ++i) asio::write(*client_, asio::buffer(flood), error);
  EXPECT_TRUE(error);
}

// ---- port-forward ----------------------------------------------------------------------------

// Says back what it hears.
class Echo {
 public:
  Echo() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}), thread_([this] { Run(); }) {}
  ~Echo() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
    for (const auto& socket : sockets_) ::shutdown(socket->native_handle(), SHUT_RDWR);
    for (auto& each : served_) each.join();
  }
  uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void Run() {
    while (true) {
      boost::system::error_code error;
      auto socket = std::make_shared<asio::ip::tcp::socket>(io_);
      acceptor_.accept(*socket, error);
      if (error) return;
      sockets_.push_back(socket);
      served_.emplace_back([socket] {
        char piece[8192];
        boost::system::error_code failed;
        while (const size_t size = socket->read_some(asio::buffer(piece), failed)) {
          asio::write(*socket, asio::buffer(piece, size), failed);
          if (failed) return;
        }
        ::shutdown(socket->native_handle(), SHUT_WR);
      });
    }
  }
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<asio::ip::tcp::socket>> sockets_;
  std::vector<std::thread> served_;
  std::thread thread_;
};

TEST_F(SpdyTest, ForwardsSeveralConnections) {
  const Echo echo;
  Upgrade("/portForward/default/web", "portforward.k8s.io");
  OpenPair(1, echo.port(), "0");
  OpenPair(5, echo.port(), "1");
  Send(SpdyWriter::Data(7, "second", false));
  Send(SpdyWriter::Data(3, "first", false));
  ReceiveUntil(
      [&] { return seen_.streams[3].data == "first" && seen_.streams[7].data == "second"; });
  Send(SpdyWriter::Data(3, "", true));  // half closed: the echo ends too
  ReceiveUntil([&] { return seen_.streams[3].ended && seen_.streams[1].ended; });
  EXPECT_FALSE(seen_.streams[7].ended);
  Send(SpdyWriter::Data(7, " more", false));
  ReceiveUntil([&] { return seen_.streams[7].data == "second more"; });
  EXPECT_EQ(seen_.streams[1].data, "");
}

TEST_F(SpdyTest, RefusedPortIsToldAndTheOthersGoOn) {
  const Echo echo;
  uint16_t nobody = 0;
  {
    asio::ip::tcp::acceptor taken(client_io_, {asio::ip::address_v4::loopback(), 0});
    nobody = taken.local_endpoint().port();
  }
  Upgrade("/portForward/default/web", "portforward.k8s.io");
  OpenPair(1, nobody, "0");
  ReceiveUntil([&] { return seen_.streams[1].ended; });
  EXPECT_EQ(seen_.streams[1].data, "error forwarding port " + std::to_string(nobody) +
                                       " to pod web_default, uid uid-web: dial tcp 127.0.0.1:" +
                                       std::to_string(nobody) + ": connect: connection refused");
  OpenPair(5, echo.port(), "1");
  Send(SpdyWriter::Data(7, "still here", false));
  ReceiveUntil([&] { return seen_.streams[7].data == "still here"; });
}

TEST_F(SpdyTest, ResetEndsOneConnectionOnly) {
  const Echo echo;
  Upgrade("/portForward/default/web", "portforward.k8s.io");
  OpenPair(1, echo.port(), "0");
  OpenPair(5, echo.port(), "1");
  Send(SpdyWriter::Reset(3, SpdyReset::kCancel));
  Send(SpdyWriter::Data(3, "to nobody", false));
  Send(SpdyWriter::Data(7, "x", false));
  ReceiveUntil([&] { return seen_.streams[7].data == "x"; });
}

TEST_F(SpdyTest, BadPairsAreRefused) {
  Upgrade("/portForward/default/web", "portforward.k8s.io");
  OpenStream(1, {{"streamtype", "data"}, {"port", "0"}});
  EXPECT_TRUE(seen_.streams[1].reset);
  OpenStream(3, {{"streamtype", "other"}, {"port", "80"}});
  EXPECT_TRUE(seen_.streams[3].reset);
}

// The same within the messages of a WebSocket, cut wherever.
class TunnelTest : public SpdyTest {
 protected:
  void Send(const std::string& bytes) override {
    for (size_t at = 0; at < bytes.size(); at += 3) socket_->Send(bytes.substr(at, 3));
  }
  bool Receive() override {
    const std::string message = socket_->Receive();
    seen_.Read(message);
    return !message.empty();
  }
  std::unique_ptr<WebClient> socket_;
};

TEST_F(TunnelTest, PortForward) {
  const Echo echo;
  socket_ = Open("/portForward/default/web", "SPDY/3.1+portforward.k8s.io");
  EXPECT_EQ(socket_->answer[http::field::sec_websocket_protocol], "SPDY/3.1+portforward.k8s.io");
  OpenPair(1, echo.port(), "0");
  Send(SpdyWriter::Data(3, "through a tunnel", false));
  ReceiveUntil([&] { return seen_.streams[3].data == "through a tunnel"; });
  Send(SpdyWriter::Data(3, "", true));
  ReceiveUntil([&] { return seen_.streams[3].ended; });
}

TEST_F(TunnelTest, OldChannelsWithPortsInTheQuery) {
  const Echo echo;
  const std::string port = std::to_string(echo.port());
  socket_ = Open("/portForward/default/web?port=" + port, "v4.channel.k8s.io");
  const std::string number{static_cast<char>(echo.port() & 0xff),
                           static_cast<char>(echo.port() >> 8)};
  EXPECT_EQ(socket_->Receive(), "\0"s + number);
  EXPECT_EQ(socket_->Receive(), "\1" + number);
  socket_->Send("\0hello"s);
  EXPECT_EQ(socket_->Receive(), "\0hello"s);
}

}  // namespace
}  // namespace holdfast::agent::streams
