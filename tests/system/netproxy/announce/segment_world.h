// SPDX-License-Identifier: Apache-2.0
// One segment: a bridge with two nodes and a client, each in a network namespace of its own. A node
// is a process with an Announcer (this program again), to be killed and frozen. The client asks as
// any machine does, hears who answers, and its kernel keeps a neighbour table.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "holdfast/base/clock.h"
#include "holdfast/sys/netns.h"
#include "netproxy/announce/port.h"
#include "tests/support/killed_process.h"
#include "tests/system/netproxy/podnet/net_fixture.h"

namespace holdfast::netproxy::announce {

using std::chrono::milliseconds;

inline const std::vector<std::string> kAddresses = {"198.51.100.7", "2001:db8:100::7"};

inline MacAddress Mac(int machine) { return {2, 0, 0, 0, 1, static_cast<uint8_t>(machine)}; }

class SegmentWorld : public testing::Test {
 protected:
  static constexpr int kClient = 9;

  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    directory_ = std::filesystem::temp_directory_path() / "announce-XXXXXX";
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    auto hub = sys::NewNetworkNamespace();
    ASSERT_OK(hub);
    hub_ = std::move(*hub);
    In(hub_.get(), "ip link add br0 type bridge mcast_snooping 1 && ip link set br0 up");
    for (const int machine : {1, 2, kClient}) AddMachine(machine);
    ASSERT_OK(sys::RunInNetworkNamespace(machines_[kClient].get(), [this]() -> Result<void> {
      ASSIGN_OR_RETURN(Port port, Port::Open("eth0", kRanges));
      client_.emplace(std::move(port));
      return {};
    }));
  }

