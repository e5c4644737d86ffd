// SPDX-License-Identifier: Apache-2.0
#include "netproxy/services/nft/book.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::netproxy::nft {
namespace {

using Kind = SetId::Kind;
using Domain = SetId::Domain;
using Side = SetId::Side;
using model::EndpointList;

const std::vector<model::Endpoint>& SlotsOf(const ServiceEntry& entry, EndpointList list) {
  return list == EndpointList::kCluster ? entry.cluster : entry.local;
}

bool IsShared(Kind kind) {
  return kind == Kind::kHairpin || kind == Kind::kClusterIps || kind == Kind::kMembers;
}

// Bit 1 << m for each mask m of the frontends that choose from `list`.
uint8_t MasksOf(const model::ServicePortRow& row, EndpointList list) {
  uint8_t out = 0;
  for (const model::Frontend& frontend : row.frontends) {
    if (frontend.inside != list && frontend.outside != list) continue;
    out = static_cast<uint8_t>(out | 1 << frontend.masquerade);
  }
  return out;
}

void ExpandAffinity(const ServiceEntry& entry, const model::Frontend& frontend, const Bytes& key,
                    Side side, EndpointList list, std::vector<SetElement>& out) {
  const model::ServicePortRow& row = *entry.row;
  const Domain domain = DomainOf(frontend);
  const uint32_t number = list == EndpointList::kCluster ? 0 : 1;
  out.push_back({{Kind::kSticky, domain, side, 0, 0},
                 {key, {}, StickyChain(row.key.name, number, frontend.masquerade)}});
  out.push_back(
      {{Kind::kRecord, domain, side, 0, 0}, {key, {}, RecordChain(row.key.name, number)}});
  const SetId members = MembersOf(row, list);
  for (const model::Endpoint& endpoint : SlotsOf(entry, list)) {
    out.push_back({members, {PackAddress(endpoint.ip) + PackPort(endpoint.port), {}, {}}});
  }
}

// The elements of one frontend for those who choose from `list`.
void ExpandSide(const ServiceEntry& entry, const model::Frontend& frontend, const Bytes& key,
                Side side, EndpointList list, std::vector<SetElement>& out) {
  const Domain domain = DomainOf(frontend);
  switch (model::AnswerOf(*entry.row, list)) {
    case model::FrontendAnswer::kRefuse:
      out.push_back({{Kind::kRefuse, domain, side, 0, 0}, {key, {}, {}}});
      return;
    case model::FrontendAnswer::kDiscard:
      out.push_back({{Kind::kDiscard, domain, side, 0, 0}, {key, {}, {}}});
      return;
    case model::FrontendAnswer::kServe:
      break;
  }
  const std::vector<model::Endpoint>& slots = SlotsOf(entry, list);
  const Side map_side = side == Side::kOutside ? Side::kOutside : Side::kBoth;
  const SetId map{Kind::kEndpoints, domain, map_side, 0, 0};
  for (uint32_t slot = 0; slot < slots.size(); ++slot) {
    Element element{key, {}, {}};
    element.key += PackNumber(slot);
    element.value = PackAddress(slots[slot].ip);
    element.value += PackPort(slots[slot].port);
    out.push_back({map, std::move(element)});
  }
  if (entry.row->affinity.count() != 0) ExpandAffinity(entry, frontend, key, side, list, out);
  const auto count = static_cast<uint32_t>(slots.size());
  out.push_back({{Kind::kServe, domain, side, frontend.masquerade, count}, {key, {}, {}}});
}

void ExpandFrontend(const ServiceEntry& entry, const model::Frontend& frontend,
                    std::vector<SetElement>& out) {
  const Bytes key = FrontendBytes(entry.row->protocol, frontend);
  if (frontend.inside == frontend.outside) {
    ExpandSide(entry, frontend, key, Side::kBoth, frontend.inside, out);
  } else {
    ExpandSide(entry, frontend, key, Side::kInside, frontend.inside, out);
    ExpandSide(entry, frontend, key, Side::kOutside, frontend.outside, out);
  }
  if (frontend.kind == model::FrontendKind::kClusterIp) {
    out.push_back({{Kind::kClusterIps, Domain::kAddress, Side::kBoth, 0, 0},
                   {PackAddress(frontend.address), {}, {}}});
  }
  if (!frontend.restricted) return;
  out.push_back({{Kind::kRestricted, Domain::kAddress, Side::kBoth, 0, 0}, {key, {}, {}}});
  for (const Cidr& range : frontend.source_ranges) {
    Element element{key, {}, {}};
    element.key += PackAddress(range.network);
    out.push_back(
        {{Kind::kAllowed, Domain::kAddress, Side::kBoth, 0, range.prefix}, std::move(element)});
  }
}

// The order of sets, and of keys within one; values do not count.
bool Before(const SetElement& a, const SetElement& b) {
  if (const auto order = a.set <=> b.set; order != 0) return order < 0;
  return a.element.key < b.element.key;
}

// Takes from both what is in both.
void DropCommon(std::vector<SetElement>& a, std::vector<SetElement>& b) {
  std::sort(a.begin(), a.end(), Before);
  std::sort(b.begin(), b.end(), Before);
  std::vector<SetElement> only_a;
  std::vector<SetElement> only_b;
  auto i = a.begin();
  auto j = b.begin();
  while (i != a.end() || j != b.end()) {
    if (j == b.end() || (i != a.end() && Before(*i, *j))) {
      only_a.push_back(std::move(*i++));
    } else if (i == a.end() || Before(*j, *i)) {
      only_b.push_back(std::move(*j++));
    } else {
      if (i->element != j->element) {
        only_a.push_back(std::move(*i));
        only_b.push_back(std::move(*j));
      }
      ++i;
      ++j;
    }
  }
  a = std::move(only_a);
  b = std::move(only_b);
}

}  // namespace

