// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/runtime/netlink/targets.h"

#include <linux/netlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <vector>

#include "holdfast/base/unique_fd.h"
#include "holdfast/sys/genl.h"
#include "holdfast/sys/notifications.h"
#include "netproxy/nft/watch.h"
#include "runtime/sys/netlink/conntrack_internal.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

// A pair of datagram sockets in place of the kernel's.
struct Wire {
  UniqueFd kernel, ours;
  Wire() {
    int fds[2];
    const int made = ::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
    Require(made == 0, "there are sockets", {});
    kernel.Reset(fds[0]);
    ours.Reset(fds[1]);
  }
};

constexpr int kDeepest = 8;

size_t WalkAttributes(std::string_view attributes, int depth) {
  size_t seen = 0;
  sys::ForEachAttribute(attributes, [&](uint16_t, std::string_view payload) {
    Require(payload.size() <= attributes.size(), "a payload lies within", attributes);
    (void)sys::AttributeU16(payload);
    (void)sys::AttributeU32(payload);
    Require(sys::AttributeText(payload).size() <= payload.size(), "no text is made up", attributes);
    seen += payload.size();
    if (depth < kDeepest) WalkAttributes(payload, depth + 1);
  });
  return seen;
}

}  // namespace

void FuzzNotification(std::string_view input) {
  static const Wire wire;
  if (input.empty()) return;
  Require(::send(wire.kernel.get(), input.data(), input.size(), 0) >= 0, "it is sent", {});
  const auto is_news = [&](uint16_t type, std::string_view message) {
    const netproxy::nft::NftTouch touch = netproxy::nft::TouchOf(message, type);
    Require(touch.table.size() + touch.chain.size() <= message.size(), "names lie within", input);
    return false;  // all messages are looked at
  };
  const auto news = sys::DrainNotifications(wire.ours.get(), is_news, "fuzz");
  Require(news.has_value() && !*news, "nothing was news", input);
}

// The first byte chooses the family.
void FuzzTrackedFlow(std::string_view input) {
  if (input.empty()) return;
  const bool v6 = (input[0] & 1) != 0;
  input.remove_prefix(1);
  std::vector<char> message(NLMSG_HDRLEN + input.size());
  nlmsghdr header{};
  header.nlmsg_len = static_cast<uint32_t>(message.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!input.empty()) std::memcpy(message.data() + NLMSG_HDRLEN, input.data(), input.size());
  const auto flow =
      sys::ParseTrackedFlow(reinterpret_cast<const nlmsghdr*>(message.data()), v6, IPPROTO_UDP);
  if (flow) Require(flow->original.size() <= input.size(), "no name is made up", input);
}

void FuzzGenlAnswer(std::string_view input) {
  Require(WalkAttributes(input, 0) <= input.size(), "attributes do not overlap", input);
}

}  // namespace holdfast::fuzz
