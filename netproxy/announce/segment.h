// SPDX-License-Identifier: Apache-2.0
// Segment: one interface on which addresses are answered for: it carries out what the elections
// want, and asks them before each single answer. Trouble with the interface is told and waited out.
// Works in the network namespace of the calling thread. One thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/base/clock.h"
#include "netproxy/announce/election.h"
#include "netproxy/announce/port.h"

namespace holdfast::netproxy::announce {

struct SegmentOptions {
  std::string interface;
  std::vector<Cidr> ranges;  // no address outside of these is ever answered for
  uint8_t priority = 100;
  // Who decides about an address; `own` is how this node shows itself on the segment.
  std::function<std::unique_ptr<Election>(const IpAddress& address, const MacAddress& own,
                                          BootTime now)>
      elect;
};

struct AddressStatus {
  IpAddress address;
  std::string interface;
  bool held = false;
  std::string text;  // for people
  uint64_t answers = 0;
  uint64_t taken = 0;  // how often this node became the holder
};

// What happened to an address, or to the interface.
struct SegmentNews {
  std::string text;  // for people: "198.51.100.7 on eth0: this node answers for it now"
  std::string interface;
  IpAddress address;              // what follows is about it
  std::optional<bool> held = {};  // this node began or ceased to answer
};

class Segment {
 public:
  // `clock` is borrowed.
  Segment(SegmentOptions options, const Clock& clock)
      : options_(std::move(options)), clock_(clock) {}

  void SetAddresses(const std::set<IpAddress>& addresses);
  // To be called every kTickEvery.
  void Tick();
  // Takes what waits at the descriptors; -1 stands for none.
  std::array<int, 2> fds() const;
  void Receive();

  std::vector<AddressStatus> Status() const;
  // What happened since the last call.
  std::vector<SegmentNews> TakeNews() { return std::exchange(news_, {}); }

 private:
  struct Entry {
    std::unique_ptr<Election> election;  // none before the interface is there
    bool held = false;
    uint64_t answers = 0;
    uint64_t taken = 0;
  };

  bool IsReady();
  Result<void> OpenPort();
  void Fail(const std::string& why);
  bool CanSpeak(const IpAddress& address) const;
  Speaker Self() const;
  void JoinGroups();
  void Hear(std::span<const uint8_t> frame);
  void Answer(const Question& question);
  void Do(const IpAddress& address, Entry& entry, const Deeds& deeds);
  void Send(const IpAddress& address, Entry& entry, const Frame& frame);
  void Tell(const IpAddress& address, Entry& entry, const std::string& news);
  void Release(const IpAddress& address, Entry& entry, const std::string& why);
  void TellOfInterface(const std::string& news);

  const SegmentOptions options_;
  const Clock& clock_;
  std::optional<Port> port_;
  PortState state_;
  std::string trouble_;  // with the interface; "" when there is none
  std::map<IpAddress, Entry> entries_;
  std::vector<SegmentNews> news_;
};

}  // namespace holdfast::netproxy::announce
