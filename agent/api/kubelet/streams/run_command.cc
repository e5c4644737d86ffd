// SPDX-License-Identifier: Apache-2.0
#include <utility>  // before asio: Boost 1.74 uses std::exchange without including it

#include "agent/api/kubelet/streams/run_command.h"

#include <boost/asio/post.hpp>
#include <chrono>

#include "agent/api/kubelet/streams/http_answer.h"
#include "agent/api/kubelet/streams/line_watch.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::streams {
namespace {

constexpr size_t kMaxOutput = 4 << 20;

class RunCommand final : public StreamConnection,
                         public StreamPeer,
                         public std::enable_shared_from_this<RunCommand> {
 public:
  RunCommand(StreamContext& context, UpgradedConnection connection, CommandTarget target)
      : executor_(connection.stream.get_executor()),
        idle_limit_(context.idle_limit),
        connection_(std::move(connection)),
        session_(context, executor_, std::move(target), *this) {}

  void Start() {
    self_ = shared_from_this();
    boost::beast::get_lowest_layer(connection_.stream).expires_never();
    watch_ = LineWatch::Start(executor_, idle_limit_, [self = weak_from_this()] {
      if (const auto run = self.lock()) run->Drop();
    });
    watch_->NotReading(boost::beast::get_lowest_layer(connection_.stream).socket().native_handle());
    session_.Begin();
  }

  void Drop() override {
    if (!self_) return;  // it was answered: the connection is no longer here
    boost::beast::get_lowest_layer(connection_.stream).close();
    Over();
  }

  void Write(StreamOutput output, std::string bytes) override {
    if (output_.size() + bytes.size() > kMaxOutput)
      return AnswerWith(500, "more than 4 MiB of output");
    output_ += bytes;
    session_.Taken(output);
  }

  void ReadOn() override {}

  void Finish(const StreamEnd& end) override {
    if (end.error) return AnswerWith(500, end.error->message());
    const int code = end.exit ? end.exit->exit_code : 0;
    if (code != 0) return AnswerWith(500, StrCat("command terminated with exit code ", code));
    AnswerWith(200, std::move(output_));
  }

 private:
  void AnswerWith(unsigned status, std::string body) {
    watch_->Stop();
    Answer(std::move(connection_), status, status == 200 ? "application/json" : "text/plain",
           std::move(body));
    Over();
  }

  void Over() {
    session_.Close();
    watch_->Stop();
    if (!self_) return;
    boost::asio::post(executor_, [self = std::exchange(self_, nullptr)] {});
  }

  const boost::asio::any_io_executor executor_;
  const std::chrono::milliseconds idle_limit_;
  UpgradedConnection connection_;
  CommandSession session_;
  std::shared_ptr<LineWatch> watch_;
  std::string output_;
  std::shared_ptr<RunCommand> self_;  // until it is over
};

}  // namespace

std::shared_ptr<StreamConnection> StartRun(StreamContext& context, UpgradedConnection connection,
                                           CommandTarget target) {
  auto run = std::make_shared<RunCommand>(context, std::move(connection), std::move(target));
  run->Start();
  return run;
}

}  // namespace holdfast::agent::streams