  void TearDown() override {
    for (auto& [machine, pid] : nodes_) Kill(machine);
    client_.reset();
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  static inline const std::vector<Cidr> kRanges = {*Cidr::Parse("198.51.100.0/24"),
                                                   *Cidr::Parse("2001:db8:100::/64")};
  static IpAddress Ip(const std::string& text) { return *IpAddress::Parse(text); }

  // --- Machines ---

  std::string In(int netns, const std::string& command) {
    std::string out;
    EXPECT_OK(sys::RunInNetworkNamespace(netns, [&]() -> Result<void> {
      out = Command(command);
      return {};
    }));
    return out;
  }

  void StartNode(int machine, int priority, const std::string& pause_at = "") {
    Kill(machine);
    std::vector<std::string> environment = {StrCat("ANNOUNCE_PRIORITY=", priority),
                                            StrCat("ANNOUNCE_PARENT=", ::getpid()),
                                            "HOLDFAST_PAUSE_DIR=" + directory_};
    if (!pause_at.empty()) environment.push_back("HOLDFAST_PAUSE_AT=" + pause_at);
    environment.insert(environment.end(), node_environment_.begin(), node_environment_.end());
    ASSERT_OK(sys::RunInNetworkNamespace(machines_[machine].get(), [&]() -> Result<void> {
      nodes_[machine] = test_support::StartDriver("Node.DISABLED_Announces", environment);
      return {};
    }));
  }
  void Signal(int machine, int signal) { ::kill(nodes_.at(machine), signal); }
  void Kill(int machine) {
    const auto found = nodes_.find(machine);
    if (found == nodes_.end() || found->second <= 0) return;
    ::kill(found->second, SIGKILL);
    ::waitpid(found->second, nullptr, 0);
    found->second = -1;
  }
  bool IsPausedAt(const std::string& point) const {
    return std::filesystem::exists(StrCat(directory_, "/", point, ".", nodes_.at(1)));
  }

  // --- The client ---

  void AskOnly(const std::string& address) {
    const Question question{Ip(address), Mac(kClient), ClientIp(address)};
    EXPECT_OK(client_->Send(RequestOf(question)));
  }
  // Whose claims to the address arrive within `time`.
  std::set<int> Hear(const std::string& address, milliseconds time) {
    std::set<int> heard;
    const BootTime end = clock_.Boot() + time;
    while (clock_.Boot() < end) {
      const int fd = client_->fds()[Ip(address).v6 ? 1 : 0];
      if (!WaitFor(fd, POLLIN, 20)) continue;
      const auto claim = Next(address);
      if (claim && claim->address == Ip(address)) heard.insert(claim->mac[5]);
    }
    return heard;
  }
  std::set<int> WhoAnswers(const std::string& address) {
    while (WaitFor(client_->fds()[Ip(address).v6 ? 1 : 0], POLLIN, 0)) Next(address);
    AskOnly(address);
    return Hear(address, milliseconds(200));
  }
  // Both families are answered by this machine and by no other.
  bool OnlyAnswers(int machine) {
    return std::all_of(kAddresses.begin(), kAddresses.end(), [&](const std::string& address) {
      return WhoAnswers(address) == std::set<int>{machine};
    });
  }

  // Asks for both addresses again and again, and notes who claims them, until `ready` says so or
  // the time is over; in the order in which the client's socket of the family got them.
  struct Heard {
    BootTime at;
    int machine = 0;
    std::string address;
  };
  std::vector<Heard> Watch(milliseconds deadline, const std::function<bool()>& ready) {
    std::vector<Heard> heard;
    for (const BootTime end = clock_.Boot() + deadline; clock_.Boot() < end && !ready();) {
      for (const std::string& address : kAddresses) {
        AskOnly(address);
        const int fd = client_->fds()[Ip(address).v6 ? 1 : 0];
        while (WaitFor(fd, POLLIN, 5)) {
          const auto claim = Next(address);
          if (!claim || claim->address != Ip(address)) continue;
          heard.push_back({clock_.Boot(), claim->mac[5], address});
        }
      }
    }
    return heard;
  }

  // Lets the client's kernel find the address.
  void Touch(const std::string& address) {
    const UniqueFd fd = Socket(machines_[kClient].get(), SOCK_DGRAM, AnyOf(address), 0, false);
    SockAddr to = SockAddr::Of(address, 9);
    (void)!::sendto(fd.get(), "x", 1, 0, to.get(), to.size);
  }
  // What the client's kernel believes; "" when it knows nothing.
  std::string Neighbour(const std::string& address) {
    const std::string line = In(machines_[kClient].get(), "ip neigh show to " + address);
    const size_t at = line.find("lladdr ");
    return at == std::string::npos ? "" : line.substr(at + 7, 17);
  }
  static std::string MacText(int machine) { return StrCat("02:00:00:00:01:0", machine); }

  // How long it took; nothing when it did not happen in time.
  std::optional<milliseconds> Until(milliseconds deadline, const std::function<bool()>& ready) {
    const BootTime began = clock_.Boot();
    while (clock_.Boot() - began <= deadline) {
      if (ready()) {
        return std::chrono::duration_cast<milliseconds>(clock_.Boot() - began);
      }
      ::usleep(20'000);
    }
    return std::nullopt;
  }

  SystemClock clock_;
  std::string directory_;
  NsFd hub_;
  std::map<int, NsFd> machines_;
  std::vector<std::string> node_environment_;  // further settings of StartNode()'s processes

 private:
  static IpAddress ClientIp(const std::string& address) {
    return Ip(address.find(':') == std::string::npos ? "198.51.100.9" : "2001:db8:100::9");
  }

  std::optional<Claim> Next(const std::string& address) {
    std::array<uint8_t, 2048> buffer{};
    const auto size = client_->Receive(client_->fds()[Ip(address).v6 ? 1 : 0], buffer);
    return size ? Parse(std::span(buffer).first(*size)).claim : std::nullopt;
  }

  // What a kernel sends to find an address.
  static Frame RequestOf(const Question& question) {
    const Speaker speaker{question.mac, question.asker, 0};
    Frame frame = Ask(question.address, speaker, std::nullopt);
    if (!question.asker.v6) {
      std::copy_n(question.asker.bytes.begin(), 4, frame.begin() + 28);
    }
    return frame;
  }

  void AddMachine(int machine) {
    auto made = sys::NewNetworkNamespace();
    ASSERT_OK(made);
    auto hub = sys::Rtnl::OpenIn(hub_.get());
    ASSERT_OK(hub);
    const std::string port = StrCat("p", machine);
    ASSERT_OK(hub->AddVeth({.name = port,
                            .mac = {2, 0, 0, 0, 2, static_cast<uint8_t>(machine)},
                            .mtu = 1500,
                            .peer_netns = made->get(),
                            .peer_name = "eth0",
                            .peer_mac = Mac(machine)}));
    In(hub_.get(), StrCat("ip link set ", port, " master br0 up"));
    In(made->get(),
       "ip link set lo up; ip link set eth0 up; sysctl -qw "
       "net.ipv6.conf.eth0.accept_dad=0");
    In(made->get(), StrCat("ip address add 198.51.100.", machine, "/24 dev eth0; ",
                           "ip address add 2001:db8:100::", machine, "/64 dev eth0 nodad"));
    machines_[machine] = std::move(*made);
  }

  std::map<int, pid_t> nodes_;
  std::optional<Port> client_;
};

}  // namespace holdfast::netproxy::announce
