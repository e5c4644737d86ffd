// SPDX-License-Identifier: Apache-2.0
#include "agent/lease/lease_keeper.h"

#include <sys/random.h>

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <thread>

#include "agent/cluster/api_client.h"
#include "agent/lease/lease_requests.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"
#include "holdfast/sys/thread.h"

namespace holdfast::agent {
namespace {

namespace asio = boost::asio;
using netproxy::announce::AddressLease;
using netproxy::announce::LeaseRecord;
using netproxy::announce::LeaseRequest;
using LeasePtr = std::shared_ptr<AddressLease>;  // of the keeper and of who answers

// Less than a holder may answer without a renewal, so that one which hangs is given up in time.
constexpr std::chrono::milliseconds kRequestLimit{1000};
constexpr std::chrono::milliseconds kTurnEvery{100};
constexpr std::chrono::milliseconds kGiveBackLimit{1000};

}  // namespace

class LeaseKeeper::Impl {
 public:
  Impl(LeaseKeeperOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock) {}

  ~Impl() {
    asio::post(io_, [this] { Stop(); });
    if (thread_.joinable()) thread_.join();
  }

  Result<void> Start() {
    ASSIGN_OR_RETURN(api_, ApiClient::Make(io_, options_.server, kRequestLimit));
    ASSIGN_OR_RETURN(thread_, sys::StartThread("lease-keeper", [this] { io_.run(); }));
    return {};
  }

  LeasePtr LeaseOf(const IpAddress& address) {
    const std::lock_guard lock(mutex_);
    LeasePtr& lease = leases_[address];
    if (lease == nullptr) lease = std::make_shared<AddressLease>(options_.identity);
    if (leases_.size() == 1) asio::post(io_, [this] { TurnSoon(); });
    return lease;
  }

 private:
  void TurnSoon() {
    if (turning_) return;
    turning_ = true;
    turn_.expires_after(kTurnEvery);
    turn_.async_wait([this](const boost::system::error_code&) {
      turning_ = false;
      Turn();
    });
  }

  // While there are Leases; none wakes nobody up.
  void Turn() {
    const bool stopping = stop_at_ != BootTime();
    const auto leases = Living();
    if (stopping && (leases.empty() || clock_.Boot() >= stop_at_)) return End();
    for (const auto& [address, lease] : leases) Advance(address, lease);
    if (!leases.empty()) TurnSoon();
  }

  // Those that somebody has, or that are still to be given back.
  std::map<IpAddress, LeasePtr> Living() {
    const std::lock_guard lock(mutex_);
    std::erase_if(leases_, [](const auto& entry) {
      return entry.second.use_count() == 1 && entry.second->IsIdle();
    });
    return leases_;
  }

  void Advance(const IpAddress& address, const LeasePtr& lease) {
    const auto request = lease->Next(clock_.Boot(), clock_.Wall());
    if (!request) return;
    if (request->kind != LeaseRequest::Kind::kGet) PassPausePoint(*request);
    const ApiRequest call = ToApiRequest(address, *request);
    api_->Send(call, [this, address, lease, call](const Result<ApiAnswer>& answer) {
      const auto record = answer ? ReadLease(*answer, call) : Result<LeaseRecord>(answer.error());
      const std::string news = lease->Done(record, clock_.Boot());
      if (!news.empty()) options_.log(StrCat("lease of ", address.ToString(), ": ", news));
    });
  }

  void PassPausePoint(const LeaseRequest& request) const {
    if (request.record.holder.empty()) {
      HOLDFAST_PAUSE_POINT("announce.lease-give-back");
    } else if (request.record.acquired == request.record.renewed) {
      HOLDFAST_PAUSE_POINT("announce.lease-take");
    } else {
      HOLDFAST_PAUSE_POINT("announce.lease-renew");
    }
  }

  void Stop() {
    stop_at_ = clock_.Boot() + kGiveBackLimit;
    turn_.cancel();
    if (!turning_) Turn();
  }

  void End() {
    api_.reset();
    work_.reset();
    io_.stop();
  }

  const LeaseKeeperOptions options_;
  const Clock& clock_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_ = asio::make_work_guard(io_);
  asio::steady_timer turn_{io_};
  std::unique_ptr<ApiClient> api_;
  bool turning_ = false;
  BootTime stop_at_;  // zero: not stopping
  std::mutex mutex_;  // guards leases_
  std::map<IpAddress, LeasePtr> leases_;
  std::thread thread_;
};

LeaseKeeper::LeaseKeeper(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LeaseKeeper::~LeaseKeeper() = default;

Result<std::unique_ptr<LeaseKeeper>> LeaseKeeper::Start(LeaseKeeperOptions options,
                                                        const Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options), clock);
  RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<LeaseKeeper>(new LeaseKeeper(std::move(impl)));
}

LeasePtr LeaseKeeper::LeaseOf(const IpAddress& address) { return impl_->LeaseOf(address); }

Result<std::string> NewLeaseIdentity(const std::string& node_name) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::array<unsigned char, 8> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return Error::FromErrno(errno, "getrandom");
  }
  std::string out = node_name + "/";
  for (const unsigned char byte : random) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

}  // namespace holdfast::agent
