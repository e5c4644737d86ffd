// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/spdy_forward.h"

#include <boost/asio/post.hpp>
#include <chrono>
#include <map>
#include <set>

#include "agent/api/kubelet/streams/spdy_connection.h"
#include "holdfast/base/strings.h"
#include "holdfast/base/whole_number.h"

namespace holdfast::agent::streams {
namespace {

constexpr std::chrono::seconds kPairLimit{30};  // from a pair's first stream to its second
constexpr size_t kMaxPairs = 1024;

// What a client says of a stream when it opens it.
struct StreamHead {
  bool is_data = false;
  uint16_t port = 0;
  std::string request;
};

std::optional<StreamHead> ReadHead(uint32_t stream, const SpdyHeaders& headers) {
  const auto value = [&headers](const char* name) {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  };
  const std::string type = value("streamtype");
  if (type != "data" && type != "error") return std::nullopt;
  const auto port = WholeNumber<uint16_t>(value("port"));
  if (port.value_or(0) == 0) return std::nullopt;
  StreamHead head{type == "data", *port, value("requestid")};
  // Old clients name none: the error stream comes first, its data stream next.
  if (head.request.empty()) head.request = StrCat("#", head.is_data ? stream - 2 : stream);
  return head;
}

class SpdyForward;

// One forwarded connection.
struct Pair final : public StreamPeer {
  explicit Pair(SpdyForward& of) : forward(of) {}
  void Write(StreamOutput, std::string bytes) override;
  void ReadOn() override;
  void Finish(const StreamEnd& end) override;

  SpdyForward& forward;
  std::string request;
  uint16_t port = 0;
  uint32_t error = 0;  // streams; 0: not opened yet
  uint32_t data = 0;
  std::shared_ptr<DescriptorSession> session;
  std::unique_ptr<boost::asio::steady_timer> limit;
};

class SpdyForward final : public StreamConnection,
                          public SpdyOwner,
                          public std::enable_shared_from_this<SpdyForward> {
 public:
  SpdyForward(StreamContext& context, const boost::asio::any_io_executor& executor,
              std::shared_ptr<ByteCarrier> carrier, PodForward target)
      : context_(context),
        executor_(executor),
        target_(std::move(target)),
        connection_(std::make_shared<SpdyConnection>(std::move(carrier), *this)) {}

  void Start() {
    self_ = shared_from_this();
    connection_->Start(executor_, context_.idle_limit);
  }

  void Drop() override {
    connection_->Drop();
    Over();
  }

  // ---- SpdyOwner -------------------------------------------------------------------------------

  std::optional<SpdyReset> Opened(uint32_t stream, const SpdyHeaders& headers) override {
    const auto head = ReadHead(stream, headers);
    if (!head) return SpdyReset::kProtocolError;
    if (!pairs_.contains(head->request) && pairs_.size() >= kMaxPairs) {
      return SpdyReset::kRefusedStream;
    }
    Pair& pair = PairOf(*head);
    uint32_t& place = head->is_data ? pair.data : pair.error;
    if (place != 0 || pair.port != head->port) return SpdyReset::kProtocolError;
    place = stream;
    if (head->is_data) by_data_[stream] = &pair;
    if (pair.data != 0 && pair.error != 0) Connect(pair);
    return std::nullopt;
  }

  void Received(uint32_t stream, std::string_view bytes, bool last) override {
    const auto found = by_data_.find(stream);
    if (found == by_data_.end() || !found->second->session) return;
    Pair& pair = *found->second;
    if (!bytes.empty() && !pair.session->Feed(bytes)) {
      full_.insert(&pair);
      connection_->Pause();
    }
    if (last) pair.session->EndInput();
  }

  // Of the data stream: this connection alone.
  void Reset(uint32_t stream) override {
    const auto found = by_data_.find(stream);
    if (found != by_data_.end()) Forget(*found->second);
  }

  void Lost() override { Over(); }

  // ---- of its pairs ----------------------------------------------------------------------------

  void Send(Pair& pair, const std::string& bytes) {
    connection_->Send(pair.data, bytes, false, [this, request = pair.request] {
      const auto found = pairs_.find(request);
      if (found != pairs_.end() && found->second->session) {
        found->second->session->Taken(StreamOutput::kStdout);
      }
    });
  }

  void HasRoom(Pair& pair) {
    if (full_.erase(&pair) > 0 && full_.empty()) connection_->Resume();
  }

  void Finish(Pair& pair, const StreamEnd& end) {
    const std::string text = end.error ? ForwardError(target_.pod, pair.port, *end.error) : "";
    connection_->Send(pair.error, text, true, nullptr);
    connection_->Send(pair.data, {}, true, nullptr);
    // Not from within one of its own calls.
    boost::asio::post(executor_, [self = shared_from_this(), request = pair.request] {
      const auto found = self->pairs_.find(request);
      if (found != self->pairs_.end()) self->Forget(*found->second);
    });
  }

 private:
  Pair& PairOf(const StreamHead& head) {
    auto& pair = pairs_[head.request];
    if (pair) return *pair;
    pair = std::make_unique<Pair>(*this);
    pair->request = head.request;
    pair->port = head.port;
    pair->limit = std::make_unique<boost::asio::steady_timer>(executor_, kPairLimit);
    pair->limit->async_wait([self = shared_from_this(), request = head.request](const auto& error) {
      if (!error) self->PairIsLate(request);
    });
    return *pair;
  }

  void Connect(Pair& pair) {
    pair.limit->cancel();
    pair.session = DescriptorSession::Make(executor_, context_.blocking, pair);
    pair.session->Open(PortOpener(context_, target_, pair.port));
  }

  void PairIsLate(const std::string& request) {
    const auto found = pairs_.find(request);
    if (found == pairs_.end() || found->second->session) return;
    if (found->second->error != 0) {
      connection_->Send(found->second->error,
                        StrCat("timeout waiting for the data stream of request ", request), true,
                        nullptr);
    }
    Forget(*found->second);
  }

  void Forget(Pair& pair) {
    if (pair.session) pair.session->Close();
    HasRoom(pair);
    by_data_.erase(pair.data);
    pairs_.erase(std::string(pair.request));
  }

  void Over() {
    for (auto& [request, pair] : pairs_) {
      pair->limit->cancel();
      if (pair->session) pair->session->Close();
    }
    if (!self_) return;
    // Not from within one of its own calls.
    boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
  }

  StreamContext& context_;
  const boost::asio::any_io_executor executor_;
  const PodForward target_;
  const std::shared_ptr<SpdyConnection> connection_;
  std::map<std::string, std::unique_ptr<Pair>> pairs_;  // by request
  std::map<uint32_t, Pair*> by_data_;
  std::set<Pair*> full_;               // why reading is paused
  std::shared_ptr<SpdyForward> self_;  // until it is over
};

void Pair::Write(StreamOutput, std::string bytes) { forward.Send(*this, bytes); }
void Pair::ReadOn() { forward.HasRoom(*this); }
void Pair::Finish(const StreamEnd& end) { forward.Finish(*this, end); }

}  // namespace

std::shared_ptr<StreamConnection> StartSpdyForward(StreamContext& context,
                                                   const boost::asio::any_io_executor& executor,
                                                   std::shared_ptr<ByteCarrier> carrier,
                                                   PodForward target) {
  auto forward =
      std::make_shared<SpdyForward>(context, executor, std::move(carrier), std::move(target));
  forward->Start();
  return forward;
}

}  // namespace holdfast::agent::streams
