// SPDX-License-Identifier: Apache-2.0
// The kernel itself runs the programs, on a socket pair that carries frames.
#include "netproxy/announce/filter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>

#include "holdfast/base/unique_fd.h"
#include "netproxy/announce/frames.h"
#include "tests/support/ip.h"

namespace holdfast::netproxy::announce {
namespace {

using test_support::Ip;

class Filter {
 public:
  explicit Filter(std::vector<sock_filter> program) {
    std::array<int, 2> fds{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
    in_.Reset(fds[0]);
    out_.Reset(fds[1]);
    const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
    EXPECT_EQ(::setsockopt(out_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter), 0);
  }

  bool Passes(const Frame& frame) {
    (void)!::send(in_.get(), frame.data(), frame.size(), 0);  // EPERM when it is filtered out
    std::array<uint8_t, 2048> buffer{};
    const ssize_t got = ::recv(out_.get(), buffer.data(), buffer.size(), 0);
    EXPECT_TRUE(got < 0 || static_cast<size_t>(got) == frame.size());
    return got > 0;
  }

 private:
  UniqueFd in_;
  UniqueFd out_;
};

std::vector<Cidr> Ranges(const std::vector<std::string>& texts) {
  std::vector<Cidr> out;
  for (const std::string& text : texts) out.push_back(*Cidr::Parse(text));
  return out;
}

const Speaker kSpeaker = {{2, 0, 0, 0, 0, 1}, Ip("fe80::1"), 100};

TEST(FilterTest, ExactlyWhatIsAboutTheRangesPasses) {
  const auto ranges = Ranges({"198.51.100.128/25", "203.0.113.7/32", "2001:db8:100::/40",
                              "2001:db8:200::7/128", "fd00::/8"});
  Filter arp(ArpFilter(ranges));
  Filter neighbours(NeighbourFilter(ranges));
  for (const char* text :
       {"198.51.100.127", "198.51.100.128", "198.51.100.255", "198.51.101.0", "203.0.113.7",
        "203.0.113.6", "203.0.113.8", "2001:db8:100::1", "2001:db8:1ff::1", "2001:db8:ff::1",
        "2001:db8:200::7", "2001:db8:200::6", "2001:db8:200::107", "fd12::1", "fe12::1"}) {
    const IpAddress ip = Ip(text);
    const bool in = std::any_of(ranges.begin(), ranges.end(),
                                [&](const Cidr& range) { return range.Contains(ip); });
    Filter& filter = ip.v6 ? neighbours : arp;
    EXPECT_EQ(filter.Passes(Announcement(ip, kSpeaker)), in) << text;
    EXPECT_EQ(filter.Passes(Ask(ip, kSpeaker, std::nullopt)), in) << text;
    // Who asks for something else tells by it what it has.
    Speaker owner = kSpeaker;
    owner.link_local = ip;
    Frame frame = Ask(Ip(ip.v6 ? "2001:db8::9" : "192.0.2.9"), owner, std::nullopt);
    if (!ip.v6) std::copy_n(ip.bytes.begin(), 4, frame.begin() + 28);
    EXPECT_EQ(filter.Passes(frame), in) << text;
  }
}

TEST(FilterTest, OtherPacketsDoNotPass) {
  Filter neighbours(NeighbourFilter(Ranges({"::/0"})));
  Frame frame = Announcement(Ip("2001:db8::7"), kSpeaker);
  EXPECT_TRUE(neighbours.Passes(frame));
  frame[54] = 134;  // a router's advertisement
  EXPECT_FALSE(neighbours.Passes(frame));
  frame[54] = 136;
  frame[20] = 17;  // UDP
  EXPECT_FALSE(neighbours.Passes(frame));
  frame.resize(40);
  EXPECT_FALSE(neighbours.Passes(frame));
}

TEST(FilterTest, WithoutARangeNothingPasses) {
  Filter arp(ArpFilter({}));
  EXPECT_FALSE(arp.Passes(Announcement(Ip("198.51.100.7"), kSpeaker)));
  Filter all(ArpFilter(Ranges({"0.0.0.0/0"})));
  EXPECT_TRUE(all.Passes(Announcement(Ip("198.51.100.7"), kSpeaker)));
}

}  // namespace
}  // namespace holdfast::netproxy::announce