SetId MembersOf(const model::ServicePortRow& row, EndpointList list) {
  SetId id{Kind::kMembers, Domain::kAddress, Side::kBoth, MasksOf(row, list),
           list == EndpointList::kCluster ? 0u : 1u};
  id.protocol = static_cast<uint8_t>(row.protocol);
  id.seconds = static_cast<uint32_t>(row.affinity.count());
  id.service = row.key.name;
  return id;
}

SetId::Domain DomainOf(const model::Frontend& frontend) {
  return frontend.kind == model::FrontendKind::kNodePort ? Domain::kNodePort : Domain::kAddress;
}

Bytes FrontendBytes(model::L4Protocol protocol, const model::Frontend& frontend) {
  Bytes key;
  if (frontend.kind != model::FrontendKind::kNodePort) key += PackAddress(frontend.address);
  key += PackProtocol(static_cast<uint8_t>(protocol));
  key += PackPort(frontend.port);
  return key;
}

std::vector<model::Endpoint> Reslot(const std::vector<model::Endpoint>& before,
                                    const std::vector<model::Endpoint>& wanted) {
  std::vector<model::Endpoint> fresh = wanted;
  std::sort(fresh.begin(), fresh.end());
  std::vector<std::optional<model::Endpoint>> slots;
  for (const model::Endpoint& endpoint : before) {
    const auto it = std::lower_bound(fresh.begin(), fresh.end(), endpoint);
    const bool stays = it != fresh.end() && *it == endpoint;
    slots.push_back(stays ? std::optional(endpoint) : std::nullopt);
    if (stays) fresh.erase(it);
  }
  // New ones fill gaps, then go to the end; the last ones move into gaps that are left.
  auto next = fresh.begin();
  for (auto& slot : slots) {
    if (!slot && next != fresh.end()) slot = *next++;
  }
  slots.insert(slots.end(), next, fresh.end());
  for (size_t i = 0; i < slots.size();) {
    if (!slots.back()) {
      slots.pop_back();
    } else if (slots[i]) {
      ++i;
    } else {
      slots[i] = slots.back();
      slots.pop_back();
    }
  }
  std::vector<model::Endpoint> out;
  for (const auto& slot : slots) out.push_back(*slot);
  return out;
}

