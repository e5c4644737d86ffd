// SPDX-License-Identifier: Apache-2.0
#include "agent/cluster/cluster_api.h"

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "agent/cluster/call_internal.h"
#include "agent/cluster/lane_internal.h"
#include "agent/cluster/tls_internal.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {

namespace {

namespace asio = boost::asio;
namespace transport = runtime::http;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kLanes = 4;
constexpr size_t kMostObjectConnections = 16;  // 1280 streams
constexpr size_t kMostHttp1Watches = 20;
constexpr size_t kMostHttp1Connections = 24;
constexpr int kStatusUnauthorized = 401;

constexpr char kAcceptUnary[] = "application/vnd.kubernetes.protobuf,application/json";
constexpr char kAcceptWatch[] =
    "application/vnd.kubernetes.protobuf;stream=watch,application/vnd.kubernetes.protobuf,"
    "application/json;stream=watch,application/json";

size_t IndexOf(ApiLane lane) {
  switch (lane) {
    case ApiLane::kHeartbeat:
      return 0;
    case ApiLane::kPods:
      return 1;
    case ApiLane::kBulk:
    case ApiLane::kEvents:
      return 2;
    case ApiLane::kObjects:
      break;
  }
  return 3;
}

LaneOptions OptionsOf(size_t lane, const ClusterApiOptions& options) {
  LaneOptions out;
  const bool heartbeat = lane == IndexOf(ApiLane::kHeartbeat);
  if (lane == IndexOf(ApiLane::kObjects)) out.most_connections = kMostObjectConnections;
  out.most_http1_connections = heartbeat ? 2 : kMostHttp1Connections;
  out.dial_limit = options.dial_limit;
  out.first_back_off = options.first_back_off;
  out.longest_back_off = options.longest_back_off;
  out.connection = heartbeat ? options.heartbeat : options.connection;
  return out;
}

std::string Authority(const KubeConfig& config) {
  const bool v6 = config.host.find(':') != std::string::npos;
  return StrCat(v6 ? "[" : "", config.host, v6 ? "]" : "", ":", config.port);
}

// Whether a connection made by one is as good as one made by the other: a token goes with each request.
bool IsSameWay(const Result<KubeConfig>& a, const Result<KubeConfig>& b) {
  if (!a || !b || !a->certificate.file.empty() || !a->authority.file.empty()) return false;
  return a->host == b->host && a->port == b->port && a->tls_server_name == b->tls_server_name &&
         a->authority == b->authority && a->certificate == b->certificate && a->key == b->key;
}

}  // namespace

// What the thread works on. Everything but the io_context belongs to that thread once it runs.
class ClusterApi::Core : public CallHost, public LaneHost {
 public:
  explicit Core(ClusterApiOptions options)
      : options_(std::move(options)), config_(options_.config) {
    for (size_t i = 0; i < kLanes; ++i) {
      lanes_[i] = std::make_unique<Lane>(io_, *this, OptionsOf(i, options_));
    }
  }

  Result<void> Start() {
    if (config_) {
      RETURN_IF_ERROR(MakeTlsContext(*config_));
      RETURN_IF_ERROR(config_->BearerToken());
    }
    ASSIGN_OR_RETURN(thread_, sys::StartThread("api-server", [this] { io_.run(); }));
    return {};
  }

  void Stop() {
    asio::post(io_, [this] {
      stopped_ = true;
      rotation_.cancel();
      for (auto& lane : lanes_) lane.reset();
      io_.stop();
    });
    if (thread_.joinable()) thread_.join();
  }

  void Submit(const CallPtr& call) {
    asio::post(io_, [this, call] {
      if (stopped_) return;
      call->Arm();
      LaneOf(*call).Add(call);
    });
  }

  void CloseAll(const std::string& why) {
    for (auto& lane : lanes_) lane->Abort(Unavailable(why));
  }

  void SetConfig(Result<KubeConfig> config) {
    const bool same = IsSameWay(config_, config);
    config_ = std::move(config);
    token_.reset();
    if (same) return;
    ++generation_;
    for (auto& lane : lanes_) lane->Answered();  // what failed before says nothing about this one
    if (!rotating_) Rotate();
  }

  // --- CallHost ---
  asio::io_context& io() override { return io_; }
  void Answered(PendingCall& call, int status) override {
    LaneOf(call).Answered();
    if (status != kStatusUnauthorized) return;
    token_.reset();
    LaneOf(call).Retire(call.connection(), options_.credentials_last);
    options_.unauthorized();
  }
  void Again(const CallPtr& call) override {
    if (!stopped_) LaneOf(*call).Again(call);
  }
  void Left(const CallPtr& call) override {
    if (!stopped_) LaneOf(*call).Remove(call);
  }
  std::string Trouble(const PendingCall& call) override {
    return stopped_ ? "" : LaneOf(call).trouble();
  }

