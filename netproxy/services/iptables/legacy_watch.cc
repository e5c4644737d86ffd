// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/iptables/legacy_watch.h"

#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/base/unique_fd.h"
#include "netproxy/services/iptables/names.h"

namespace holdfast::netproxy::iptables {
namespace {

constexpr long kPeriodNs = 300'000'000;

// The kernel's answer about each table; all zero for one that is not there.
using Shape = std::array<ipt_getinfo, kTables>;
static_assert(sizeof(ipt_getinfo) == sizeof(ip6t_getinfo) &&
              offsetof(ipt_getinfo, size) == offsetof(ip6t_getinfo, size) &&
              IPT_SO_GET_INFO == IP6T_SO_GET_INFO);

bool Same(const Shape& a, const Shape& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

class LegacyWatch : public IptablesWatch {
 public:
  // Without IPv6 there is no second socket.
  LegacyWatch(UniqueFd timer, UniqueFd v4, UniqueFd v6)
      : timer_(std::move(timer)), sockets_{std::move(v4), std::move(v6)} {}

  int fd() const override { return timer_.get(); }

  Result<bool> Drain() override {
    uint64_t times = 0;
    if (::read(timer_.get(), &times, sizeof times) < 0 && errno != EAGAIN && errno != EINTR) {
      return Error::FromErrno(errno, "read timer of the watch of xtables");
    }
    const std::lock_guard lock(mutex_);
    if (writing_) return false;
    bool touched = false;
    for (const bool v6 : {false, true}) {
      if (!known_[v6]) continue;
      const Shape now = Look(v6);
      touched |= !Same(now, *known_[v6]);
      known_[v6] = now;
    }
    return touched;
  }

  void Reading(bool v6) override {
    const std::lock_guard lock(mutex_);
    known_[v6] = Look(v6);
  }
  void Writing(bool, pid_t) override {
    const std::lock_guard lock(mutex_);
    writing_ = true;
  }
  void Written(bool v6) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    known_[v6] = Look(v6);
  }

 private:
  Shape Look(bool v6) const {
    Shape shape;
    std::memset(&shape, 0, sizeof shape);
    for (const Table table : kAllTables) {
      ipt_getinfo& info = shape[static_cast<size_t>(table)];
      const std::string name(ToString(table));
      std::memcpy(info.name, name.c_str(), name.size() + 1);
      socklen_t size = sizeof info;
      if (::getsockopt(sockets_[v6].get(), v6 ? int{IPPROTO_IPV6} : int{IPPROTO_IP},
                       IPT_SO_GET_INFO, &info, &size) != 0) {
        std::memset(&info, 0, sizeof info);
      }
    }
    return shape;
  }

  const UniqueFd timer_;
  const std::array<UniqueFd, 2> sockets_;
  std::mutex mutex_;  // guards what follows
  bool writing_ = false;
  std::array<std::optional<Shape>, 2> known_;  // of families that we read or wrote
};

}  // namespace

Result<std::shared_ptr<IptablesWatch>> OpenLegacyWatch() {
  UniqueFd timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec period{};
  period.it_value.tv_nsec = period.it_interval.tv_nsec = kPeriodNs;
  if (!timer || ::timerfd_settime(timer.get(), 0, &period, nullptr) != 0) {
    return Error::FromErrno(errno, "timer for the watch of xtables");
  }
  UniqueFd v4(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  if (!v4) return Error::FromErrno(errno, "socket for the watch of xtables");
  UniqueFd v6(::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
  return std::make_shared<LegacyWatch>(std::move(timer), std::move(v4), std::move(v6));
}

}  // namespace holdfast::netproxy::iptables