std::vector<SetElement> Expand(const ServiceEntry& entry) {
  std::vector<SetElement> out;
  out.reserve(entry.row->frontends.size() * (entry.cluster.size() + 2) + entry.local.size());
  for (const model::Frontend& frontend : entry.row->frontends) {
    ExpandFrontend(entry, frontend, out);
  }
  for (const model::Endpoint& endpoint : entry.row->local) {
    const std::string address = PackAddress(endpoint.ip);
    out.push_back(
        {{Kind::kHairpin, Domain::kAddress, Side::kBoth, 0, 0}, {address + address, {}, {}}});
  }
  return out;
}

ServiceBook::ServiceBook() {
  for (const auto& [id, size] : FixedSets()) sets_[id].size = size;
  needs_layout_ = true;
}

const ServiceEntry* ServiceBook::Find(const std::string& name) const {
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : &it->second;
}

ServiceEntry ServiceBook::Next(const model::ServicePortRowPtr& row) const {
  const ServiceEntry* before = Find(row->key.name);
  static const std::vector<model::Endpoint> kNone;
  return {row, Reslot(before == nullptr ? kNone : before->cluster, row->cluster),
          Reslot(before == nullptr ? kNone : before->local, row->local)};
}

// Counts the elements in or out; shared ones that somebody else names too are taken off the list.
void ServiceBook::Count(std::vector<SetElement>& elements, bool add) {
  std::erase_if(elements, [&](const SetElement& e) {
    if (!IsShared(e.set.kind)) return false;
    const auto it = shared_.try_emplace({e.set, e.element.key}, 0).first;
    if (add) return it->second++ != 0;
    if (--it->second != 0) return true;
    shared_.erase(it);
    return false;
  });
  for (const SetElement& e : elements) {
    const auto [it, fresh] = sets_.try_emplace(e.set);
    Usage& usage = it->second;
    if (add) {
      ++usage.used;
      if (usage.used * 4 > size_t{usage.size} * 3) needs_layout_ = true;
    } else {
      --usage.used;
    }
  }
}

std::optional<ServiceEntry> ServiceBook::Swap(const std::string& name,
                                              std::optional<ServiceEntry> next, Delta& delta) {
  std::optional<ServiceEntry> before;
  std::vector<SetElement> gone;
  std::vector<SetElement> added;
  const auto it = entries_.find(name);
  if (it != entries_.end()) {
    gone = Expand(it->second);
    before = std::move(it->second);
    if (!next) entries_.erase(it);
  }
  if (next) {
    added = Expand(*next);
    entries_[name] = std::move(*next);
  }
  DropCommon(gone, added);
  Count(gone, false);
  Count(added, true);
  std::move(gone.begin(), gone.end(), std::back_inserter(delta.gone));
  std::move(added.begin(), added.end(), std::back_inserter(delta.added));
  return before;
}

std::map<SetId, uint32_t> ServiceBook::TakeLayout(bool tidy) {
  const std::map<SetId, uint32_t> fixed = FixedSets();
  std::erase_if(sets_, [&](const auto& set) {
    return tidy && set.second.used == 0 && !fixed.contains(set.first);
  });
  std::map<SetId, uint32_t> out;
  for (auto& [id, usage] : sets_) {
    if (usage.size == 0 || usage.used * 4 > size_t{usage.size} * 3) {
      usage.size = SizeFor(id, usage.used);
    }
    out[id] = usage.size;
  }
  needs_layout_ = false;
  return out;
}

void ServiceBook::Adopt(const SetId& id, uint32_t size) {
  const auto it = sets_.find(id);
  if (it != sets_.end() && it->second.used * 4 <= size_t{size} * 3) it->second.size = size;
}

std::map<SetId, std::vector<Element>> ServiceBook::AllElements() const {
  std::map<SetId, std::vector<Element>> out;
  for (const auto& [name, entry] : entries_) {
    for (SetElement& e : Expand(entry)) {
      if (!IsShared(e.set.kind)) out[e.set].push_back(std::move(e.element));
    }
  }
  for (const auto& [key, count] : shared_) out[key.first].push_back({key.second, {}, {}});
  return out;
}

}  // namespace holdfast::netproxy::nft