  // --- LaneHost ---
  Result<transport::DialOptions> DialTo() override {
    if (!config_) return config_.error();
    transport::DialOptions options;
    options.host = config_->host;
    options.port = config_->port;
    options.server_name = config_->tls_server_name;
    return options;
  }
  Result<asio::ssl::context> Tls() override {
    if (!config_) return config_.error();
    return MakeTlsContext(*config_);
  }
  uint64_t generation() const override { return generation_; }
  bool MayWatchByHttp1() override {
    size_t count = 0;
    for (const auto& lane : lanes_) count += lane->http1_watches();
    return count < kMostHttp1Watches;
  }
  Result<transport::Request> RequestOf(const PendingCall& call) override {
    if (!config_) return config_.error();
    ASSIGN_OR_RETURN(const std::string token, Token());
    transport::Request request;
    request.method = VerbName(call.call().verb);
    request.authority = Authority(*config_);
    request.path = config_->path + call.call().path;
    request.headers = {{"user-agent", "holdfast/" + options_.version},
                       {"accept", call.is_watch() ? kAcceptWatch : kAcceptUnary}};
    if (!token.empty()) request.headers.emplace_back("authorization", "Bearer " + token);
    if (!call.call().body.empty()) {
      request.headers.emplace_back("content-type", call.call().content_type);
      request.body = call.call().body;
    }
    if (call.is_watch()) request.body_limit = transport::kNoLimit;
    return request;
  }

 private:
  Lane& LaneOf(const PendingCall& call) { return *lanes_[IndexOf(call.call().lane)]; }

  Result<std::string> Token() {
    const auto now = steady_clock::now();
    if (!token_ || now - token_read_ >= options_.credentials_last) {
      ASSIGN_OR_RETURN(token_, config_->BearerToken());
      token_read_ = now;
    }
    return *token_;
  }

  // One connection, then a pause, while there is one with older credentials.
  void Rotate() {
    rotating_ = false;
    for (auto& lane : lanes_) rotating_ = rotating_ || lane->RetireOneBefore(generation_);
    if (!rotating_) return;
    rotation_.expires_after(options_.rotate_every);
    rotation_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled && !stopped_) Rotate();
    });
  }

  asio::io_context io_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work_ =
      asio::make_work_guard(io_);
  const ClusterApiOptions options_;
  Result<KubeConfig> config_;  // of the moment
  uint64_t generation_ = 1;
  std::optional<std::string> token_;
  steady_clock::time_point token_read_;
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
  asio::steady_timer rotation_{io_};
  bool rotating_ = false, stopped_ = false;
  std::thread thread_;
};

namespace {

// Of a call; the io_context outlives it through `core`.
class CallTicket : public Ticket {
 public:
  CallTicket(std::shared_ptr<CallHost> core, CallPtr call)
      : core_(std::move(core)), call_(std::move(call)) {}
  ~CallTicket() override {
    call_->Forget();
    asio::post(core_->io(), [call = call_] { call->Cancel(); });
  }

 private:
  const std::shared_ptr<CallHost> core_;
  const CallPtr call_;
};

struct DelayedWork {
  DelayedWork(asio::io_context& io, std::function<void()> w) : timer(io), work(std::move(w)) {}
  asio::steady_timer timer;
  std::function<void()> work;
  std::atomic<bool> forgotten{false};
};

class TimerTicket : public Ticket {
 public:
  TimerTicket(std::shared_ptr<CallHost> core, std::shared_ptr<DelayedWork> delayed)
      : core_(std::move(core)), delayed_(std::move(delayed)) {}
  ~TimerTicket() override {
    delayed_->forgotten = true;
    asio::post(core_->io(), [delayed = delayed_] { delayed->timer.cancel(); });
  }

 private:
  const std::shared_ptr<CallHost> core_;
  const std::shared_ptr<DelayedWork> delayed_;  // its timer has it, too
};

}  // namespace

ClusterApi::ClusterApi(std::shared_ptr<Core> core) : core_(std::move(core)) {}
ClusterApi::~ClusterApi() { core_->Stop(); }

Result<std::unique_ptr<ClusterApi>> ClusterApi::Start(ClusterApiOptions options) {
  auto core = std::make_shared<Core>(std::move(options));
  RETURN_IF_ERROR(core->Start());
  return std::unique_ptr<ClusterApi>(new ClusterApi(std::move(core)));
}

TicketPtr ClusterApi::Send(ApiCall call, Done done) {
  auto made = std::make_shared<UnaryCall>(*core_, std::move(call), std::move(done));
  core_->Submit(made);
  return std::make_unique<CallTicket>(core_, std::move(made));
}

TicketPtr ClusterApi::Watch(ApiCall call, Frame frame, std::function<void(Result<void>)> ended,
                            std::function<void(ApiReply)> refused) {
  auto made = std::make_shared<WatchCall>(
      *core_, std::move(call),
      WatchListener{std::move(frame), std::move(ended), std::move(refused)});
  core_->Submit(made);
  return std::make_unique<CallTicket>(core_, std::move(made));
}

void ClusterApi::Post(std::function<void()> work) { asio::post(core_->io(), std::move(work)); }

TicketPtr ClusterApi::After(milliseconds delay, std::function<void()> work) {
  const auto due = steady_clock::now() + delay;
  auto delayed = std::make_shared<DelayedWork>(core_->io(), std::move(work));
  asio::post(core_->io(), [delayed, due] {
    if (delayed->forgotten) return;
    delayed->timer.expires_at(due);
    delayed->timer.async_wait([delayed](const boost::system::error_code& cancelled) {
      if (!cancelled && !delayed->forgotten) delayed->work();
    });
  });
  return std::make_unique<TimerTicket>(core_, std::move(delayed));
}

void ClusterApi::CloseAll(const std::string& why) {
  asio::post(core_->io(), [core = core_.get(), why] { core->CloseAll(why); });
}

void ClusterApi::SetConfig(Result<KubeConfig> config) {
  asio::post(core_->io(), [core = core_.get(), config = std::move(config)]() mutable {
    core->SetConfig(std::move(config));
  });
}

}  // namespace holdfast::agent
