// SPDX-License-Identifier: Apache-2.0
#include "netproxy/announce/segment.h"

#include <algorithm>

#include "holdfast/base/strings.h"
#include "holdfast/sys/pause_point.h"

namespace holdfast::netproxy::announce {
namespace {

constexpr int kFramesAtATime = 64;  // then the clock is looked at again

}  // namespace

void Segment::SetAddresses(const std::set<IpAddress>& addresses) {
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (addresses.contains(it->first)) {
      ++it;
      continue;
    }
    Release(it->first, it->second, "no Service has it here any more");
    it = entries_.erase(it);
  }
  for (const IpAddress& address : addresses) {
    const bool allowed = std::any_of(options_.ranges.begin(), options_.ranges.end(),
                                     [&](const Cidr& range) { return range.Contains(address); });
    if (allowed) entries_.try_emplace(address);
  }
  if (port_) JoinGroups();
}

Speaker Segment::Self() const { return {state_.mac, state_.link_local, options_.priority}; }

bool Segment::CanSpeak(const IpAddress& address) const {
  return !address.v6 || !state_.link_local.IsUnspecified();
}

void Segment::JoinGroups() {
  std::set<IpAddress> groups;
  for (const auto& [address, entry] : entries_) {
    if (address.v6) groups.insert(SolicitedNode(address));
  }
  if (const auto joined = port_->SetGroups(groups); !joined) {
    TellOfInterface(joined.error().message());
  }
}

void Segment::Fail(const std::string& why) {
  if (trouble_ != why) TellOfInterface(StrCat(why, ", trying again"));
  trouble_ = why;
  for (auto& [address, entry] : entries_) {
    if (entry.election) Tell(address, entry, entry.election->LoseSight(clock_.Boot()).news);
  }
}

Result<void> Segment::OpenPort() {
  ASSIGN_OR_RETURN(Port port, Port::Open(options_.interface, options_.ranges));
  port_ = std::move(port);
  state_ = {};
  return {};
}

// The interface is there and can be used, by the name it had before.
bool Segment::IsReady() {
  if (!port_) {
    if (const auto opened = OpenPort(); !opened) {
      Fail(opened.error().message());
      return false;
    }
    JoinGroups();
  }
  auto state = port_->Look();
  if (!state) {
    Fail(state.error().message());
    port_.reset();
    return false;
  }
  if (state->mac != state_.mac) {  // somebody new on the segment
    for (auto& [address, entry] : entries_) {
      Release(address, entry, "the interface has another hardware address");
    }
  }
  state_ = *state;
  if (!state_.running) {
    Fail("it is down or has no carrier");
    return false;
  }
  if (!trouble_.empty()) TellOfInterface("it can be used again");
  trouble_.clear();
  return true;
}

void Segment::Tick() {
  if (entries_.empty() || !IsReady()) return;
  for (auto& [address, entry] : entries_) {
    const BootTime now = clock_.Boot();
    if (!entry.election) entry.election = options_.elect(address, state_.mac, now);
    if (CanSpeak(address)) {
      Do(address, entry, entry.election->Tick(now));
    } else {
      Tell(address, entry, entry.election->LoseSight(now).news);
    }
  }
}

void Segment::TellOfInterface(const std::string& news) {
  news_.push_back({StrCat(options_.interface, ": ", news), options_.interface, {}, {}});
}

void Segment::Tell(const IpAddress& address, Entry& entry, const std::string& news) {
  const bool held = entry.election->MayAnswer(clock_.Boot());
  const bool changed = held != std::exchange(entry.held, held);
  if (held && changed) ++entry.taken;
  if (!changed && news.empty()) return;
  SegmentNews& told = news_.emplace_back();
  told.text = StrCat(address.ToString(), " on ", options_.interface, ": ",
                     news.empty() ? (held ? "held" : "not held any more") : news);
  told.interface = options_.interface;
  told.address = address;
  if (changed) told.held = held;
}

// Ends the election, which there is none of before the interface is there.
void Segment::Release(const IpAddress& address, Entry& entry, const std::string& why) {
  entry.election.reset();
  if (!std::exchange(entry.held, false)) return;
  const std::string text = StrCat(address.ToString(), " on ", options_.interface, ": ", why,
                                  "; this node answers for it no longer");
  news_.push_back({text, options_.interface, address, false});
}

void Segment::Do(const IpAddress& address, Entry& entry, const Deeds& deeds) {
  Tell(address, entry, deeds.news);
  if (deeds.ask) Send(address, entry, Ask(address, Self(), deeds.whom));
  if (!deeds.announce) return;
  HOLDFAST_PAUSE_POINT("announce.announce");
  // This thread may have stood still since the decision.
  if (entry.election->MayAnswer(clock_.Boot())) {
    Send(address, entry, Announcement(address, Self()));
  }
}

void Segment::Send(const IpAddress& address, Entry& entry, const Frame& frame) {
  if (const auto sent = port_->Send(frame); !sent) {
    Tell(address, entry, entry.election->LoseSight(clock_.Boot()).news);
    if (trouble_ != sent.error().message()) {
      TellOfInterface(sent.error().message());
    }
    trouble_ = sent.error().message();
  }
}

void Segment::Answer(const Question& question) {
  const auto found = entries_.find(question.address);
  if (found == entries_.end() || !found->second.election || question.mac == state_.mac) return;
  const Election& election = *found->second.election;
  if (!CanSpeak(question.address) || !election.MayAnswer(clock_.Boot())) return;
  const Frame answer = announce::Answer(question, Self());
  HOLDFAST_PAUSE_POINT("announce.answer");
  // The last thing before the frame goes: this thread may have stood still anywhere until here.
  if (!election.MayAnswer(clock_.Boot())) return;
  Send(question.address, found->second, answer);
  ++found->second.answers;
}

void Segment::Hear(std::span<const uint8_t> frame) {
  const Heard heard = Parse(frame);
  if (heard.claim && heard.claim->mac != state_.mac) {
    const auto found = entries_.find(heard.claim->address);
    if (found != entries_.end() && found->second.election) {
      Do(found->first, found->second, found->second.election->Hear(*heard.claim, clock_.Boot()));
    }
  }
  if (heard.question) Answer(*heard.question);
}

std::array<int, 2> Segment::fds() const {
  return port_ ? port_->fds() : std::array<int, 2>{-1, -1};
}

void Segment::Receive() {
  std::array<uint8_t, 2048> buffer{};
  for (const int fd : fds()) {
    for (int i = 0; fd >= 0 && i < kFramesAtATime; ++i) {
      const auto size = port_->Receive(fd, buffer);
      if (!size) return Fail(size.error().message());
      if (*size == 0) break;
      Hear(std::span(buffer).first(*size));
    }
  }
}

std::vector<AddressStatus> Segment::Status() const {
  std::vector<AddressStatus> out;
  const BootTime now = clock_.Boot();
  for (const auto& [address, entry] : entries_) {
    AddressStatus status{address, options_.interface, false, "", entry.answers, entry.taken};
    status.held = entry.election && entry.election->MayAnswer(now);
    if (!trouble_.empty()) {
      status.text = trouble_;
    } else if (!entry.election) {
      status.text = "nothing is known yet";
    } else if (!CanSpeak(address)) {
      status.text = "the interface has no link-local IPv6 address";
    } else {
      status.text = entry.election->Describe(now);
    }
    out.push_back(std::move(status));
  }
  return out;
}

}  // namespace holdfast::netproxy::announce
